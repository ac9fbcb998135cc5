"""The solver, where the way from noise to sets is known."""

import math

import pytest
import torch
from torch import Tensor

from desp.errors import SettingsError
from desp.samplers import Gradient, SolverSampler, noise_levels
from desp.settings import DenoisingSettings, SolverSettings

DENOISING = DenoisingSettings(sizes="denoised", data_deviation=0.5)
HIGH = 20.0


def flat(code: Tensor) -> Gradient:
    """The gradient of a constant energy: the data are normal, with the deviation of the settings."""
    del code
    return lambda u: (u.new_zeros(len(u)), torch.zeros_like(u))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw(batch: int = 50, **settings: object) -> tuple[Tensor, Tensor]:
    """The first noise and the sets that the solver makes of it, both in [-1, 1]."""
    sampler = SolverSampler(SolverSettings(highest=HIGH, **settings), DENOISING)
    start = torch.zeros(batch, 6, 2, dtype=torch.float64)
    sets, info = sampler.draw(flat, start[:, 0], start, seeded(), "trajectory")
    return 2 * info.trajectory[0] - 1, 2 * sets - 1


def error(**settings: object) -> float:
    """How far from the exact solution u d / sqrt(level^2 + d^2) of the probability flow."""
    noise, sets = draw(**settings)
    exact = noise * DENOISING.data_deviation / math.hypot(HIGH, DENOISING.data_deviation)
    return float((sets - exact).abs().max() / exact.abs().max())


def test_levels_fall_from_the_highest_to_none() -> None:
    levels = noise_levels(SolverSettings(steps=10, highest=5.0, lowest=0.01))
    assert len(levels) == 11
    assert levels[0] == pytest.approx(5.0)
    assert levels[-2] == pytest.approx(0.01)
    assert levels[-1] == 0.0
    assert levels == sorted(levels, reverse=True)
    evenly = noise_levels(SolverSettings(steps=5, highest=5.0, lowest=1.0, spacing=1.0))
    assert evenly == pytest.approx([5.0, 4.0, 3.0, 2.0, 1.0, 0.0])
    assert noise_levels(SolverSettings(steps=1)) == pytest.approx([SolverSettings().highest, 0.0])


@pytest.mark.parametrize(("order", "rate"), [(1, 2.0), (2, 4.0)])
def test_errors_fall_as_the_order_says(order: int, rate: float) -> None:
    coarse, fine = error(steps=40, order=order), error(steps=80, order=order)
    assert coarse / fine == pytest.approx(rate, rel=0.25)
    assert fine < 0.1


def test_second_order_is_the_better_one() -> None:
    assert error(steps=40, order=2) < error(steps=80, order=1) / 2  # for the same number of gradients


@pytest.mark.parametrize("stochasticity", [0.0, 0.3])
def test_the_deviation_is_that_of_the_data(stochasticity: float) -> None:
    _, sets = draw(batch=4000, steps=40, stochasticity=stochasticity)
    assert float(sets.std()) == pytest.approx(DENOISING.data_deviation, rel=0.03)
    assert float(sets.mean()) == pytest.approx(0.0, abs=0.01)


def test_stochastic_steps_forget_the_start() -> None:
    noise, sets = draw(batch=2000, steps=40, stochasticity=1.0)
    correlation = float(torch.corrcoef(torch.stack([noise.flatten(), sets.flatten()]))[0, 1])
    assert correlation < 0.3
    assert float(torch.corrcoef(torch.stack([x.flatten() for x in draw(steps=40)]))[0, 1]) > 0.999


def test_a_stochastic_step_adds_noise_and_takes_off_as_much_and_the_last_adds_none() -> None:
    """Euler's steps by hand: where the energy is constant, what is denoised is u d^2 / (level^2 + d^2)."""
    share = 0.5
    settings = SolverSettings(
        steps=3, order=1, highest=3.0, lowest=1.0, spacing=1.0, stochasticity=share, refinement=1
    )
    start = torch.zeros(5, 4, 2, dtype=torch.float64)
    _, info = SolverSampler(settings, DENOISING).draw(flat, start[:, 0], start, seeded(), "trajectory")
    generator, ends = seeded(), []

    def noise() -> Tensor:
        return torch.randn(start.shape, generator=generator, dtype=torch.float64)

    def slope(u: Tensor, level: float) -> Tensor:
        return u * level / (level**2 + DENOISING.data_deviation**2)

    u = 3.0 * noise()
    for level, below in ((3.0, 2.0), (2.0, 1.0)):
        raised = level * (1 + share)
        u = u + math.sqrt(raised**2 - level**2) * noise()
        u = u + (below - raised) * slope(u, raised)
        ends.append(u)
    for _ in range(2):  # from the lowest level to none, and once more to refine
        u = u - 1.0 * slope(u, 1.0)
        ends.append(u)
    torch.testing.assert_close(2 * info.trajectory[1:] - 1, torch.stack(ends))


def test_refinement_descends_at_the_lowest_level() -> None:
    _, plain = draw(steps=20, lowest=0.1)
    _, refined = draw(steps=20, lowest=0.1, refinement=3)
    shrinking = DENOISING.data_deviation**2 / (DENOISING.data_deviation**2 + 0.1**2)
    torch.testing.assert_close(refined, plain * shrinking**3)


def test_what_is_known_stays_as_it_is() -> None:
    sampler = SolverSampler(SolverSettings(steps=5, stochasticity=0.5, refinement=2), DenoisingSettings())
    start = torch.zeros(3, 4, 3, dtype=torch.float64)
    for index, size in enumerate((0, 2, 4)):
        start[index, :size, 2] = 1.0
    sets, _ = sampler.draw(flat, start[:, 0], start, seeded())
    assert torch.equal(sets[..., 2], start[..., 2])
    assert torch.equal(sets[..., :2][start[..., 2] == 0], torch.zeros(6, 2, dtype=torch.float64))
    assert (sets[..., :2][start[..., 2] == 1] != 0).all()


def test_the_record_tells_every_step() -> None:
    sampler = SolverSampler(SolverSettings(steps=7, refinement=2), DENOISING)
    start = torch.zeros(3, 4, 2)
    sets, info = sampler.draw(flat, start[:, 0], start, seeded(), "trajectory")
    assert info.energies.shape == info.gradient_norms.shape == (9, 3)
    assert info.trajectory.shape == (10, 3, 4, 2)
    assert torch.equal(info.trajectory[-1], sets)
    assert sampler.draw(flat, start[:, 0], start, seeded())[1].energies is None


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"lowest": 0.0}, {"lowest": 30.0}, {"spacing": 0.0}, {"stochasticity": -1.0}]
)
def test_settings_that_cannot_work(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=f"sampler.{next(iter(wrong))}"):
        SolverSettings(**wrong)
