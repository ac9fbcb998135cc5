"""How a predictor runs its chains: in parts of one size, in order, on record."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from small_predictors import Pairs, Parts
from torch import Tensor

from desp.data.base import Batch
from desp.distances import assign, huber_pairs, hungarian
from desp.errors import SettingsError
from desp.predictor import SetPredictor
from desp.randomness import make_generator
from desp.samplers import ChainInfo, LangevinSampler, sample_restarts
from desp.sets import SetBatch, SetRepresentation
from desp.settings import ContrastiveSettings, LangevinSettings, RepresentationSettings

ZERO = SetRepresentation(RepresentationSettings("zero", scaling="none"))


def test_chains_beyond_a_thousand_run_in_parts(fitted: SetPredictor, pairs: Pairs) -> None:
    """The first thousand of 1,500 use the same noise as a run of exactly a thousand, and then it goes on."""
    code = fitted.encode(pairs[0][0].expand(1500, -1))
    long, info = fitted.sample(code, make_generator(1), record="energies")
    short, _ = fitted.sample(code[:1000], make_generator(1))
    assert long.shape == (1500, 4, 2)
    assert info.energies is not None
    assert info.energies.shape == (4, 1500)
    torch.testing.assert_close(long[:1000], short, rtol=0, atol=0)
    assert not torch.equal(long[1000:], short[:500])


def test_the_parts_of_many_inputs_stay_in_order(fitted: SetPredictor) -> None:
    """Without noise a set depends on its input alone, so the 1,203rd of many is what it is by itself."""
    quiet = LangevinSettings(steps=3, stochastic_steps=0)
    code = fitted.encode(torch.linspace(-3, 3, 1204).unsqueeze(1).repeat(1, 3))
    together, _ = fitted.sample(code, make_generator(0), sampler=quiet)
    for index in (0, 999, 1000, 1203):
        alone, _ = fitted.sample(code[index : index + 1], make_generator(0), sampler=quiet)
        torch.testing.assert_close(together[index : index + 1], alone, rtol=1e-4, atol=1e-5)


def test_of_several_restarts_the_lowest_end_is_kept_with_its_record(fitted: SetPredictor, pairs: Pairs) -> None:
    code = fitted.encode(torch.stack([x for x, _ in pairs]))
    once = LangevinSettings(steps=3, stochastic_steps=3, noise_scale=0.3)
    generator = make_generator(4)
    samples = [fitted.sample(code, generator, sampler=once, record="sets") for _ in range(3)]
    energies = torch.stack([fitted.raw_energy(code, sets) for sets, _ in samples])
    lowest = energies.argmin(dim=0)
    assert len(lowest.unique()) > 1
    sets, info = fitted.sample(code, make_generator(4), sampler=replace(once, restarts=3), record="sets")
    for row, index in enumerate(lowest.tolist()):
        torch.testing.assert_close(sets[row], samples[index][0][row])
        torch.testing.assert_close(info.trajectory[:, row], samples[index][1].trajectory[:, row])
        torch.testing.assert_close(info.energies[:, row], samples[index][1].energies[:, row])
        torch.testing.assert_close(info.gradient_norms[:, row], samples[index][1].gradient_norms[:, row])


@pytest.mark.parametrize(
    ("inputs", "restarts", "engine"), [(999, 1, "eager"), (1000, 1, "graph"), (250, 4, "graph")]
)
def test_many_chains_are_worth_an_engine(
    fitted: SetPredictor, inputs: int, restarts: int, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = LangevinSettings(steps=1, stochastic_steps=1, restarts=restarts)
    code, engines = fitted.encode(torch.zeros(inputs, 3)), fitted.method.prediction_engine
    name, on_gpu = engines.name, []

    def noted(device: torch.device, chains: int) -> Any:
        on_gpu.append(name(torch.device("cuda"), chains))
        return name(device, chains)

    monkeypatch.setattr(engines, "requested", "auto")
    monkeypatch.setattr(engines, "name", noted)
    fitted.method.sample_batch(code, make_generator(0), settings, "nothing", None)
    assert on_gpu == [engine] * restarts
    assert fitted.method.engine_used == "eager"


def test_without_noise_one_chain_is_enough(fitted: SetPredictor, pairs: Pairs) -> None:
    """The generator is not asked, and no gradient is taken twice."""
    taken = 0
    once = fitted.method.energy.value_and_gradient

    def counted(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        nonlocal taken
        taken += 1
        return once(*args, **kwargs)

    quiet = LangevinSettings(steps=5, stochastic_steps=0, restarts=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitted.method.energy, "value_and_gradient", counted)
        fitted.sample(fitted.encode(pairs[0][0].unsqueeze(0)), make_generator(0), sampler=quiet)
    assert taken == 5


def test_a_number_is_kept_before_nan() -> None:
    ends = iter([torch.full((2, 1, 1), 1.0), torch.full((2, 1, 1), 2.0)])
    scores = iter([torch.tensor([torch.nan, 3.0]), torch.tensor([5.0, torch.nan])])
    sets, info = sample_restarts(
        lambda: (next(ends), ChainInfo()),
        lambda _: next(scores),
        2,
        "lowest",
        ZERO,
    )
    assert sets.flatten().tolist() == [2, 1]
    assert info == ChainInfo()


NO_ROW_ABSENT = SetRepresentation(RepresentationSettings("zero", scaling="none"))
NO_ROW_ABSENT.threshold = -1


def mean_of_ends(
    *ends: Tensor, energies: tuple[float, ...] = (), padding: SetRepresentation = NO_ROW_ABSENT
) -> Tensor:
    """The mean of sets (B, N, C), of which the first is lowest if nothing else is said."""
    left, scores = iter(ends), iter(energies or range(len(ends)))

    def score(sets: Tensor) -> Tensor:
        return torch.full((len(sets),), float(next(scores)))

    return sample_restarts(lambda: (next(left), ChainInfo()), score, len(ends), "mean", padding)[0]


def test_the_mean_of_restarts_is_that_of_matching_elements() -> None:
    """Of five restarts the lowest three count, and the order is that of the lowest."""
    generator = make_generator(0)
    places = 5 * torch.randn(6, 4, 2, generator=generator)
    shifts = torch.randn(5, 6, 4, 2, generator=generator) / 10
    orders = torch.rand(5, 6, 4, generator=generator).argsort(dim=2)[..., None].expand(-1, -1, -1, 2)
    ends = [(places + shift).gather(1, order) for shift, order in zip(shifts, orders, strict=True)]
    expected = (places + shifts[[0, 1, 3]].mean(dim=0)).gather(1, orders[1])
    torch.testing.assert_close(mean_of_ends(*ends, energies=(2, 1, 4, 3, 5)), expected)


def test_the_mean_is_nearer_to_what_it_is_of_than_they_are_to_each_other() -> None:
    ends = list(torch.rand(10, 7, 6, 2, generator=make_generator(1)))
    mean, lower = mean_of_ends(*ends), ends[:5]
    of_mean = torch.stack([hungarian(mean, end) for end in lower]).mean(dim=0)
    for one in lower:
        others = torch.stack([hungarian(one, end) for end in lower]).sum(dim=0) / (len(lower) - 1)
        assert bool((of_mean < others).all())


def test_absent_rows_are_not_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    first = torch.tensor([[[0.2, 0.1, 0.1], [0.5, 0.5, 1.0], [0.1, 0.2, -0.1], [0.4, 0.1, 0.4]]])
    second = torch.tensor([[[0.5, 0.4, 0.9], [0.0, 0.3, 0.1], [0.4, 0.2, 0.6], [0.3, 0.1, 0.0]]])
    seen: list[Tensor] = []

    def listening(costs: Tensor) -> Tensor:
        seen.append(costs)
        return assign(costs)

    monkeypatch.setattr("desp.samplers.restarts.assign", listening)
    mean_of_ends(first, second, first, padding=SetRepresentation(RepresentationSettings()))
    pairs = huber_pairs(first, second)
    pairs[:, [0, 0, 2, 2], [1, 3, 1, 3]] = 0
    torch.testing.assert_close(seen[1], pairs)  # the first is of the lowest set with itself


def test_an_element_that_is_half_there_in_some_restarts_is_not_lost() -> None:
    there, half = torch.tensor([0.6, 0.2, 0.9]), torch.tensor([0.6, 0.2, 0.45])
    ends = [torch.zeros(1, 3, 3) for _ in range(5)]
    for end, row, place in zip(ends, (half, half, there, there, there), (0, 1, 2, 0, 1), strict=True):
        end[0, place] = row
    sets = SetRepresentation(RepresentationSettings()).from_tensor(
        mean_of_ends(*ends, padding=SetRepresentation(RepresentationSettings()))
    )
    assert sets.sizes.tolist() == [1]
    torch.testing.assert_close(sets.packed().elements[0, :1], there[None, :2])


def test_the_mean_of_present_elements_does_not_depend_on_absent_rows() -> None:
    generator = make_generator(2)
    present = torch.cat([torch.rand(4, 3, 5, 2, generator=generator), torch.ones(4, 3, 5, 1)], dim=-1)
    noise = 0.1 * torch.randn(2, 4, 3, 6, 3, generator=generator)
    orders = torch.rand(4, 3, 11, generator=generator).argsort(dim=2)[..., None].expand(-1, -1, -1, 3)

    def mean(absent: Tensor) -> SetBatch:
        ends = torch.cat([present, absent], dim=2).gather(2, orders)
        return SetRepresentation(RepresentationSettings()).from_tensor(
            mean_of_ends(*ends, padding=SetRepresentation(RepresentationSettings()))
        )

    sets, others = mean(noise[0]), mean(noise[1])
    assert sets.sizes.tolist() == others.sizes.tolist() == [5, 5, 5]
    torch.testing.assert_close(sets.packed().elements, others.packed().elements)
    best = mean_of_ends(*present)  # matched by all features, of which presence is the same everywhere
    torch.testing.assert_close(hungarian(sets.packed().elements[:, :5], best[..., :2]), torch.zeros(3))


def test_restarts_that_are_lost_do_not_count() -> None:
    good, lost = torch.tensor([[[1.0], [3.0]]]), torch.tensor([[[torch.nan], [2.0]]])
    nan = math.nan
    assert mean_of_ends(good, lost, lost, energies=(0, nan, nan)).flatten().tolist() == [1, 3]
    assert mean_of_ends(lost, lost, good, energies=(nan, nan, 0)).flatten().tolist() == [1, 3]
    assert mean_of_ends(good).flatten().tolist() == [1, 3]
    assert mean_of_ends(good + 2, good, energies=(1, 0)).flatten().tolist() == [1, 3]  # the lower half is one
    assert mean_of_ends(lost, lost, lost, energies=(nan, nan, nan)).isnan().any()


def test_predictions_may_be_means_of_restarts(fitted: SetPredictor, pairs: Pairs) -> None:
    code = fitted.encode(torch.stack([x for x, _ in pairs[:5]]))
    once = LangevinSettings(steps=3, stochastic_steps=3, noise_scale=0.3)
    generator = make_generator(4)
    ends = [fitted.sample(code, generator, sampler=once)[0] for _ in range(4)]
    energies = torch.stack([fitted.raw_energy(code, end) for end in ends])
    sampler = replace(once, restarts=4, aggregate="mean")
    sets, _ = fitted.sample(code, make_generator(4), sampler=sampler)
    for row in range(len(code)):
        of_row, scores = [end[row : row + 1] for end in ends], tuple(energies[:, row].tolist())
        expected = mean_of_ends(*of_row, energies=scores, padding=fitted.method.representation)
        torch.testing.assert_close(sets[row : row + 1], expected)


def test_one_chain_does_not_pretend_to_be_several() -> None:
    with pytest.raises(SettingsError, match="restarts"):
        LangevinSampler(LangevinSettings(restarts=2))


def test_restarts_are_not_for_training() -> None:
    with pytest.raises(SettingsError, match=r"training_sampler\.restarts must be 1"):
        ContrastiveSettings(training_sampler=LangevinSettings(restarts=2))
    with pytest.raises(SettingsError, match="restarts"):
        LangevinSettings(restarts=0)


def test_record_of_a_prediction_chain(variant: Parts, fitted_variant: SetPredictor, pairs: Pairs) -> None:
    predictor = fitted_variant
    steps, channels = 4 if variant.method.kind == "contrastive" else 3, predictor.method.set_shape[1]
    code = predictor.encode(torch.stack([x for x, _ in pairs[:2]]))
    raw, info = predictor.sample(code, make_generator(0), record="sets")
    if variant.method.kind == "tspn":  # sets are made in one pass
        assert info == ChainInfo()
        return
    assert info.trajectory is not None
    assert info.energies is not None
    assert info.trajectory.shape == (steps + 1, 2, 4, channels)
    assert info.energies.shape == (steps, 2)
    assert info.energies.isnan().all() == info.energies.isnan().any() == (not predictor.method_settings.has_energy)
    torch.testing.assert_close(info.trajectory[-1], raw)


def test_prepare_brings_a_batch_to_the_networks_tensors(fitted: SetPredictor, pairs: Pairs) -> None:
    batch = Batch(torch.stack([x for x, _ in pairs]).double(), SetBatch.from_ragged([y for _, y in pairs]))
    x, y = fitted.prepare(batch, torch.device("cpu"))
    assert (x.dtype, y.dtype) == (torch.float32, torch.float32)
    assert (x.shape, y.shape) == ((12, 3), (12, 4, 2))
