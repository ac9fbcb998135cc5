"""One encoder for inputs and sets (E_SE, shared)."""

import pytest
import torch
from torch import Tensor

from desp.errors import SettingsError
from desp.predictors import DataShape, EnergyPredictor
from desp.scaling import FeatureScaling
from desp.settings import PaddingSettings, PredictorSettings, SetEncoderSettings

SETTINGS = PredictorSettings.contrastive(energy=SetEncoderSettings(hidden=8, latent=6, shared=True))
SCALING = FeatureScaling.from_range([-10.0, 100.0], [30.0, 105.0])


def built(rows: int = 4) -> EnergyPredictor:
    predictor = EnergyPredictor(SETTINGS)
    predictor.build(DataShape((rows, 3), features=2, max_size=4, scaling=SCALING, input_kind="set"))
    return predictor


def as_input(points: Tensor, rows: int = 4) -> Tensor:
    padded = torch.zeros(rows, 3)
    padded[: len(points), :2], padded[: len(points), 2] = points, 1.0
    return padded


@pytest.mark.parametrize("size", [0, 1, 3, 4])
def test_a_set_has_no_energy_for_itself_in_any_units(size: int) -> None:
    points = torch.rand(size, 2) * torch.tensor([40.0, 5.0]) + torch.tensor([-10.0, 100.0])
    predictor = built()
    assert float(predictor.energy(as_input(points), points)) == pytest.approx(0, abs=1e-12)
    assert float(predictor.energy(as_input(points), points.flip(0))) == pytest.approx(0, abs=1e-12)
    if size:
        assert float(predictor.energy(as_input(points), points + 1)) > 1e-6
    assert float(predictor.energy(as_input(points), torch.zeros(0 if size else 2, 2))) > 1e-6


def test_saved_and_loaded_it_gives_the_same_energies(tmp_path: object) -> None:
    predictor, points = built(), torch.tensor([[0.0, 101.0], [20.0, 104.0]])
    predictor.save_pretrained(str(tmp_path))
    loaded = EnergyPredictor.from_pretrained(str(tmp_path))
    assert torch.equal(loaded.energy(as_input(points), points + 1), predictor.energy(as_input(points), points + 1))


def test_inputs_are_padded_as_sets_are() -> None:
    with pytest.raises(SettingsError, match="padded as sets are, to 4 rows; got 6"):
        built(rows=6)


def test_absent_elements_are_marked_as_such() -> None:
    with pytest.raises(SettingsError, match="presence where"):
        PredictorSettings.contrastive(energy=SETTINGS.energy, padding=PaddingSettings(kind="zero"))
