"""Maximum likelihood by contrast, recomputed by hand and in closed form."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from desp.data import draw_polygons
from desp.data.shape import DataShape
from desp.distances import chamfer
from desp.energies import SetEnergy
from desp.errors import SettingsError
from desp.methods import Contrastive, build_method
from desp.samplers import LangevinSampler
from desp.samplers.base import value_and_grad_of
from desp.sets import SetRepresentation
from desp.settings import (
    ContrastiveSettings,
    DeepSetsSettings,
    EnergySettings,
    LangevinSettings,
    PooledLayersSettings,
    RepresentationSettings,
    SetEncoderEnergySettings,
)
from small_methods import Given

CHAIN = LangevinSettings(steps=4, stochastic_steps=4, noise_scale=0.05)
CASES: dict[str, EnergySettings] = {
    "deep-sets": DeepSetsSettings(hidden=8),
    "set-encoder": SetEncoderEnergySettings(hidden=8, latent=6),
}
every_energy = pytest.mark.parametrize("settings", CASES.values(), ids=CASES.keys())


def seeded(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(
    settings: ContrastiveSettings, input_shape: tuple[int, ...] = (3,), size: int = 4, *, identity: bool = False
) -> Contrastive:
    shape = DataShape(input_shape, 2, size)
    padding = SetRepresentation(RepresentationSettings("zero", scaling="none"))
    encoder = nn.Identity() if identity else None
    method = build_method(settings, shape, padding, encoder, engine="eager")
    assert isinstance(method, Contrastive)
    return method


def score(method: Contrastive, x: Tensor, y: Tensor) -> Tensor:
    return method.energy(method.encode(x), y)


def example() -> tuple[Tensor, Tensor]:
    generator = seeded(1)
    return torch.randn(6, 3, generator=generator), torch.rand(6, 4, 2, generator=generator)


def by_hand(method: Contrastive, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The noised data and the samples that the method must have used."""
    generator, settings = seeded(), method.settings
    noised = y + settings.data_noise * torch.randn(y.shape, generator=generator)
    gradient, code = partial(value_and_grad_of, method.energy, size=y.shape[1]), method.encode(x).detach()
    sampled, _ = LangevinSampler(settings.training_sampler).sample(gradient, code, torch.zeros_like(y), generator)
    return noised, sampled


@every_energy
def test_loss_is_the_difference_of_mean_energies(settings: EnergySettings) -> None:
    method, (x, y) = (
        build(ContrastiveSettings(energy=settings, training_sampler=CHAIN, data_noise=0.02)),
        example(),
    )
    loss, statistics = method(x, y, seeded())
    noised, sampled = by_hand(method, x, y)
    real, fake = score(method, x, noised).mean(), score(method, x, sampled).mean()
    torch.testing.assert_close(loss, real - fake)
    assert statistics["energy_real"].item() == pytest.approx(real.item(), rel=1e-5)
    assert statistics["energy_sampled"].item() == pytest.approx(fake.item(), rel=1e-5)
    assert not any(value.requires_grad for value in statistics.values())


@every_energy
def test_samples_carry_no_gradient_but_codes_do(settings: EnergySettings) -> None:
    method, (x, y) = (
        build(ContrastiveSettings(energy=settings, training_sampler=CHAIN, data_noise=0.02)),
        example(),
    )
    noised, sampled = by_hand(method, x, y)
    weights = list(method.parameters())
    difference = score(method, x, noised).mean() - score(method, x, sampled).mean()
    expected = torch.autograd.grad(difference, weights)
    loss, _ = method(x, y, seeded())
    torch.testing.assert_close(torch.autograd.grad(loss, weights), expected)


class LinearEnergy(SetEnergy):
    """E = theta * sum of all numbers of the set: chains fall by theta a step."""

    def __init__(self, theta: float) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(theta))

    def energy(self, code: Tensor, y: Tensor) -> Tensor:
        del code
        return self.theta * y.sum(dim=(1, 2))


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_gradient_of_a_linear_energy(noise: float) -> None:
    theta, steps = 0.3, 7
    chain = LangevinSettings(steps=steps, stochastic_steps=steps, noise_scale=noise)
    energy = LinearEnergy(theta)
    method = build(ContrastiveSettings(energy=Given(energy=energy), training_sampler=chain, data_noise=noise))
    x, y = example()
    loss, _ = method(x, y, seeded())
    loss.backward()
    generator = seeded()
    real = y + noise * torch.randn(y.shape, generator=generator)
    pushes = [noise * torch.randn(y.shape, generator=generator) for _ in range(steps)]
    sampled = sum(pushes) - steps * theta
    expected = real.sum(dim=(1, 2)).mean() - sampled.sum(dim=(1, 2)).mean()
    torch.testing.assert_close(energy.theta.grad, expected)
    torch.testing.assert_close(loss.detach(), theta * expected)


class SlopedEnergy(SetEnergy):
    """E = theta times the sum of set times input, which has the shape of a set and so is the slope."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(1.0))

    def energy(self, code: Tensor, y: Tensor) -> Tensor:
        return self.theta * (code * y).sum(dim=(1, 2))


# One element of each set, or all; the largest step is .1 and slopes count half.
SLOPES = {
    "level": (torch.zeros(3, 2), False),
    "one element is too steep": (torch.tensor([[0.15, 0.15], [0.0, 0.0], [0.0, 0.0]]), True),
    "as steep a set, none of its elements": (torch.full((3, 2), 0.12), False),
    "too steep if steps were of size 1": (torch.tensor([[0.11, 0.11], [0.0, 0.0], [0.0, 0.0]]), False),
}
MASKED = ContrastiveSettings(
    energy=Given(energy=SlopedEnergy()),
    training_sampler=LangevinSettings(
        steps=3, stochastic_steps=3, noise_scale=0.01, max_step_norm=0.1, step_size=0.5
    ),
    data_noise=0.02,
    mask_divergent=True,
)


def sloped_example() -> tuple[Tensor, Tensor]:
    return torch.stack([slope for slope, _ in SLOPES.values()]), torch.rand(4, 3, 2, generator=seeded(1))


def sloped_method(**changes: float) -> tuple[Contrastive, nn.Parameter]:
    energy = SlopedEnergy()
    return build(replace(MASKED, energy=Given(energy=energy), **changes), (3, 2), 3, identity=True), energy.theta


def test_divergent_samples_are_not_raised() -> None:
    (method, theta), (x, y) = sloped_method(), sloped_example()
    loss, statistics = method(x, y, seeded())
    noised, sampled = by_hand(method, x, y)
    real, fake = score(method, x, noised), score(method, x, sampled)
    masked = torch.tensor([masked for _, masked in SLOPES.values()])
    assert statistics["divergent"].item() == 0.25
    torch.testing.assert_close(loss, real.mean() - fake.mean())
    expected = real.mean() - fake[~masked].sum() / 4
    torch.testing.assert_close(torch.autograd.grad(loss, theta), torch.autograd.grad(expected, theta))


@pytest.mark.parametrize(("most", "share", "failed"), [(0.05, 0.05, False), (0.05, 0.06, True), (1.0, 1.0, False)])
def test_more_divergent_samples_than_allowed_are_a_failure(most: float, share: float, failed: bool) -> None:
    method, _ = sloped_method(max_divergent_fraction=most)
    divergence = method.divergence_reason({"divergent": share})
    assert (divergence is not None) == failed
    assert divergence is None or divergence.startswith("6.0% of the samples diverge")


@pytest.mark.parametrize("most", [0.0, -0.1, 1.1, float("nan")])
def test_the_fraction_that_may_diverge_is_checked(most: float) -> None:
    with pytest.raises(SettingsError, match="max_divergent_fraction"):
        ContrastiveSettings(max_divergent_fraction=most)


def test_masking_divergent_samples_needs_a_longest_step() -> None:
    with pytest.raises(SettingsError, match="max_step_norm"):
        ContrastiveSettings(mask_divergent=True)


def test_energies_without_a_lower_bound_have_no_divergent_samples_to_mask() -> None:
    with pytest.raises(SettingsError, match="deep-sets or set-encoder"):
        replace(MASKED, energy=PooledLayersSettings(hidden=8))


def test_the_generator_decides() -> None:
    method, (x, y) = build(ContrastiveSettings(energy=CASES["deep-sets"], training_sampler=CHAIN)), example()
    assert torch.equal(method(x, y, seeded(1))[0], method(x, y, seeded(1))[0])
    assert not torch.equal(method(x, y, seeded(1))[0], method(x, y, seeded(2))[0])


def test_codes_for_each_element() -> None:
    """The same for all elements they are one code; chains keep to the code of their row."""
    torch.manual_seed(0)
    energy = build(ContrastiveSettings(energy=CASES["deep-sets"]), (4, 3), identity=True).energy
    x, y = torch.randn(6, 4, 3), torch.rand(6, 4, 2)

    def loss(codes: Tensor, sets: Tensor, noise: float) -> Tensor:
        chain = replace(CHAIN, noise_scale=noise)
        settings = ContrastiveSettings(energy=Given(energy=energy), training_sampler=chain, data_noise=noise)
        return build(settings, (4, 3), identity=True)(codes, sets, seeded())[0]

    torch.testing.assert_close(loss(x[:, :1].expand(6, 4, 3), y, 0.02), loss(x[:, 0], y, 0.02))
    order = [1, 2, 0, 3]
    torch.testing.assert_close(loss(x[:, order], y[:, order], 0.0), loss(x, y, 0.0))
    assert not torch.isclose(loss(x[:, order], y, 0.0), loss(x, y, 0.0))


def test_training_lowers_the_loss_and_draws_chains_to_the_data() -> None:
    chain = LangevinSettings(steps=10, stochastic_steps=10)
    method = build(ContrastiveSettings(energy=DeepSetsSettings(hidden=32), training_sampler=chain), (5,), 8)
    generator = seeded()
    optimiser = torch.optim.Adam(method.parameters(), lr=1e-3)
    batch = draw_polygons(32, generator)

    def distance_of_samples() -> float:
        sampled, _ = method.training_engine.run(LangevinSampler(chain), batch.x, torch.zeros(32, 8, 2), seeded())
        return chamfer(sampled, batch.sets.elements).mean().item()

    before, losses = distance_of_samples(), []
    for _ in range(30):
        loss, _ = method(batch.x, batch.sets.elements, generator)
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    # Energies part first; then the chains follow the lower energy, and the loss comes back.
    assert losses[15] < losses[0]
    assert distance_of_samples() < 0.5 * before


def test_the_training_engine_knows_what_is_to_come_and_how_a_run_began() -> None:
    method = build(ContrastiveSettings(energy=CASES["deep-sets"], training_sampler=CHAIN))
    assert method.training_engine_used == "eager"
    method.set_training_steps(1000)
    assert method.training_engine.expected_gradients == 4000
    method.resume_engine("graph")  # what a CPU has not
    assert method.training_engine.resumed_engine is None
    for engine in ("compiled", "eager"):
        method.resume_engine(engine)
        assert method.training_engine.resumed_engine == engine


def gradients(method: Contrastive, loss: Tensor) -> dict[str, Tensor]:
    names, weights = zip(*method.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, weights, allow_unused=True, retain_graph=True)
    return {name: slope for name, slope in zip(names, found, strict=True) if slope is not None}


# -- what may be added to the loss ---------------------------------------------------------------------------


def test_chains_may_start_near_the_data() -> None:
    """Contrastive divergence: on each real set noise whose standard deviation is drawn log-uniformly."""
    low, high = 0.01, 1.0
    chain = LangevinSettings(steps=1, stochastic_steps=0, step_size=1e-30)  # which stays where it begins
    settings = ContrastiveSettings(
        energy=Given(energy=SlopedEnergy()), training_sampler=chain, start_noise=(low, high), data_noise=0.0
    )
    method, count = build(settings, (3, 2), 3, identity=True), 400
    x, y = torch.ones(count, 3, 2), torch.rand(count, 3, 2, generator=seeded(1))
    sampled: list[Tensor] = []
    run = method.training_engine.run
    method.training_engine.run = lambda *given: sampled.append(run(*given)[0]) or (sampled[0], None)
    method(x, y, seeded())
    sizes = (sampled[0] - y).square().mean(dim=(1, 2)).sqrt().log()
    # The mean of log chi / sqrt(6) over normal noise of 6 numbers is (digamma(3) - log 3) / 2.
    bias = float(torch.digamma(torch.tensor(3.0)) - math.log(3)) / 2
    assert float(sizes.mean()) == pytest.approx((math.log(low) + math.log(high)) / 2 + bias, abs=0.25)
    spread = math.log(high / low) / math.sqrt(12)
    assert float(sizes.std()) == pytest.approx(spread, rel=0.1)


@every_energy
def test_infonce_picks_the_own_set_out_of_the_batch(settings: EnergySettings) -> None:
    """Against one energy at a time, and the cross-entropy that torch has."""
    plain = ContrastiveSettings(energy=settings, training_sampler=CHAIN, data_noise=0.02)
    temperature, (x, y) = 0.3, example()
    method = build(plain)
    first, _ = method(x, y, seeded())
    method.settings = replace(plain, infonce_temperature=temperature)
    second, statistics = method(x, y, seeded())
    noised, _ = by_hand(method, x, y)
    rows = [
        torch.stack([score(method, x[i : i + 1], noised[j : j + 1])[0] for j in range(len(y))])
        for i in range(len(x))
    ]
    expected = F.cross_entropy(-torch.stack(rows) / temperature, torch.arange(len(x)))
    torch.testing.assert_close(second - first, temperature * expected, rtol=1e-4, atol=1e-6)
    found, wanted = (gradients(method, loss) for loss in (second - first, temperature * expected))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-6)
    assert statistics["infonce"].item() == pytest.approx(expected.item(), rel=1e-4)
    assert not statistics["infonce"].requires_grad


def test_the_energy_of_real_sets_may_count_more() -> None:
    plain = ContrastiveSettings(energy=DeepSetsSettings(hidden=8), training_sampler=CHAIN)
    x, y = example()
    method = build(plain)
    first, statistics = method(x, y, seeded())
    method.settings = replace(plain, real_energy_weight=0.5)
    second, _ = method(x, y, seeded())
    torch.testing.assert_close(second - first, 0.5 * statistics["energy_real"])
    expected = 0.5 * score(method, x, by_hand(method, x, y)[0]).mean()
    found, wanted = (gradients(method, loss) for loss in (second - first, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-6)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "noise",
    [(0.0, 1.0), (-1.0, 1.0), (0.5, 0.1), (float("nan"), 1.0), (0.1,), (0.1, 0.2, 0.3), (0.1, float("inf"))],
)
def test_the_noise_of_starts_is_checked(noise: tuple[float, float]) -> None:
    with pytest.raises(SettingsError, match=r"start_noise must be (.*0 < low <= high|a finite number|2 values)"):
        ContrastiveSettings(start_noise=noise)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_is_positive(temperature: float) -> None:
    with pytest.raises(SettingsError, match=r"infonce_temperature must be (positive, or None|a finite number)"):
        ContrastiveSettings(infonce_temperature=temperature)
