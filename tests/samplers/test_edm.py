"""The probability-flow sampler, where the way from noise to sets is known."""

import math

import pytest
import torch
from torch import Tensor

from desp.errors import SettingsError
from desp.samplers import EDMSampler, ValueAndGrad
from desp.samplers.edm import sigma_schedule
from desp.settings import EDMSettings

SIGMA_DATA = 0.5
HIGH = 20.0


def flat(code: Tensor) -> ValueAndGrad:
    """The gradient of a constant energy: the data are normal, with deviation sigma_data."""
    del code
    return lambda u: (u.new_zeros(len(u)), torch.zeros_like(u))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw(batch: int = 50, **settings: object) -> tuple[Tensor, Tensor]:
    """The first noise and the sets that the sampler makes of it, both in [-1, 1]."""
    sampler = EDMSampler(EDMSettings(sigma_max=HIGH, **settings), SIGMA_DATA, known_presence=False)
    start = torch.zeros(batch, 6, 2, dtype=torch.float64)
    sets, info = sampler.sample(flat, start[:, 0], start, seeded(), "sets")
    return 2 * info.trajectory[0] - 1, 2 * sets - 1


def error(**settings: object) -> float:
    """How far from the exact solution u d / sqrt(sigma^2 + d^2) of the probability flow."""
    noise, sets = draw(**settings)
    exact = noise * SIGMA_DATA / math.hypot(HIGH, SIGMA_DATA)
    return float((sets - exact).abs().max() / exact.abs().max())


def test_sigmas_fall_from_the_largest_to_none() -> None:
    sigmas = sigma_schedule(EDMSettings(steps=10, sigma_max=5.0, sigma_min=0.01))
    assert len(sigmas) == 11
    assert sigmas[0] == pytest.approx(5.0)
    assert sigmas[-2] == pytest.approx(0.01)
    assert sigmas[-1] == 0.0
    assert sigmas == sorted(sigmas, reverse=True)
    evenly = sigma_schedule(EDMSettings(steps=5, sigma_max=5.0, sigma_min=1.0, rho=1.0))
    assert evenly == pytest.approx([5.0, 4.0, 3.0, 2.0, 1.0, 0.0])
    assert sigma_schedule(EDMSettings(steps=1)) == pytest.approx([EDMSettings().sigma_max, 0.0])


@pytest.mark.parametrize(("order", "rate"), [(1, 2.0), (2, 4.0)])
def test_errors_fall_as_the_order_says(order: int, rate: float) -> None:
    coarse, fine = error(steps=40, order=order), error(steps=80, order=order)
    assert coarse / fine == pytest.approx(rate, rel=0.25)
    assert fine < 0.1


def test_second_order_is_the_better_one() -> None:
    assert error(steps=40, order=2) < error(steps=80, order=1) / 2  # for the same number of gradients


@pytest.mark.parametrize("churn", [0.0, 0.3])
def test_the_deviation_is_that_of_the_data(churn: float) -> None:
    _, sets = draw(batch=4000, steps=40, churn=churn)
    assert float(sets.std()) == pytest.approx(SIGMA_DATA, rel=0.03)
    assert float(sets.mean()) == pytest.approx(0.0, abs=0.01)


def test_churn_forgets_the_start() -> None:
    noise, sets = draw(batch=2000, steps=40, churn=1.0)
    correlation = float(torch.corrcoef(torch.stack([noise.flatten(), sets.flatten()]))[0, 1])
    assert correlation < 0.3
    assert float(torch.corrcoef(torch.stack([x.flatten() for x in draw(steps=40)]))[0, 1]) > 0.999


def test_churn_adds_noise_and_takes_off_as_much_and_the_last_step_adds_none() -> None:
    """Euler's steps by hand: where the energy is constant, what is denoised is u d^2 / (sigma^2 + d^2)."""
    share = 0.5
    settings = EDMSettings(steps=3, order=1, sigma_max=3.0, sigma_min=1.0, rho=1.0, churn=share)
    start = torch.zeros(5, 4, 2, dtype=torch.float64)
    sampler = EDMSampler(settings, SIGMA_DATA, known_presence=False)
    _, info = sampler.sample(flat, start[:, 0], start, seeded(), "sets")
    generator, ends = seeded(), []

    def noise() -> Tensor:
        return torch.randn(start.shape, generator=generator, dtype=torch.float64)

    def derivative(u: Tensor, sigma: float) -> Tensor:
        return u * sigma / (sigma**2 + SIGMA_DATA**2)

    u = 3.0 * noise()
    for sigma, below in ((3.0, 2.0), (2.0, 1.0)):
        raised = sigma * (1 + share)
        u = u + math.sqrt(raised**2 - sigma**2) * noise()
        u = u + (below - raised) * derivative(u, raised)
        ends.append(u)
    ends.append(u - 1.0 * derivative(u, 1.0))  # from the smallest sigma to none
    torch.testing.assert_close(2 * info.trajectory[1:] - 1, torch.stack(ends))


def test_what_is_known_stays_as_it_is() -> None:
    sampler = EDMSampler(EDMSettings(steps=5, churn=0.5), SIGMA_DATA, known_presence=True)
    start = torch.zeros(3, 4, 3, dtype=torch.float64)
    for index, size in enumerate((0, 2, 4)):
        start[index, :size, 2] = 1.0
    sets, _ = sampler.sample(flat, start[:, 0], start, seeded())
    assert torch.equal(sets[..., 2], start[..., 2])
    assert torch.equal(sets[..., :2][start[..., 2] == 0], torch.zeros(6, 2, dtype=torch.float64))
    assert (sets[..., :2][start[..., 2] == 1] != 0).all()


def test_the_record_tells_every_step() -> None:
    sampler = EDMSampler(EDMSettings(steps=7), SIGMA_DATA, known_presence=False)
    start = torch.zeros(3, 4, 2)
    sets, info = sampler.sample(flat, start[:, 0], start, seeded(), "sets")
    assert info.energies.shape == info.gradient_norms.shape == (7, 3)
    assert info.trajectory.shape == (8, 3, 4, 2)
    assert torch.equal(info.trajectory[-1], sets)
    assert sampler.sample(flat, start[:, 0], start, seeded())[1].energies is None


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"sigma_min": 0.0}, {"sigma_min": 30.0}, {"rho": 0.0}, {"churn": -1.0}]
)
def test_settings_that_cannot_work(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=f"^{next(iter(wrong))} must be"):
        EDMSettings(**wrong)
