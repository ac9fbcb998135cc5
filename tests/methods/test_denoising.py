"""Denoising, of an energy and without one: what carries noise, the loss, and the energy it leads to."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from jaxtyping import Float
from torch import Tensor, nn

from desp.data import draw_polygons
from desp.data.shape import DataShape
from desp.energies import SetEnergy
from desp.methods import Denoiser, EnergyDenoising, build_method
from desp.samplers.diffusion import add_noise, from_symmetric, to_symmetric
from desp.sets import SetRepresentation, prefix_mask
from desp.settings import (
    AttentionSettings,
    DeepSetsSettings,
    DenoiserSettings,
    DiffusionSettings,
    EDMSettings,
    EnergyDenoisingSettings,
    PooledLayersSettings,
    Pooling,
    RepresentationSettings,
)
from small_methods import Given

ATTENTION = AttentionSettings(hidden=8, layers=1, heads=2, fourier_frequencies=1)
METHODS: dict[str, DiffusionSettings] = {
    "pooled-layers": EnergyDenoisingSettings(energy=PooledLayersSettings(hidden=8, pooling="fspool")),
    "pooled-layers, softmax": EnergyDenoisingSettings(energy=PooledLayersSettings(hidden=8, pooling="softmax")),
    "deep-sets": EnergyDenoisingSettings(energy=DeepSetsSettings(hidden=8)),
    "attention": EnergyDenoisingSettings(energy=ATTENTION),
    "denoiser": DenoiserSettings(network=ATTENTION),
}
each_method = pytest.mark.parametrize("settings", METHODS.values(), ids=METHODS)
each_cardinality = pytest.mark.parametrize("cardinality", ["predicted", "denoised"])


class ZeroEnergy(SetEnergy):
    """The same energy everywhere: its gradient predicts nothing."""

    def energy(self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"]) -> Float[Tensor, " b"]:
        del code
        return (0 * y).sum(dim=(1, 2))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def polygons(batch: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    drawn = draw_polygons(batch, seeded(seed))
    return drawn.x, SetRepresentation(RepresentationSettings()).to_tensor(drawn.sets)


def make_method(settings: DiffusionSettings, **changes: object) -> EnergyDenoising | Denoiser:
    torch.manual_seed(0)
    shape, padding = DataShape((5,), 2, 8), SetRepresentation(RepresentationSettings())
    method = build_method(replace(settings, **changes), shape, padding, engine="eager")
    assert isinstance(method, EnergyDenoising if settings.has_energy else Denoiser)
    return method


def constant(**changes: object) -> EnergyDenoising:
    """A method with a constant energy, for inputs of one number."""
    settings = EnergyDenoisingSettings(energy=Given(energy=ZeroEnergy()), **changes)
    shape, padding = DataShape((1,), 2, 8), SetRepresentation(RepresentationSettings())
    method = build_method(settings, shape, padding, encoder=nn.Identity(), engine="eager")
    assert isinstance(method, EnergyDenoising)
    return method


@each_method
@each_cardinality
def test_every_weight_is_trained(settings: DiffusionSettings, cardinality: str) -> None:
    method = make_method(settings, cardinality=cardinality)
    loss, statistics = method(*polygons(32), seeded())
    loss.backward()
    still = [name for name, weight in method.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert still == []
    predicted = cardinality == "predicted"
    assert statistics.keys() == ({"denoising_loss", "cardinality_loss"} if predicted else {"denoising_loss"})
    assert (method.cardinality is not None) == predicted


def test_cardinalities_are_weighted() -> None:
    method = make_method(next(iter(METHODS.values())), cardinality_weight=0.1)
    loss, statistics = method(*polygons(32), seeded())
    torch.testing.assert_close(loss.detach(), statistics["denoising_loss"] + 0.1 * statistics["cardinality_loss"])


@each_method
def test_the_same_generator_gives_the_same_loss(settings: DiffusionSettings) -> None:
    method, (x, y) = make_method(settings), polygons(16)
    first, second, other = (method(x, y, seeded(seed))[0] for seed in (3, 3, 4))
    assert first == second
    assert first != other


def test_without_a_prediction_the_loss_is_that_of_unit_targets() -> None:
    # Targets (clean - c_skip u) / c_out have variance 1 at every sigma where the data's variance is as it is set.
    method = constant(cardinality="denoised", sigma_data=0.5)
    clean = 0.5 * torch.randn(4000, 5, 2, generator=seeded(), dtype=torch.float64)
    loss, _ = method(torch.zeros(4000, 1), (clean + 1) / 2, seeded(1))
    assert float(loss) == pytest.approx(1.0, abs=0.02)


def test_sigmas_are_log_normal() -> None:
    method = constant(p_mean=0.3, p_std=0.7)
    logs = method._sigmas(torch.zeros(1000, 1, 1, dtype=torch.float64), seeded()).log()
    assert float(logs.mean()) == pytest.approx(0.3, abs=0.01)
    assert float(logs.std()) == pytest.approx(0.7, abs=0.01)
    # One in each thousandth of the distribution: far steadier than independent draws.
    places = torch.special.ndtr((logs - 0.3) / 0.7)
    gaps = places.sort().values.diff()
    assert float(gaps.max()) < 2.1 / 1000
    # And the first of a batch is not always the one with the least noise.
    firsts = torch.stack([method._sigmas(torch.zeros(50, 1, 1), seeded(seed))[0] for seed in range(200)]).log()
    assert float(firsts.std()) == pytest.approx(0.7, abs=0.12)


def test_a_predicted_cardinality_leaves_absent_elements_and_presence_alone() -> None:
    x, y = polygons(20)
    method = make_method(METHODS["deep-sets"])
    mask, u = method._flow(method.encode(x), y).mask, to_symmetric(y)
    noised = add_noise(u, mask, torch.full((20,), 3.0), seeded())
    present = y[..., 2] > 0.5
    assert torch.equal(mask.any(dim=-1), present)
    assert not mask[..., 2].any()
    assert torch.equal(noised[~mask], u[~mask])
    assert (noised[mask] != u[mask]).all()
    assert torch.equal(from_symmetric(to_symmetric(y)), y)
    everything = make_method(METHODS["deep-sets"], cardinality="denoised")
    assert everything._flow(everything.encode(x), y).mask.all()


def test_absent_elements_do_not_enter_the_loss() -> None:
    method, x = constant(), torch.zeros(64, 1)
    _, y = polygons(64)
    more = torch.cat([y, torch.zeros(64, 5, 3)], dim=1)
    # The same noise on the present elements: more rows change nothing but the noise's order, so only means agree.
    losses = [
        torch.stack([method(x, sets, seeded(seed))[1]["denoising_loss"] for seed in range(100)]).mean()
        for sets in (y, more)
    ]
    assert float(losses[0]) == pytest.approx(float(losses[1]), rel=0.02)


@each_cardinality
@each_method
def test_the_order_of_elements_does_not_matter(
    settings: DiffusionSettings, cardinality: str, assert_invariant: Callable[..., None]
) -> None:
    method = make_method(settings, cardinality=cardinality).double()
    x, y = polygons(6)
    code, y = method.encode(x.double()), y.double()
    flow = method._flow(code, y)
    assert method.field.conservative == settings.has_energy
    if settings.has_energy:
        assert_invariant(lambda sets: method.energies(code, sets), y, tolerance=1e-9)
    else:
        assert method.energies(code, y).isnan().all()
    sigma, order = torch.full((6,), 0.3, dtype=torch.float64), torch.randperm(8, generator=seeded())
    # Absent elements are equal, and of those FSPool tells one from the other.
    noised = y + 0.3 * torch.rand(y.shape, generator=seeded()).double()
    clean = flow.denoise(noised, sigma)[1]
    mixed = replace(flow, mask=flow.mask[:, order]).denoise(noised[:, order], sigma)[1]
    torch.testing.assert_close(mixed, clean[:, order], rtol=1e-9, atol=1e-9)


def test_energy_and_denoised_set_agree() -> None:
    # (denoised - u) / sigma^2 must be minus the gradient of what is called -log p.
    method = make_method(METHODS["pooled-layers"], energy_sigma=0.3).double()
    x, y = polygons(4)
    code, y = method.encode(x.double()), y.double()
    flow, leaf = method._flow(code, y), y.clone().requires_grad_()
    values = flow.negative_log_density(to_symmetric(leaf), 0.3)
    (slope,) = torch.autograd.grad(values.sum(), leaf)
    torch.testing.assert_close(method.energies(code, y), values.detach())
    mask, u = flow.mask, to_symmetric(y)
    _, clean = flow.denoise(u, torch.full((4,), 0.3, dtype=torch.float64))
    # 2 y - 1 doubles the gradient
    torch.testing.assert_close((u - clean) / 0.3**2 * 2, slope * mask, rtol=1e-8, atol=1e-8)


def test_the_density_of_a_normal_distribution() -> None:
    # With a constant energy the model is a normal distribution of the data's deviation.
    method = constant(cardinality="denoised")
    y = torch.rand(3, 4, 2, generator=seeded(), dtype=torch.float64)
    energies = method.energies(y[:, 0], y)
    variance = method.settings.sigma_data**2 + method.settings.energy_sigma**2
    normal = torch.distributions.Normal(0.0, math.sqrt(variance))
    expected = -normal.log_prob(2 * y - 1).sum(dim=(1, 2))
    torch.testing.assert_close(energies - energies[0], expected - expected[0])


def test_training_lowers_the_loss() -> None:
    method = make_method(EnergyDenoisingSettings(energy=PooledLayersSettings(hidden=16, pooling="fspool")))
    optimizer = torch.optim.Adam(method.parameters(), 1e-2)

    def held_out() -> float:
        return float(method(*polygons(500, seed=99), seeded(99))[1]["denoising_loss"])

    before = held_out()
    for step in range(120):
        loss, _ = method(*polygons(32, seed=step), seeded(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert held_out() < 0.9 * before


@each_method
def test_a_batch_of_empty_sets_teaches_cardinalities_alone(settings: DiffusionSettings) -> None:
    method = make_method(settings)
    loss, statistics = method(torch.eye(5), torch.zeros(5, 8, 3), seeded())
    assert statistics["denoising_loss"] == 0
    torch.testing.assert_close(loss.detach(), statistics["cardinality_loss"])


# -- some rows of large sets -------------------------------------------------------------------------------


def rows_seen(pooling: Pooling, training_rows: int | None) -> int:
    energy = PooledLayersSettings(hidden=16, pooling=pooling)
    method = make_method(EnergyDenoisingSettings(energy=energy), training_rows=training_rows)
    seen: list[int] = []
    drawn = method._sigmas
    method._sigmas = lambda y, generator: seen.append(y.shape[1]) or drawn(y, generator)  # type: ignore[func-returns-value, method-assign]
    method(*polygons(6), seeded())
    return seen[0]


def test_a_step_looks_at_so_many_rows() -> None:
    assert [rows_seen("softmax", rows) for rows in (None, 3, 8, 20)] == [8, 3, 8, 8]
    assert [rows_seen(pooling, 3) for pooling in ("sum", "mean", "fspool")] == [3, 8, 8]


def test_small_sets_among_large_ones_keep_their_rows() -> None:
    """A few rows of a large padded set would hardly ever be those of the elements of a small one."""
    method = make_method(EnergyDenoisingSettings(energy=PooledLayersSettings(hidden=16)), training_rows=3)
    sizes = torch.tensor([8] + [2] * 19)
    for elements, large in ((sizes, False), (torch.full((20,), 5), True)):
        mask = prefix_mask(elements, 8)
        method.inspect_sets(torch.cat([torch.rand(20, 8, 2), mask.unsqueeze(-1).float()], dim=-1))
        assert method.sets_are_large is large


# -- several noisy copies ----------------------------------------------------------------------------------


@each_method
def test_one_noisy_copy_is_the_plain_loss(settings: DiffusionSettings) -> None:
    """The formula of Karras et al. on one draw of noise, by hand."""
    assert settings.noise_draws == 1
    method, (x, y) = make_method(settings, cardinality="denoised"), polygons(6)
    loss, _ = method(x, y, seeded(3))
    generator, flow, clean = seeded(3), method._flow(method.encode(x), y), to_symmetric(y)
    sigma = method._sigmas(y, generator)
    noised = add_noise(clean, flow.mask, sigma, generator)
    c_skip, c_out = flow.c_skip_out(sigma)
    expected = (flow.network(noised, sigma)[1] - (clean - c_skip * noised) / c_out).square().mean()
    torch.testing.assert_close(loss, expected)


@each_method
def test_several_noisy_copies_are_a_larger_batch_of_the_same_codes(settings: DiffusionSettings) -> None:
    x, y = polygons(6)
    one, three = make_method(settings), make_method(settings, noise_draws=3)
    repeated = one(x.repeat_interleave(3, dim=0), y.repeat_interleave(3, dim=0), seeded(3))
    found = three(x, y, seeded(3))
    torch.testing.assert_close(found[0], repeated[0])
    for name, value in repeated[1].items():
        torch.testing.assert_close(found[1][name], value)


def test_the_encoder_runs_once_for_all_noisy_copies() -> None:
    method = make_method(METHODS["denoiser"], noise_draws=3)
    seen: list[tuple[int, ...]] = []
    method.encoder.register_forward_hook(lambda _, __, code: seen.append(tuple(code.shape)))
    sigmas: list[Tensor] = []
    drawn = method._sigmas
    method._sigmas = lambda y, generator: sigmas.append(drawn(y, generator)) or sigmas[-1]  # type: ignore[func-returns-value, method-assign]
    x, y = polygons(6)
    method(x, y, seeded())
    assert [shape[0] for shape in seen] == [6]
    assert [len(item.unique()) for item in sigmas] == [18]  # every copy has a noise level of its own


def test_the_loss_is_the_mean_over_noisy_copies() -> None:
    """A copy alone, its errors kept apart by the set they belong to, counts as much as any other."""
    method, x = constant(cardinality="denoised", noise_draws=3), torch.zeros(4, 1)
    y = torch.rand(4, 8, 2, generator=seeded(1))
    loss, _ = method(x, y, seeded(2))
    generator, copies = seeded(2), y.repeat_interleave(3, dim=0)
    sigma = method._sigmas(copies, generator)
    flow = method._flow(x.repeat_interleave(3, dim=0), copies)
    clean = to_symmetric(copies)
    noised = add_noise(clean, flow.mask, sigma, generator)
    c_skip, c_out = flow.c_skip_out(sigma)
    of_copies = ((clean - c_skip * noised) / c_out).square().mean(dim=(1, 2)).view(4, 3)  # nothing is predicted
    torch.testing.assert_close(loss, of_copies.mean(dim=1).mean())


def test_no_sigma_is_zero_or_infinite_whatever_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniform numbers may be exactly zero, whose quantile of a normal distribution is infinite."""
    method = constant()
    monkeypatch.setattr(torch, "rand", lambda *shape, **_: torch.zeros(shape))
    sigmas = method._sigmas(torch.zeros(4, 1, 1), seeded())
    assert (sigmas > 0).all()
    logs = (sigmas.log() - method.settings.p_mean) / method.settings.p_std
    assert logs.tolist() == pytest.approx([-4.7534, -0.6745, 0.0, 0.6745], abs=1e-3)


@each_method
def test_sets_are_sampled_with_the_predicted_cardinality(settings: DiffusionSettings) -> None:
    method = make_method(settings)
    code = method.encode(torch.eye(5).repeat(20, 1))
    presence = {}
    for cardinality in ("mode", "sampled"):
        sampler = EDMSettings(steps=3, cardinality=cardinality)
        sets, _ = method.sample(code, seeded(), sampler)
        assert torch.equal(sets, method.sample(code, seeded(), sampler)[0])
        presence[cardinality] = sets[..., 2]
        counted = sets[..., 2].sum(dim=1).long()
        assert torch.equal(sets[..., 2], prefix_mask(counted, 8).float())
        assert not sets[..., :2][sets[..., 2] == 0].any()
    assert torch.equal(presence["mode"].sum(dim=1).long(), method.cardinality.mode(code))
    assert torch.equal(presence["sampled"].sum(dim=1).long(), method.cardinality.sample(code, seeded()))
    assert method.engine_used == "eager"
