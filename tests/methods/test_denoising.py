"""Denoising: what carries noise, the loss, and the energy it leads to."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from desp.estimators import DenoisingEstimator
from jaxtyping import Float
from torch import Tensor, nn

from desp.data import draw_polygons
from desp.energies import SetEnergy, Tables, default_input_encoder, make_energy
from desp.errors import DataError
from desp.nn import LEVEL_FEATURES, SizeHead
from desp.samplers import eager_gradient
from desp.sets import PresencePadding, SizeGroup
from desp.settings import (
    AttentionSettings,
    DeepSetsSettings,
    DenoisingSettings,
    EnergySettings,
    PooledLayersSettings,
)

SETTINGS = DenoisingSettings()
ENERGIES: dict[str, EnergySettings] = {
    "pooled-layers": PooledLayersSettings(hidden=8),
    "deep-sets": DeepSetsSettings(hidden=8),
    "attention": AttentionSettings(hidden=8, layers=1, heads=2, waves=1),
    "attention, no energy": AttentionSettings(hidden=8, layers=1, heads=2, waves=1, field=True),
}


class ZeroEnergy(SetEnergy):
    """The same energy everywhere: its gradient predicts nothing."""

    def __init__(self) -> None:
        super().__init__(nn.Identity())

    def score(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"], tables: Tables | None = None
    ) -> Float[Tensor, " b"]:
        del code, tables
        return (0 * y).sum(dim=(1, 2))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def polygons(batch: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    drawn = draw_polygons(batch, seeded(seed))
    return drawn.x, PresencePadding().encode(drawn.sets)


def make_estimator(energy: EnergySettings, settings: DenoisingSettings = SETTINGS) -> DenoisingEstimator:
    torch.manual_seed(0)
    encoder = default_input_encoder("vector", (5,), energy)
    built = make_energy(
        energy, 3, (5,), encoder, level_features=LEVEL_FEATURES, knows_presence=settings.sizes == "first"
    )
    sizes = SizeHead(5, 8, 8) if settings.sizes == "first" else None
    return DenoisingEstimator(built, sizes, settings)


@pytest.mark.parametrize("energy", ENERGIES.values(), ids=ENERGIES)
@pytest.mark.parametrize("sizes", ["first", "denoised"])
def test_every_weight_is_trained(energy: EnergySettings, sizes: str) -> None:
    estimator = make_estimator(energy, DenoisingSettings(sizes=sizes))
    loss, statistics = estimator(*polygons(32), seeded())
    loss.backward()
    still = [name for name, weight in estimator.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert still == []
    assert statistics.keys() == ({"denoising", "size"} if sizes == "first" else {"denoising"})


def test_sizes_are_weighted() -> None:
    estimator = make_estimator(next(iter(ENERGIES.values())), DenoisingSettings(size_weight=0.1))
    loss, statistics = estimator(*polygons(32), seeded())
    torch.testing.assert_close(loss.detach(), statistics["denoising"] + 0.1 * statistics["size"])


@pytest.mark.parametrize("energy", ENERGIES.values(), ids=ENERGIES)
def test_the_same_generator_gives_the_same_loss(energy: EnergySettings) -> None:
    estimator, (x, y) = make_estimator(energy), polygons(16)
    first, second, other = (estimator(x, y, seeded(seed))[0] for seed in (3, 3, 4))
    assert first == second
    assert first != other


def test_without_a_prediction_the_loss_is_that_of_unit_targets() -> None:
    # Targets (clean - skip u) / out have variance 1 at every level where the data's variance is as it is set.
    settings = DenoisingSettings(sizes="denoised", data_deviation=0.5)
    clean = 0.5 * torch.randn(4000, 5, 2, generator=seeded(), dtype=torch.float64)
    loss, _ = DenoisingEstimator(ZeroEnergy(), None, settings)(torch.zeros(4000, 1), (clean + 1) / 2, seeded(1))
    assert float(loss) == pytest.approx(1.0, abs=0.02)


def test_levels_are_log_normal() -> None:
    estimator = DenoisingEstimator(
        ZeroEnergy(), None, DenoisingSettings(mean_log_level=0.3, deviation_log_level=0.7)
    )
    logs = estimator._levels(torch.zeros(1000, 1, 1, dtype=torch.float64), seeded()).log()
    assert float(logs.mean()) == pytest.approx(0.3, abs=0.01)
    assert float(logs.std()) == pytest.approx(0.7, abs=0.01)
    # One in each thousandth of the distribution: far steadier than independent draws.
    places = torch.special.ndtr((logs - 0.3) / 0.7)
    gaps = places.sort().values.diff()
    assert float(gaps.max()) < 2.1 / 1000
    # And the first of a batch is not always the one with the least noise.
    firsts = torch.stack([estimator._levels(torch.zeros(50, 1, 1), seeded(seed))[0] for seed in range(200)]).log()
    assert float(firsts.std()) == pytest.approx(0.7, abs=0.12)


def test_sizes_first_leaves_absent_elements_and_presence_alone() -> None:
    diffusion = make_estimator(ENERGIES["deep-sets"]).diffusion
    _, y = polygons(20)
    free, u = diffusion.free(y), diffusion.moved(y)
    noised = diffusion.noised(u, free, torch.full((20,), 3.0), seeded())
    present = y[..., 2] > 0.5
    assert torch.equal(free.any(dim=-1), present)
    assert not free[..., 2].any()
    assert torch.equal(noised[~free], u[~free])
    assert (noised[free] != u[free]).all()
    assert torch.equal(diffusion.moved_back(diffusion.moved(y)), y)


def test_absent_elements_do_not_enter_the_loss() -> None:
    settings = DenoisingSettings()
    estimator = DenoisingEstimator(ZeroEnergy(), None, settings)
    _, y = polygons(64)
    more = torch.cat([y, torch.zeros(64, 5, 3)], dim=1)
    # The same noise on the present elements: more rows change nothing but the noise's order, so only means agree.
    losses = [
        torch.stack([estimator(y[:, :0, 0], sets, seeded(seed))[0] for seed in range(100)]).mean()
        for sets in (y, more)
    ]
    assert float(losses[0]) == pytest.approx(float(losses[1]), rel=0.02)


@pytest.mark.parametrize("sizes", ["first", "denoised"])
@pytest.mark.parametrize("energy", ENERGIES.values(), ids=ENERGIES)
def test_the_order_of_elements_does_not_matter(
    energy: EnergySettings, sizes: str, assert_invariant: Callable[..., None]
) -> None:
    estimator = make_estimator(energy, DenoisingSettings(sizes=sizes)).double()
    x, y = polygons(6)
    code, y = estimator.energy.encode(x.double()), y.double()
    gradient = partial(eager_gradient, estimator.energy, size=8)

    def density(sets: Tensor) -> Tensor:
        with torch.no_grad():
            return estimator.diffusion.negative_log_density(gradient, code, sets)

    if estimator.energy.scores_sets:
        assert_invariant(density, y, tolerance=1e-9)
    level, order = torch.full((6,), 0.3, dtype=torch.float64), torch.randperm(8, generator=seeded())
    # Absent elements are equal, and of those FSPool tells one from the other.
    free, noised = estimator.diffusion.free(y), y + 0.3 * torch.rand(y.shape, generator=seeded()).double()
    clean = estimator.diffusion.denoised(gradient, code, noised, free, level)[1]
    mixed = estimator.diffusion.denoised(gradient, code, noised[:, order], free[:, order], level)[1]
    torch.testing.assert_close(mixed, clean[:, order], rtol=1e-9, atol=1e-9)


def test_energy_and_denoised_set_agree() -> None:
    # (denoised - u) / s^2 must be minus the gradient of what is called -log p.
    estimator = make_estimator(ENERGIES["pooled-layers"], DenoisingSettings(energy_level=0.3)).double()
    x, y = polygons(4)
    code, y = estimator.energy.encode(x.double()), y.double()
    diffusion, gradient = estimator.diffusion, partial(eager_gradient, estimator.energy, size=8)
    leaf = y.clone().requires_grad_()
    (slope,) = torch.autograd.grad(diffusion.negative_log_density(gradient, code, leaf).sum(), leaf)
    free, u = diffusion.free(y), diffusion.moved(y)
    level = torch.full((4,), 0.3, dtype=torch.float64)
    _, clean = diffusion.denoised(gradient, code, u, free, level)
    # moved(y) = 2 y - 1 doubles the gradient
    torch.testing.assert_close((u - clean) / 0.3**2 * 2, slope * free, rtol=1e-8, atol=1e-8)


def test_the_density_of_a_normal_distribution() -> None:
    # With a constant energy the model is a normal distribution of the data's deviation.
    diffusion = DenoisingEstimator(ZeroEnergy(), None, DenoisingSettings(sizes="denoised")).diffusion
    y = torch.rand(3, 4, 2, generator=seeded(), dtype=torch.float64)
    energies = diffusion.negative_log_density(lambda _: lambda u: (u.new_zeros(len(u)), 0 * u), y[:, 0], y)
    variance = SETTINGS.data_deviation**2 + SETTINGS.energy_level**2
    normal = torch.distributions.Normal(0.0, math.sqrt(variance))
    expected = -normal.log_prob(2 * y - 1).sum(dim=(1, 2))
    torch.testing.assert_close(energies - energies[0], expected - expected[0])


@pytest.mark.parametrize("name", [name for name in ENERGIES if name.startswith("attention")])
def test_groups_of_like_size_give_the_same_network(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    estimator = make_estimator(ENERGIES[name]).double()
    x, y = polygons(6)
    y = y[(y[..., 2] > 0.5).sum(dim=1).argsort()].double()
    free, code, level = estimator.diffusion.free(y), estimator.energy.encode(x.double()), torch.ones(6).double()
    u = estimator.diffusion.noised(y, free, level, seeded())
    sizes = (y[..., 2] > 0.5).sum(dim=1).tolist()
    whole = estimator._network(code, u, free, level)
    estimator.groups = (SizeGroup(2, sizes[1]), SizeGroup(3, sizes[4]), SizeGroup(1, 8))
    asked, prepare = [], estimator.energy.prepare
    monkeypatch.setattr(
        estimator.energy, "prepare", lambda code, size: asked.append((len(code), size)) or prepare(code, size)
    )
    torch.testing.assert_close(estimator._network(code, u, free, level) * free, whole * free)
    assert asked == [(2, sizes[1]), (3, sizes[4]), (1, 8)]
    assert sizes[1] < 8
    with pytest.raises(DataError, match="other batches than of 5 sets"):
        estimator._network(code[:5], u[:5], free[:5], level[:5])


def test_an_energy_that_counts_absent_elements_gets_all_of_them() -> None:
    estimator, (x, y) = make_estimator(ENERGIES["pooled-layers"]), polygons(6)
    levels = torch.ones(6)
    free = estimator.diffusion.free(y)
    whole = estimator._network(estimator.energy.encode(x), y, free, levels)
    estimator.groups = (SizeGroup(6, 1),)
    assert torch.equal(estimator._network(estimator.energy.encode(x), y, free, levels), whole)


def test_levels_do_not_follow_groups() -> None:
    estimator = make_estimator(ENERGIES["attention"])
    estimator.groups = (SizeGroup(50, 8), SizeGroup(50, 8))
    levels = torch.stack([estimator._levels(torch.zeros(100, 1, 1), seeded(seed)).log() for seed in range(50)])
    halves = levels[:, :50].mean(dim=1) - levels[:, 50:].mean(dim=1)
    assert float(halves.abs().max()) < 5 * 1.5 * (2 / 50) ** 0.5


def test_training_lowers_the_loss() -> None:
    estimator = make_estimator(PooledLayersSettings(hidden=16))
    optimizer = torch.optim.Adam(estimator.parameters(), 1e-2)

    def held_out() -> float:
        return float(estimator(*polygons(500, seed=99), seeded(99))[1]["denoising"])

    before = held_out()
    for step in range(120):
        loss, _ = estimator(*polygons(32, seed=step), seeded(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert held_out() < 0.9 * before


def test_a_batch_of_empty_sets_teaches_sizes_alone() -> None:
    estimator = make_estimator(PooledLayersSettings(hidden=8))
    loss, statistics = estimator(torch.eye(5), torch.zeros(5, 8, 3), seeded())
    assert statistics["denoising"] == 0
    torch.testing.assert_close(loss.detach(), statistics["size"])


def test_no_level_is_zero_or_infinite_whatever_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniform numbers may be exactly zero, whose quantile of a normal distribution is infinite."""
    estimator = DenoisingEstimator(ZeroEnergy(), None, SETTINGS)
    monkeypatch.setattr(torch, "rand", lambda *shape, **_: torch.zeros(shape))
    levels = estimator._levels(torch.zeros(4, 1, 1), seeded())
    assert (levels > 0).all()
    logs = (levels.log() - SETTINGS.mean_log_level) / SETTINGS.deviation_log_level
    assert logs.tolist() == pytest.approx([-4.7534, -0.6745, 0.0, 0.6745], abs=1e-3)
