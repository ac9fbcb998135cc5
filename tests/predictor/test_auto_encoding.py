"""One encoder for inputs and sets (E_SE, shared)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from desp.errors import DataError, SettingsError
from desp.paper.baselines import dspn, tspn
from desp.predictor import DataShape, SetPredictor
from desp.scaling import FeatureScaling
from desp.settings import (
    AttentionSettings,
    ContrastiveSettings,
    DataDescription,
    DenoiserSettings,
    EDMSettings,
    EnergyDenoisingSettings,
    MethodSettings,
    RepresentationSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
    SumPooledSetEncoderSettings,
    TrainingSettings,
)

SHARED = SetEncoderEnergySettings(hidden=8, latent=6, shared=True)
SETTINGS = ContrastiveSettings(energy=SHARED)
SCALING = FeatureScaling.from_range([-10.0, 100.0], [30.0, 105.0])


def built(rows: int = 4) -> SetPredictor:
    predictor = SetPredictor(SETTINGS)
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

    def energy(of: Tensor) -> float:
        return float(predictor.energy(as_input(points)[None], [of]))

    assert energy(points) == pytest.approx(0, abs=1e-12)
    assert energy(points.flip(0)) == pytest.approx(0, abs=1e-12)
    if size:
        assert energy(points + 1) > 1e-6
    assert energy(torch.zeros(0 if size else 2, 2)) > 1e-6


def test_an_outlier_is_clipped_in_inputs_as_in_sets(tmp_path: Path) -> None:
    shape = DataShape((4, 3), 2, 4, scaling=SCALING.clipped({0: (-10.0, 30.0)}), input_kind="set")
    predictor, points = SetPredictor(SETTINGS), torch.tensor([[1e6, 101.0], [20.0, 104.0]])
    predictor.build(shape)
    predictor.save_pretrained(tmp_path)
    for made in (predictor, SetPredictor.from_pretrained(tmp_path)):
        assert float(made.energy(as_input(points)[None], [points])) == pytest.approx(0, abs=1e-12)


def test_saved_and_loaded_it_gives_the_same_energies(tmp_path: object) -> None:
    predictor, points = built(), torch.tensor([[0.0, 101.0], [20.0, 104.0]])
    predictor.save_pretrained(str(tmp_path))
    loaded = SetPredictor.from_pretrained(str(tmp_path))
    x = as_input(points)[None]
    assert torch.equal(loaded.energy(x, [points + 1]), predictor.energy(x, [points + 1]))


def test_inputs_are_padded_as_sets_are() -> None:
    with pytest.raises(SettingsError, match=r"padded to 4 rows of 3 features.*; got shape \(6, 3\)"):
        built(rows=6)


@pytest.mark.parametrize("method", [SETTINGS, SetRiskSettings(energy=SHARED), dspn("chamfer")])
def test_absent_elements_are_marked_as_such(method: MethodSettings) -> None:
    with pytest.raises(SettingsError, match=r"representation\.padding must be presence"):
        SetPredictor(method, RepresentationSettings(padding="zero", scaling="none"))


DENOISING = EnergyDenoisingSettings(
    encoder=SumPooledSetEncoderSettings(hidden=8, out=5, fourier_frequencies=1),
    energy=AttentionSettings(hidden=8, layers=1, heads=2, fourier_frequencies=1),
    sampler=EDMSettings(steps=2, cardinality="mode"),
)


def denoiser() -> SetPredictor:
    predictor = SetPredictor(DENOISING)
    predictor.build(DataShape((4, 3), features=2, max_size=4, scaling=SCALING, input_kind="set"))
    return predictor


def test_the_encoder_is_a_setting_of_the_method() -> None:
    predictor = denoiser()
    x = torch.stack([as_input(torch.tensor([[0.0, 101.0], [20.0, 104.0]])), as_input(torch.zeros(0, 2))])
    assert predictor.encode(x).shape == (2, 5)


def tspn_predictor() -> SetPredictor:
    predictor = SetPredictor(tspn())
    predictor.build(DataShape((4, 3), features=2, max_size=4, input_kind="set"))
    return predictor


@pytest.mark.parametrize("make", [built, denoiser, tspn_predictor], ids=["E_SE", "denoising", "TSPN"])
def test_codes_can_be_rounded(make: Callable[[], SetPredictor]) -> None:
    predictor, x = make(), torch.rand(6, 4, 3).round(decimals=3)
    x[..., 2] = 1.0
    code = predictor.encode(x)

    def sampled(code_type: torch.dtype) -> Tensor:
        return predictor.sample(code.to(code_type).to(code.dtype), torch.Generator().manual_seed(0))[0]

    exact = predictor.sample(code, torch.Generator().manual_seed(0))[0]
    assert torch.equal(sampled(torch.float32), exact)
    assert not torch.equal(sampled(torch.bfloat16), exact)
    assert torch.equal(predictor.sample(code, torch.Generator().manual_seed(0))[0], exact)  # it is not kept


def test_the_mode_of_the_cardinality_is_not_random() -> None:
    predictor, x = denoiser(), as_input(torch.tensor([[0.0, 101.0]]))
    sizes = {len(item) for item in predictor.predict_one(x, samples=50).sets}
    assert len(sizes) == 1
    sampled = replace(DENOISING.sampler, cardinality="sampled")
    assert len({len(item) for item in predictor.predict_one(x, samples=50, sampler=sampled).sets}) > 1


def test_fitting_to_inputs_that_are_sets() -> None:
    points = [torch.rand(size, 2) for size in (1, 2, 4, 3)]
    predictor = SetPredictor(DENOISING)
    training = TrainingSettings(steps=2, batch_size=2)
    predictor.fit(
        [(as_input(item), item) for item in points], training, description=DataDescription(input_kind="set")
    )
    assert len(predictor.predict_one(as_input(points[0]), samples=2)) == 2
    with pytest.raises(DataError, match=r"padded sets \(N, D \+ 1\) with input_kind='set'"):
        SetPredictor(DENOISING).fit([(as_input(item), item) for item in points], training)


def test_an_encoder_must_take_the_inputs() -> None:
    with pytest.raises(SettingsError, match="encoder must be one for inputs of kind 'vector', got 'sum-"):
        SetPredictor(DENOISING).build(DataShape((3,), features=2, max_size=4))
    with pytest.raises(DataError, match=r"energy\.shared needs inputs that are sets .*, got kind 'vector'"):
        SetPredictor(SETTINGS).build(DataShape((3,), features=2, max_size=4))


def test_without_an_energy_sets_are_predicted_but_not_scored(tmp_path: object) -> None:
    predictor = SetPredictor(DenoiserSettings(network=DENOISING.energy, sampler=EDMSettings(steps=2)))
    predictor.build(DataShape((4, 3), features=2, max_size=4, input_kind="set"))
    x = as_input(torch.rand(3, 2))
    predictor.save_pretrained(str(tmp_path))
    loaded = SetPredictor.from_pretrained(str(tmp_path))
    sets = [made.predict_one(x, samples=2).sets for made in (predictor, loaded)]
    assert all(torch.equal(one, other) for one, other in zip(*sets, strict=True))
    with pytest.raises(SettingsError, match="has no energy"):
        predictor.energy(x[None], [torch.rand(3, 2)])
