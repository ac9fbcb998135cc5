"""Chains on energies whose chains are known in closed form."""

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from desp.errors import SettingsError
from desp.samplers import LangevinSampler, Record, ValueAndGrad, langevin_step
from desp.settings import ContrastiveSettings, LangevinSettings

STIFFNESS = 0.1
KEEP = 1 - STIFFNESS  # what one step of size 1 leaves of y


def quadratic(y: Tensor) -> tuple[Tensor, Tensor]:
    """E = k/2 |y|^2."""
    return 0.5 * STIFFNESS * y.square().sum(dim=(1, 2)), STIFFNESS * y


def sample(
    settings: LangevinSettings,
    start: Tensor,
    seed: int = 0,
    record: Record = "sets",
    gradient: ValueAndGrad = quadratic,
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y, info = LangevinSampler(settings).sample(lambda _: gradient, start[:, 0], start, generator, record)
    return y, info.trajectory


@pytest.mark.parametrize(
    "settings",
    [
        LangevinSettings(steps=12, stochastic_steps=0),
        LangevinSettings(steps=12, stochastic_steps=12, noise_scale=0.0),
    ],
    ids=["no stochastic steps", "no noise"],
)
def test_without_noise_it_is_gradient_descent(settings: LangevinSettings) -> None:
    start = torch.randn(3, 4, 2)
    y, trajectory = sample(settings, start)
    torch.testing.assert_close(y, KEEP**12 * start)
    torch.testing.assert_close(trajectory, torch.stack([KEEP**step * start for step in range(13)]))


def test_step_size_scales_the_gradient() -> None:
    start = torch.randn(3, 4, 2)
    y, _ = sample(LangevinSettings(steps=5, stochastic_steps=0, step_size=2.5), start)
    torch.testing.assert_close(y, (1 - 2.5 * STIFFNESS) ** 5 * start)


def test_momentum_repeats_a_share_of_the_last_step_without_noise() -> None:
    start = torch.randn(3, 4, 2)
    _, trajectory = sample(LangevinSettings(steps=6, stochastic_steps=0, momentum=0.5), start)
    y, before = start, torch.zeros_like(start)
    for expected in trajectory[1:]:
        step = 0.5 * before - STIFFNESS * y
        y, before = y + step, step
        torch.testing.assert_close(expected, y)


def test_noise_knows_no_momentum() -> None:
    start = torch.randn(3, 4, 2)
    plain = LangevinSettings(steps=5, stochastic_steps=5)
    assert torch.equal(sample(plain, start)[0], sample(dataclasses.replace(plain, momentum=0.9), start)[0])


def test_no_element_goes_farther_than_the_longest_step() -> None:
    start = torch.tensor([[[10.0, 0.0], [0.3, 0.4], [0.0, 0.0]]])
    y, _ = sample(LangevinSettings(steps=1, stochastic_steps=0, max_step_norm=0.5), start)
    torch.testing.assert_close(y, torch.tensor([[[9.5, 0.0], [0.27, 0.36], [0.0, 0.0]]]))


def test_the_longest_step_holds_for_the_whole_step_momentum_included() -> None:
    """The slope is 1 everywhere: without a limit the second step would be 1.5 long."""
    level: ValueAndGrad = lambda y: (y.sum(dim=(1, 2)), torch.ones_like(y))  # noqa: E731
    settings = LangevinSettings(steps=3, stochastic_steps=0, momentum=0.5, max_step_norm=1.2)
    _, trajectory = sample(settings, torch.zeros(1, 1, 1), gradient=level)
    # 1, then 1 + 0.5 * 1 held at 1.2, then 1 + 0.5 * 1.2, where 1.2 is the step that was taken, held again.
    torch.testing.assert_close(trajectory.flatten(), torch.tensor([0.0, -1.0, -2.2, -3.4]))
    longer = dataclasses.replace(settings, max_step_norm=1.55)
    _, trajectory = sample(longer, torch.zeros(1, 1, 1), gradient=level)
    torch.testing.assert_close(trajectory.flatten(), torch.tensor([0.0, -1.0, -2.5, -4.05]))
    shorter = dataclasses.replace(settings, steps=2, momentum=0.9, max_step_norm=0.4)
    _, trajectory = sample(shorter, torch.zeros(1, 1, 1), gradient=lambda y: (y.sum(dim=(1, 2)), 0.3 + 0 * y))
    torch.testing.assert_close(trajectory.flatten(), torch.tensor([0.0, -0.3, -0.7]))


def test_the_longest_step_is_for_the_gradient_and_not_for_noise() -> None:
    settings = LangevinSettings(steps=1, stochastic_steps=1, noise_scale=50.0, max_step_norm=0.1)
    start = torch.zeros(4, 3, 2)
    y, _ = sample(settings, start)
    noised = 50.0 * torch.randn(start.shape, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close((y - noised).norm(dim=-1), torch.full((4, 3), 0.1), rtol=1e-3, atol=0)


def test_momentum_begins_with_the_last_step_of_the_noisy_part() -> None:
    settings = LangevinSettings(steps=3, stochastic_steps=2, momentum=0.5, noise_scale=0.1)
    plain = dataclasses.replace(settings, momentum=0.0)
    start = torch.randn(3, 4, 2)
    _, with_it = sample(settings, start)
    _, without = sample(plain, start)
    assert torch.equal(with_it[:3], without[:3])
    generator = torch.Generator().manual_seed(0)
    noises = [0.1 * torch.randn(start.shape, generator=generator) for _ in range(2)]
    last_step = -STIFFNESS * (with_it[1] + noises[1])
    torch.testing.assert_close(with_it[3], with_it[2] - STIFFNESS * with_it[2] + 0.5 * last_step)


@pytest.mark.parametrize("slope", [1e30, float("inf")])
def test_the_longest_step_holds_for_any_slope(slope: float) -> None:
    settings = LangevinSettings(steps=1, stochastic_steps=0, max_step_norm=0.5)
    y, _ = sample(
        settings, torch.zeros(1, 1, 2), gradient=lambda y: (y.sum(dim=(1, 2)), torch.full_like(y, slope))
    )
    torch.testing.assert_close(y.norm(), torch.tensor(0.5))


@pytest.mark.parametrize(
    ("name", "value"), [("momentum", -0.1), ("momentum", 1.0), ("max_step_norm", 0.0), ("max_step_norm", -1.0)]
)
def test_settings_of_steps_are_checked(name: str, value: float) -> None:
    with pytest.raises(SettingsError, match=f"{name} must be"):
        LangevinSettings(**{name: value})


@pytest.mark.parametrize("noise_first", [True, False])
def test_order_of_noise_and_gradient(noise_first: bool) -> None:
    settings = LangevinSettings(steps=1, stochastic_steps=1, noise_first=noise_first, step_size=2.0)
    y, noise = torch.randn(3, 4, 2), torch.randn(3, 4, 2)
    moved, energy, slope, _ = langevin_step(y, quadratic, noise, settings)
    left = 1 - 2 * STIFFNESS
    place = y + noise if noise_first else y
    torch.testing.assert_close(moved, left * (y + noise) if noise_first else left * y + noise)
    torch.testing.assert_close(energy, 0.5 * STIFFNESS * place.square().sum(dim=(1, 2)))
    torch.testing.assert_close(slope, STIFFNESS * place)


@pytest.mark.parametrize("noise_first", [True, False])
def test_a_quadratic_energy_has_its_known_stationary_variance(noise_first: bool) -> None:
    # noise first: y' = (1-k)(y + eps u); noise after: y' = (1-k) y + eps u
    settings = LangevinSettings(steps=100, stochastic_steps=100, noise_scale=0.3, noise_first=noise_first)
    y, _ = sample(settings, torch.zeros(20_000, 2, 1), record="nothing")
    variance = 0.3**2 / (1 - KEEP**2) * (KEEP**2 if noise_first else 1)
    assert y.var().item() == pytest.approx(variance, rel=0.05)
    assert y.mean().item() == pytest.approx(0, abs=0.05 * math.sqrt(variance))


def test_noise_falls_evenly_in_its_logarithm_and_ends_with_the_stochastic_steps() -> None:
    settings = LangevinSettings(steps=5, stochastic_steps=3, noise_scale=0.04, final_noise_scale=0.01)
    assert [settings.noise_at(step) for step in range(5)] == pytest.approx([0.04, 0.02, 0.01, 0, 0])
    start, generator = torch.zeros(4, 3, 2), torch.Generator().manual_seed(3)
    end, _ = sample(settings, start, seed=3, gradient=lambda y: (y.sum(dim=(1, 2)), torch.zeros_like(y)))
    expected = sum(scale * torch.randn(start.shape, generator=generator) for scale in (0.04, 0.02, 0.01))
    torch.testing.assert_close(end, expected)


@pytest.mark.parametrize("final_noise_scale", [0.0, 0.02, -0.01])
def test_the_final_noise_is_above_zero_and_not_above_the_first(final_noise_scale: float) -> None:
    with pytest.raises(SettingsError, match="final_noise_scale"):
        LangevinSettings(noise_scale=0.01, final_noise_scale=final_noise_scale)


def test_noise_scale_is_a_standard_deviation() -> None:
    flat: ValueAndGrad = lambda y: (y.new_zeros(len(y)), torch.zeros_like(y))  # noqa: E731
    settings = LangevinSettings(steps=1, stochastic_steps=1, noise_scale=0.01)
    y, _ = sample(settings, torch.zeros(20_000, 2, 1), gradient=flat)
    assert y.std().item() == pytest.approx(0.01, rel=0.05)


def test_seeds_decide() -> None:
    settings, start = LangevinSettings(steps=6, stochastic_steps=4), torch.zeros(3, 4, 2)
    assert torch.equal(sample(settings, start, seed=1)[0], sample(settings, start, seed=1)[0])
    assert not torch.isclose(sample(settings, start, seed=1)[0], sample(settings, start, seed=2)[0]).any()


def test_global_randomness_is_neither_used_nor_moved() -> None:
    settings, start = LangevinSettings(steps=6, stochastic_steps=4), torch.zeros(3, 4, 2)
    state = torch.get_rng_state()
    first, _ = sample(settings, start)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(123)
    assert torch.equal(sample(settings, start)[0], first)


def test_a_generator_goes_on_where_it_was(generator: torch.Generator) -> None:
    sampler, start = LangevinSampler(LangevinSettings(steps=6, stochastic_steps=4)), torch.zeros(3, 4, 2)
    first, _ = sampler.sample(lambda _: quadratic, start[:, 0], start, generator)
    second, _ = sampler.sample(lambda _: quadratic, start[:, 0], start, generator)
    assert not torch.isclose(first, second).any()


def test_after_the_stochastic_steps_nothing_is_random() -> None:
    settings = LangevinSettings(steps=9, stochastic_steps=4, noise_scale=0.5)
    y, trajectory = sample(settings, torch.zeros(3, 4, 2))
    torch.testing.assert_close(trajectory[4:], torch.stack([KEEP**j * trajectory[4] for j in range(6)]))
    quiet = dataclasses.replace(settings, steps=5, stochastic_steps=0)
    for seed in (7, 8):
        torch.testing.assert_close(sample(quiet, trajectory[4], seed=seed)[0], y)


def test_stochastic_steps_come_first() -> None:
    settings = LangevinSettings(steps=9, stochastic_steps=4, noise_scale=0.5)
    _, trajectory = sample(settings, torch.ones(3, 4, 2))
    moved = (trajectory[1:] - KEEP * trajectory[:-1]).flatten(1).abs().amax(dim=1)
    assert (moved[:4] > 0.1).all()
    assert (moved[4:] < 1e-6).all()


def test_records() -> None:
    settings, start = LangevinSettings(steps=5, stochastic_steps=3), torch.rand(3, 4, 2)
    sampler, results = LangevinSampler(settings), {}
    for record in ("nothing", "energies", "sets"):
        generator = torch.Generator().manual_seed(0)
        results[record] = sampler.sample(lambda _: quadratic, start, start, generator, record)
    ends = [y for y, _ in results.values()]
    assert torch.equal(ends[0], ends[1])
    assert torch.equal(ends[0], ends[2])

    nothing, trace, trajectory = (info for _, info in results.values())
    assert (nothing.energies, nothing.gradient_norms, nothing.trajectory) == (None, None, None)
    assert trace.trajectory is None
    for info in (trace, trajectory):
        assert info.energies.shape == info.gradient_norms.shape == (5, 3)
    assert trajectory.trajectory.shape == (6, 3, 4, 2)
    assert torch.equal(trajectory.trajectory[0], start)
    assert torch.equal(trajectory.trajectory[-1], ends[0])


def test_recorded_norms_are_displacements_and_energies_are_those_before() -> None:
    settings, start = LangevinSettings(steps=5, stochastic_steps=0), torch.rand(3, 4, 2)
    sampler, generator = LangevinSampler(settings), torch.Generator()
    _, info = sampler.sample(lambda _: quadratic, start, start, generator, "sets")
    moved = (info.trajectory[1:] - info.trajectory[:-1]).flatten(2).norm(dim=2)
    torch.testing.assert_close(info.gradient_norms, moved)
    expected = torch.stack([quadratic(sets)[0] for sets in info.trajectory[:-1]])
    torch.testing.assert_close(info.energies, expected)


def test_the_start_is_not_changed() -> None:
    start = torch.rand(3, 4, 2)
    before = start.clone()
    sample(LangevinSettings(steps=5, stochastic_steps=5), start)
    assert torch.equal(start, before)


def test_a_single_chain_has_no_restarts() -> None:
    with pytest.raises(SettingsError, match="restarts must be 1 for a single chain, got 2"):
        LangevinSampler(LangevinSettings(restarts=2))


def test_a_chain_without_noise_is_deterministic() -> None:
    assert LangevinSettings(stochastic_steps=0).deterministic
    assert LangevinSettings(noise_scale=0.0).deterministic
    assert not LangevinSettings().deterministic
    assert ContrastiveSettings(sampler=LangevinSettings(stochastic_steps=0)).deterministic


def test_the_best_of_several_chains_does_not_follow_the_distribution() -> None:
    assert LangevinSettings().follows_distribution
    assert not LangevinSettings(restarts=2).follows_distribution
