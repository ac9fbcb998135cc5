"""Denoising predictors: predicted cardinality, densities, modes."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from desp.errors import SettingsError
from desp.predictor import DataShape, Prediction, SetPredictor
from desp.randomness import derive_seed
from desp.samplers import LogDensity
from desp.scaling import FeatureScaling
from desp.sets import SetBatch
from desp.settings import (
    ContrastiveSettings,
    DeepSetsSettings,
    DenoiserSettings,
    DescentSettings,
    EDMSettings,
    EnergyDenoisingSettings,
    LangevinSettings,
    MethodSettings,
    PooledLayersSettings,
    SetRiskSettings,
    TrainingSettings,
)

SETTINGS = EnergyDenoisingSettings(
    energy=PooledLayersSettings(hidden=8, pooling="mean"), sampler=EDMSettings(steps=3)
)
SHAPE = DataShape(input_shape=(3,), features=2, max_size=4)


def built(settings: MethodSettings = SETTINGS, shape: DataShape = SHAPE) -> SetPredictor:
    predictor = SetPredictor(settings, device="cpu")
    predictor.build(shape, seed=0)
    return predictor


def always(predictor: SetPredictor, size: int) -> SetPredictor:
    """Make a cardinality certain."""
    head = predictor.method.cardinality
    assert head is not None
    last = head.logits.linears[-1]
    with torch.no_grad():
        last.weight.zero_()
        last.bias.fill_(-100.0)
        last.bias[size] = 100.0
    return predictor


def log_prob(predictor: SetPredictor, x: Tensor, y: Tensor, **options: int) -> LogDensity:
    """Of one set for one input."""
    density = predictor.log_prob(x[None], [y], **options)
    assert density.value.shape == density.error.shape == (1,)
    return density


@pytest.mark.parametrize("size", range(5))
def test_as_many_elements_as_were_sampled(size: int) -> None:
    predictor = always(built(), size)
    prediction = predictor.predict_one(torch.zeros(3), samples=6)
    assert [len(item) for item in prediction.sets] == [size] * 6
    energies = predictor.energy(torch.zeros(6, 3), prediction.sets)
    torch.testing.assert_close(prediction.energies, energies, rtol=1e-4, atol=1e-5)


def test_cardinalities_come_from_their_distribution() -> None:
    predictor = always(built(), 1)
    assert predictor.method.cardinality is not None
    with torch.no_grad():
        predictor.method.cardinality.logits.linears[-1].bias[3] = 100.0 + math.log(3.0)  # p(1) = 1/4, p(3) = 3/4
    sizes = [len(item) for item in predictor.predict_one(torch.zeros(3), samples=400).sets]
    assert set(sizes) == {1, 3}
    assert sizes.count(3) == pytest.approx(300, abs=35)


def test_learns_cardinalities(pairs: list[tuple[Tensor, Tensor]], short: TrainingSettings) -> None:
    """The cardinality is given by the sign of the input."""
    generator = torch.Generator().manual_seed(0)
    data = []
    for _ in range(60):
        x = torch.randn(1, generator=generator)
        data.append((x, torch.rand(1 if float(x) < 0 else 3, 2, generator=generator)))
    predictor = SetPredictor(SETTINGS, device="cpu")
    predictor.fit(data, replace(short, steps=150, batch_size=16))
    for value, size in ((-2.0, 1), (2.0, 3)):
        prediction = predictor.predict_one(torch.tensor([value]), samples=20)
        assert sum(len(item) == size for item in prediction.sets) >= 18


def test_a_set_has_a_density_with_its_cardinality() -> None:
    """The probability of the cardinality is a factor, and the order of elements does not matter."""
    predictor = built()
    assert predictor.method.cardinality is not None
    x, y = torch.zeros(3), torch.rand(3, 2, generator=torch.Generator().manual_seed(0))
    first = log_prob(predictor, x, y, steps=8)
    log_sizes = predictor.method.cardinality(predictor.encode(x.unsqueeze(0)))[0].detach()
    certain = log_prob(always(predictor, 3), x, y, steps=8)
    assert float(certain.value - first.value) == pytest.approx(-float(log_sizes[3]), abs=1e-4)
    assert float(first.error) >= 0
    shuffled = log_prob(predictor, x, y.flip(0), steps=8)
    assert float(shuffled.value) == pytest.approx(float(certain.value), abs=1e-3)


@pytest.mark.parametrize("size", [0, 1, 2])
def test_densities_integrate_to_one_over_sets(size: int) -> None:
    """Whatever the weights are; over ordered elements that is n! times 1."""
    shape = DataShape(input_shape=(3,), features=1, max_size=2)
    predictor = always(built(shape=shape), size)
    axis = torch.linspace(-1, 2, 16)  # six deviations of the data both ways; sums of smooth bumps converge fast
    grid = torch.cartesian_prod(*[axis] * size).reshape(-1, size, 1) if size else torch.zeros(1, 0, 1)
    x = torch.ones(len(grid), 3)
    density = predictor.log_prob(x, list(grid), steps=40).value.double().exp()
    total = float(density.sum() * (axis[1] - axis[0]) ** size)
    assert total == pytest.approx(math.factorial(size), rel=0.03)


def test_densities_are_in_the_users_units() -> None:
    shape = replace(SHAPE, scaling=FeatureScaling((10.0, 0.0), (5.0, 2.0)))
    plain, scaled = built(), built(shape=shape)
    y = torch.rand(2, 2, generator=torch.Generator().manual_seed(0))
    units = y * torch.tensor([5.0, 2.0]) + torch.tensor([10.0, 0.0])
    found = log_prob(scaled, torch.zeros(3), units, steps=8).value
    expected = log_prob(plain, torch.zeros(3), y, steps=8).value - 2 * math.log(5.0 * 2.0)
    assert float(found) == pytest.approx(float(expected), abs=1e-3)


def test_densities_of_a_batch_are_those_of_its_sets() -> None:
    predictor, generator = built(), torch.Generator().manual_seed(0)
    x, sets = torch.randn(3, 3, generator=generator), [torch.rand(n, 2, generator=generator) for n in (0, 2, 4)]
    together = predictor.log_prob(x, sets, steps=10)
    assert together.value.shape == together.error.shape == (3,)
    for index in range(3):
        alone = log_prob(predictor, x[index], sets[index], steps=10)
        assert float(alone.value) == pytest.approx(float(together.value[index]), abs=1e-3)


def test_only_predicted_cardinality_has_a_density() -> None:
    other = replace(SETTINGS, cardinality="denoised")
    with pytest.raises(SettingsError, match="needs the method 'energy-denoising' with predicted cardinality"):
        log_prob(built(other), torch.zeros(3), torch.rand(2, 2))


@pytest.mark.parametrize(
    "settings",
    [
        replace(SETTINGS, energy=PooledLayersSettings(pooling="fspool")),
        replace(SETTINGS, energy=DeepSetsSettings(pooling="mean")),
        ContrastiveSettings(),
        SetRiskSettings(),
    ],
    ids=["fspool", "deep-sets", "contrastive", "set-risk"],
)
def test_energies_whose_gradients_jump_have_no_density(settings: MethodSettings) -> None:
    with pytest.raises(SettingsError, match=r"a smooth energy.*--use-method energy-denoising"):
        log_prob(built(settings), torch.zeros(3), torch.rand(2, 2))


def test_random_probes_follow_the_seed() -> None:
    """And are no continuation of the noise of predictions with the same seed."""
    predictor = built(shape=replace(SHAPE, max_size=22))  # 66 numbers: too many for the divergence itself
    x, y = torch.zeros(3), torch.rand(20, 2, generator=torch.Generator().manual_seed(0))
    first, again, other = (
        float(log_prob(predictor, x, y, steps=2, probes=2, seed=seed).value) for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other
    seeds: list[int] = []

    def noted(code: Tensor, values: Tensor, generator: torch.Generator, *_: int) -> LogDensity:
        seeds.append(generator.initial_seed())
        return LogDensity(torch.zeros(1), torch.zeros(1))

    predictor.method.log_prob = noted  # type: ignore[method-assign, assignment]
    log_prob(predictor, x, y, seed=3)
    assert seeds == [derive_seed(3, "probes")]


@pytest.mark.parametrize("wrong", [{"steps": 1}, {"probes": 1}])
def test_what_could_not_tell_its_error_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match="at least 2"):
        log_prob(built(), torch.zeros(3), torch.rand(2, 2), **wrong)


def test_batches_padded_otherwise_are_the_same_sets() -> None:
    predictor, y = built(), torch.rand(1, 2, 2, generator=torch.Generator().manual_seed(0))
    wide = SetBatch.from_ragged(list(y), 9, 2)
    x = torch.zeros(1, 3)
    assert torch.equal(predictor.energy(x, wide), predictor.energy(x, list(y)))
    assert torch.equal(predictor.log_prob(x, wide, steps=5).value, predictor.log_prob(x, list(y), steps=5).value)


def test_the_set_of_lowest_energy_is_of_the_usual_size_where_sizes_do_not_compare() -> None:
    sets, energies = [torch.zeros(n, 1) for n in (4, 1, 1, 1)], torch.tensor([-9.0, 3.0, 1.0, 2.0])
    assert len(Prediction(sets, energies).lowest_energy) == 4
    assert Prediction(sets, energies, comparable_across_cardinalities=False).lowest_energy is sets[2]
    assert not always(built(), 2).predict_one(torch.zeros(3)).comparable_across_cardinalities


def test_a_sampler_must_suit_the_method() -> None:
    for method in (SETTINGS, DenoiserSettings()):
        with pytest.raises(SettingsError, match="sampler must be of kind 'edm' for this method, got 'langevin'"):
            built(method).predict_one(torch.zeros(3), sampler=LangevinSettings())
    with pytest.raises(SettingsError, match="sampler must be of kind 'langevin' for this method, got 'edm'"):
        built(ContrastiveSettings()).predict_one(torch.zeros(3), sampler=EDMSettings())
    with pytest.raises(SettingsError, match="sampler must be of kind 'descent' for this method, got 'langevin'"):
        built(SetRiskSettings()).predict_one(torch.zeros(3), sampler=LangevinSettings())


def test_another_descent_can_be_asked_for() -> None:
    """To predict by; training goes on with its own."""
    method = SetRiskSettings(descent=DescentSettings(steps=3))
    predictor, x = built(method), torch.zeros(3)
    longer = predictor.predict_one(x, sampler=DescentSettings(steps=30)).sets[0]
    assert torch.equal(built(replace(method, sampler=DescentSettings(steps=30))).predict_one(x).sets[0], longer)
    own = predictor.predict_one(x).sets[0]
    assert torch.equal(predictor.predict_one(x, sampler=DescentSettings(steps=3)).sets[0], own)
    assert own.shape != longer.shape or not torch.equal(own, longer)


def test_another_edm_sampler_can_be_asked_for() -> None:
    predictor = built()
    plain, other = (predictor.predict_one(torch.zeros(3), sampler=EDMSettings(steps=steps)) for steps in (3, 9))
    assert torch.equal(plain.sets[0], predictor.predict_one(torch.zeros(3)).sets[0])
    assert plain.sets[0].shape != other.sets[0].shape or not torch.equal(plain.sets[0], other.sets[0])


def test_modes_of_a_prediction() -> None:
    sets = [torch.full((2, 2), value) + torch.tensor([[0.0], [1.0]]) for value in (0.0, 0.001, 7.0)]
    modes = Prediction(sets, torch.tensor([2.0, 1.0, 0.5])).modes()
    assert [mode.members for mode in modes] == [(0, 1), (2,)]
    assert modes[0].energy == 1.0
    assert modes[0].fraction == pytest.approx(2 / 3)
