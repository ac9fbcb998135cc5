"""One encoder for inputs and sets (E_SE, shared)."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from desp.errors import DataError, SettingsError
from desp.predictors import DataShape, EnergyPredictor
from desp.recipes.compared import tspn
from desp.scaling import FeatureScaling
from desp.settings import (
    AttentionSettings,
    PaddingSettings,
    PredictorSettings,
    SetEncoderSettings,
    SolverSettings,
    TrainingSettings,
)

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


DENOISING = PredictorSettings(
    energy=AttentionSettings(hidden=8, layers=1, heads=2, waves=1),
    sampler=SolverSettings(steps=2, sizes="likeliest"),
    code=5,
)


def denoiser(rows: int = 4, **sampler: int) -> EnergyPredictor:
    predictor = EnergyPredictor(replace(DENOISING, sampler=replace(DENOISING.sampler, **sampler)))
    predictor.build(DataShape((rows, 3), features=2, max_size=4, scaling=SCALING, input_kind="set"))
    return predictor


def test_matching_brings_codes_together_and_leaves_presence_alone() -> None:
    predictor = denoiser()
    x = torch.stack([as_input(torch.tensor([[0.0, 101.0], [20.0, 104.0]])), as_input(torch.zeros(0, 2))])
    assert predictor.network.energy.encode(x).shape == (2, 5)

    def drawn(matching: int) -> tuple[Tensor, Tensor]:
        sampler = replace(DENOISING.sampler, matching=matching)
        raw, _ = predictor.sample(x, torch.Generator().manual_seed(3), sampler=sampler)
        sets = predictor.decode_sets(raw)
        again = torch.stack([as_input(points) for points in sets.to_ragged()])
        with torch.no_grad():
            return raw, (predictor.network.energy.encode(again) - predictor.network.energy.encode(x)).norm(dim=1)

    (before, far), (after, near) = drawn(0), drawn(20)
    assert torch.equal(before[..., -1], after[..., -1])
    present = before[..., -1] > 0.5
    assert torch.equal(before[~present], after[~present])
    assert (near <= far + 1e-6).all()
    assert near.sum() < far.sum()


def tspn_predictor() -> EnergyPredictor:
    predictor = EnergyPredictor(tspn())
    predictor.build(DataShape((4, 3), features=2, max_size=4, input_kind="set"))
    return predictor


@pytest.mark.parametrize("make", [built, denoiser, tspn_predictor], ids=["E_SE", "denoising", "TSPN"])
def test_codes_can_be_rounded(make: Callable[[], EnergyPredictor]) -> None:
    predictor, x = make(), torch.rand(6, 4, 3).round(decimals=3)
    x[..., 2] = 1.0

    def drawn(code_type: torch.dtype | None) -> Tensor:
        return predictor.sample(x, torch.Generator().manual_seed(0), code_type=code_type)[0]

    assert torch.equal(drawn(torch.float32), drawn(None))
    assert not torch.equal(drawn(torch.bfloat16), drawn(None))
    assert torch.equal(drawn(None), drawn(None))  # and the next ones are not


def test_the_likeliest_size_is_not_drawn() -> None:
    predictor, x = denoiser(), as_input(torch.tensor([[0.0, 101.0]]))
    sizes = {len(item) for item in predictor.predict(x, samples=50).sets}
    assert len(sizes) == 1
    drawn = replace(DENOISING.sampler, sizes="drawn")
    assert len({len(item) for item in predictor.predict(x, samples=50, sampler=drawn).sets}) > 1


def test_matching_needs_inputs_like_the_sets() -> None:
    with pytest.raises(SettingsError, match=r"needs inputs that are sets like those to predict"):
        denoiser(rows=6, matching=1)
    other = replace(DENOISING.sampler, matching=1)
    with pytest.raises(SettingsError, match=r"needs inputs that are sets like those to predict"):
        denoiser(rows=6).predict(as_input(torch.zeros(1, 2), rows=6), sampler=other)


def test_a_matching_predictor_is_saved_and_loaded(tmp_path: object) -> None:
    predictor, x = denoiser(matching=3), as_input(torch.tensor([[0.0, 101.0]]))
    predictor.save_pretrained(str(tmp_path))
    loaded = EnergyPredictor.from_pretrained(str(tmp_path))
    for own, other in zip(predictor.predict(x, samples=3).sets, loaded.predict(x, samples=3).sets, strict=True):
        assert torch.equal(own, other)


def test_fitting_to_inputs_that_are_sets() -> None:
    points = [torch.rand(size, 2) for size in (1, 2, 4, 3)]
    predictor = EnergyPredictor(DENOISING)
    training = TrainingSettings(steps=2, batch_size=2)
    predictor.fit([(as_input(item), item) for item in points], training, input_kind="set")
    assert len(predictor.predict(as_input(points[0]), samples=2)) == 2
    with pytest.raises(DataError, match=r"padded sets \(N, D \+ 1\) with input_kind='set'"):
        EnergyPredictor(DENOISING).fit([(as_input(item), item) for item in points], training)


def test_a_code_is_for_the_default_encoder() -> None:
    with pytest.raises(SettingsError, match="code is for the default encoder"):
        EnergyPredictor(PredictorSettings(code=5), input_encoder=nn.Linear(3, 5)).build(DataShape((3,), 2, 4))


def test_without_an_energy_sets_are_predicted_but_not_scored(tmp_path: object) -> None:
    field = replace(DENOISING.energy, field=True)
    predictor = EnergyPredictor(replace(DENOISING, energy=field, sampler=SolverSettings(steps=2)))
    predictor.build(DataShape((4, 3), features=2, max_size=4, input_kind="set"))
    x = as_input(torch.rand(3, 2))
    predictor.save_pretrained(str(tmp_path))
    loaded = EnergyPredictor.from_pretrained(str(tmp_path))
    sets = [made.predict(x, samples=2).sets for made in (predictor, loaded)]
    assert all(torch.equal(one, other) for one, other in zip(*sets, strict=True))
    with pytest.raises(SettingsError, match="makes sets without an energy"):
        predictor.energy(x, torch.rand(3, 2))
    with pytest.raises(SettingsError, match=r"estimator\.kind must be denoising where energy\.field is on"):
        PredictorSettings.contrastive(energy=field)
