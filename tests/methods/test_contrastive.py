"""Contrastive estimation, recomputed by hand and in closed form."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from desp.data import draw_polygons
from desp.distances import chamfer
from desp.energies import SetEnergy, Tables, default_input_encoder, make_energy
from desp.errors import SettingsError
from desp.estimators import ContrastiveEstimator
from desp.samplers import LangevinSampler
from desp.samplers.base import eager_gradient
from desp.settings import (
    ContrastiveSettings,
    DeepSetsSettings,
    EnergySettings,
    LangevinSettings,
    PooledLayersSettings,
    PredictorSettings,
    SetEncoderSettings,
)

CHAIN = LangevinSettings(steps=4, stochastic_steps=4, noise_scale=0.05)
CASES: dict[str, EnergySettings] = {
    "deep-sets": DeepSetsSettings(hidden=8),
    "set-encoder": SetEncoderSettings(hidden=8, latent=6),
}
every_energy = pytest.mark.parametrize("settings", CASES.values(), ids=CASES.keys())


def seeded(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(settings: EnergySettings) -> SetEnergy:
    return make_energy(settings, 2, (3,), default_input_encoder("vector", (3,), settings))


def example() -> tuple[Tensor, Tensor]:
    generator = seeded(1)
    return torch.randn(6, 3, generator=generator), torch.rand(6, 4, 2, generator=generator)


def by_hand(energy: SetEnergy, x: Tensor, y: Tensor, settings: ContrastiveSettings) -> tuple[Tensor, Tensor]:
    """The noised data and the samples that the estimator must have used."""
    generator = seeded()
    noised = y + settings.data_noise * torch.randn(y.shape, generator=generator)
    gradient = eager_gradient(energy, energy.encode(x).detach(), y.shape[1])
    sampled, _ = LangevinSampler(settings.chain).sample(gradient, torch.zeros_like(y), generator)
    return noised, sampled


@every_energy
def test_loss_is_the_difference_of_mean_energies(settings: EnergySettings) -> None:
    energy, (x, y) = build(settings), example()
    contrast = ContrastiveSettings(chain=CHAIN, data_noise=0.02)
    loss, statistics = ContrastiveEstimator(energy, contrast)(x, y, seeded())
    noised, sampled = by_hand(energy, x, y, contrast)
    real, fake = energy(x, noised).mean(), energy(x, sampled).mean()
    torch.testing.assert_close(loss, real - fake)
    assert statistics["energy_real"].item() == pytest.approx(real.item(), rel=1e-5)
    assert statistics["energy_sampled"].item() == pytest.approx(fake.item(), rel=1e-5)
    assert not any(value.requires_grad for value in statistics.values())


@every_energy
def test_samples_carry_no_gradient_but_codes_do(settings: EnergySettings) -> None:
    energy, (x, y) = build(settings), example()
    contrast = ContrastiveSettings(chain=CHAIN, data_noise=0.02)
    noised, sampled = by_hand(energy, x, y, contrast)
    weights = list(energy.parameters())
    expected = torch.autograd.grad(energy(x, noised).mean() - energy(x, sampled).mean(), weights)
    loss, _ = ContrastiveEstimator(energy, contrast)(x, y, seeded())
    torch.testing.assert_close(torch.autograd.grad(loss, weights), expected)


class LinearEnergy(SetEnergy):
    """E = theta * sum of all numbers of the set: chains fall by theta a step."""

    def __init__(self, theta: float) -> None:
        super().__init__(nn.Identity())
        self.theta = nn.Parameter(torch.tensor(theta))

    def score(self, code: Tensor, y: Tensor, tables: Tables | None = None) -> Tensor:
        del code, tables
        return self.theta * y.sum(dim=(1, 2))


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_gradient_of_a_linear_energy(noise: float) -> None:
    theta, steps = 0.3, 7
    chain = LangevinSettings(steps=steps, stochastic_steps=steps, noise_scale=noise)
    estimator = ContrastiveEstimator(LinearEnergy(theta), ContrastiveSettings(chain=chain, data_noise=noise))
    x, y = example()
    loss, _ = estimator(x, y, seeded())
    loss.backward()
    generator = seeded()
    real = y + noise * torch.randn(y.shape, generator=generator)
    pushes = [noise * torch.randn(y.shape, generator=generator) for _ in range(steps)]
    sampled = sum(pushes) - steps * theta
    expected = real.sum(dim=(1, 2)).mean() - sampled.sum(dim=(1, 2)).mean()
    torch.testing.assert_close(estimator.energy.theta.grad, expected)
    torch.testing.assert_close(loss.detach(), theta * expected)


class SlopedEnergy(SetEnergy):
    """E = theta times the sum of set times input, which has the shape of a set and so is the slope."""

    def __init__(self) -> None:
        super().__init__(nn.Identity())
        self.theta = nn.Parameter(torch.tensor(1.0))

    def score(self, code: Tensor, y: Tensor, tables: Tables | None = None) -> Tensor:
        del tables
        return self.theta * (code * y).sum(dim=(1, 2))


# One element of each set, or all; the largest step is .1 and slopes count half.
SLOPES = {
    "level": (torch.zeros(3, 2), False),
    "one element is too steep": (torch.tensor([[0.15, 0.15], [0.0, 0.0], [0.0, 0.0]]), True),
    "as steep a set, none of its elements": (torch.full((3, 2), 0.12), False),
    "too steep if steps were of size 1": (torch.tensor([[0.11, 0.11], [0.0, 0.0], [0.0, 0.0]]), False),
}
SPARING = ContrastiveSettings(
    chain=LangevinSettings(steps=3, stochastic_steps=3, noise_scale=0.01, largest_step=0.1, step_size=0.5),
    data_noise=0.02,
    spare_runaways=True,
)


def sloped_example() -> tuple[Tensor, Tensor]:
    return torch.stack([slope for slope, _ in SLOPES.values()]), torch.rand(4, 3, 2, generator=seeded(1))


def test_runaways_are_not_raised() -> None:
    energy, (x, y) = SlopedEnergy(), sloped_example()
    loss, statistics = ContrastiveEstimator(energy, SPARING)(x, y, seeded())
    noised, sampled = by_hand(energy, x, y, SPARING)
    real, fake = energy(x, noised), energy(x, sampled)
    spared = torch.tensor([spared for _, spared in SLOPES.values()])
    assert statistics["runaways"].item() == 0.25
    torch.testing.assert_close(loss, real.mean() - fake.mean())
    expected = real.mean() - fake[~spared].sum() / 4
    torch.testing.assert_close(
        torch.autograd.grad(loss, energy.theta), torch.autograd.grad(expected, energy.theta)
    )


def test_the_penalty_leaves_runaways_alone_too() -> None:
    energy, (x, y) = SlopedEnergy(), sloped_example()
    settings = replace(SPARING, energy_penalty=0.5)
    loss, _ = ContrastiveEstimator(energy, settings)(x, y, seeded())
    noised, sampled = by_hand(energy, x, y, settings)
    real, fake = energy(x, noised), energy(x, sampled)
    kept = fake[[not spared for _, spared in SLOPES.values()]]
    expected = real.mean() - kept.sum() / 4 + 0.5 * (real.square().sum() + kept.square().sum()) / 8
    torch.testing.assert_close(
        torch.autograd.grad(loss, energy.theta), torch.autograd.grad(expected, energy.theta)
    )


def test_no_chain_goes_on_from_a_runaway() -> None:
    (x, y), settings = sloped_example(), replace(SPARING, replay=1.0, replay_capacity=4)
    estimator = ContrastiveEstimator(SlopedEnergy(), settings)
    estimator(x, y, seeded())
    empty = estimator.memory["sets"].abs().amax(dim=(1, 2)) == 0
    assert empty.tolist() == [spared for _, spared in SLOPES.values()]


@pytest.mark.parametrize(("most", "share", "failed"), [(0.05, 0.05, False), (0.05, 0.06, True), (1.0, 1.0, False)])
def test_more_runaways_than_allowed_are_a_failure(most: float, share: float, failed: bool) -> None:
    estimator = ContrastiveEstimator(SlopedEnergy(), replace(SPARING, most_runaways=most))
    failure = estimator.failure({"runaways": share})
    assert (failure is not None) == failed
    assert failure is None or failure.startswith("6.0% of the samples run away")


@pytest.mark.parametrize("most", [0.0, -0.1, 1.1, float("nan")])
def test_the_share_that_may_run_away_is_checked(most: float) -> None:
    with pytest.raises(SettingsError, match="most_runaways"):
        ContrastiveSettings(most_runaways=most)


def test_runaways_need_a_largest_step() -> None:
    with pytest.raises(SettingsError, match="largest_step"):
        ContrastiveSettings(spare_runaways=True)


def test_energies_without_a_lower_bound_have_no_runaways_to_spare() -> None:
    with pytest.raises(SettingsError, match="deep-sets or set-encoder"):
        PredictorSettings.contrastive(estimator=SPARING, energy=PooledLayersSettings(hidden=8))


def test_the_generator_decides() -> None:
    energy, (x, y) = build(CASES["deep-sets"]), example()
    estimator = ContrastiveEstimator(energy, ContrastiveSettings(chain=CHAIN))
    assert torch.equal(estimator(x, y, seeded(1))[0], estimator(x, y, seeded(1))[0])
    assert not torch.equal(estimator(x, y, seeded(1))[0], estimator(x, y, seeded(2))[0])


def test_codes_for_each_element() -> None:
    """The same for all elements they are one code; chains keep to the code of their row."""
    energy = make_energy(CASES["deep-sets"], 2, (4, 3), nn.Identity())
    x, y = torch.randn(6, 4, 3), torch.rand(6, 4, 2)

    def loss(codes: Tensor, sets: Tensor, noise: float) -> Tensor:
        settings = ContrastiveSettings(chain=replace(CHAIN, noise_scale=noise), data_noise=noise)
        return ContrastiveEstimator(energy, settings)(codes, sets, seeded())[0]

    torch.testing.assert_close(loss(x[:, :1].expand(6, 4, 3), y, 0.02), loss(x[:, 0], y, 0.02))
    order = [1, 2, 0, 3]
    torch.testing.assert_close(loss(x[:, order], y[:, order], 0.0), loss(x, y, 0.0))
    assert not torch.isclose(loss(x[:, order], y, 0.0), loss(x, y, 0.0))


def test_training_lowers_the_loss_and_draws_chains_to_the_data() -> None:
    settings = DeepSetsSettings(hidden=32)
    energy = make_energy(settings, 2, (5,), default_input_encoder("vector", (5,), settings))
    chain = LangevinSettings(steps=10, stochastic_steps=10)
    estimator = ContrastiveEstimator(energy, ContrastiveSettings(chain=chain))
    generator = seeded()
    optimiser = torch.optim.Adam(estimator.parameters(), lr=1e-3)
    batch = draw_polygons(32, generator)

    def distance_of_samples() -> float:
        sampled, _ = estimator.engine.run(LangevinSampler(chain), batch.x, torch.zeros(32, 8, 2), seeded())
        return chamfer(sampled, batch.sets.elements).mean().item()

    before, losses = distance_of_samples(), []
    for _ in range(30):
        loss, _ = estimator(batch.x, batch.sets.elements, generator)
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    # Energies part first; then the chains follow the lower energy, and the loss comes back.
    assert losses[15] < losses[0]
    assert distance_of_samples() < 0.5 * before
