"""Densities by the probability flow, where they are known."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from desp.samplers import LogDensity, ProbabilityFlow, ValueAndGrad, density, log_density
from desp.samplers.diffusion import noise_mask
from desp.settings import EDMSettings

SIGMA_DATA = 0.5
FLOW = EDMSettings(steps=100, sigma_max=20.0, sigma_min=0.002)
CENTRES = torch.tensor([[[-0.6, 0.4]], [[0.5, -0.2]]], dtype=torch.float64)  # in [-1, 1]
WIDTH = 0.15


def flat(code: Tensor) -> ValueAndGrad:
    """The gradient of a constant energy: one normal distribution of deviation sigma_data."""
    del code
    return lambda u: (u.new_zeros(len(u)), 0 * u)


def mixture(sigma_of_code: Tensor) -> ValueAndGrad:
    """The exact gradient for elements that all come from the same one of two normal distributions.

    F = (denoised - c_skip u) / c_out must come out of it, with sigma read from the code that carries it.
    """
    sigma = (4 * sigma_of_code[:, 1]).exp().view(-1, 1, 1)  # the first number of `with_sigma`
    deviation = SIGMA_DATA
    total = sigma.square() + deviation**2
    c_skip, c_out = deviation**2 / total, sigma * deviation * total.rsqrt()

    def gradient(scaled: Tensor) -> tuple[Tensor, Tensor]:
        u = scaled * total.sqrt()
        spread = sigma.square() + WIDTH**2
        logs = -(u.unsqueeze(1) - CENTRES).square().sum(dim=(2, 3)) / (2 * spread.view(-1, 1))
        shares = logs.softmax(dim=1)
        centre = torch.einsum("bk,knd->bnd", shares, CENTRES)
        clean = u + sigma.square() / spread * (centre - u)
        return u.new_zeros(len(u)), -(clean - c_skip * u) / c_out

    return gradient


def sets(batch: int = 6, size: int = 3) -> Tensor:
    """Sets from the mixture, and from a little further out."""
    generator = torch.Generator().manual_seed(0)
    centres = CENTRES[torch.arange(batch) % 2]
    noise = torch.randn(batch, size, 2, generator=generator, dtype=torch.float64)
    return (centres + 1.5 * WIDTH * noise + 1) / 2


def follow(
    gradient: object,
    y: Tensor,
    flow: EDMSettings = FLOW,
    probes: int = 8,
    sigma_data: float = SIGMA_DATA,
) -> LogDensity:
    code = torch.zeros(len(y), 1, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    along = ProbabilityFlow(gradient, code, noise_mask(y, known_presence=False), sigma_data)
    return log_density(along, y, generator, settings=flow, probes=probes)


def normal(u: Tensor, deviation: float) -> Tensor:
    return torch.distributions.Normal(0.0, math.hypot(deviation, FLOW.sigma_min)).log_prob(u).sum(dim=(1, 2))


def exact_mixture(y: Tensor) -> Tensor:
    u = 2 * y - 1
    each = torch.stack([normal(u - centre, WIDTH) for centre in CENTRES])
    return each.logsumexp(dim=0) - math.log(2) + y[0].numel() * math.log(2)


def test_a_normal_distribution() -> None:
    y = sets()
    found = follow(flat, y)
    expected = normal(2 * y - 1, SIGMA_DATA) + y[0].numel() * math.log(2)
    torch.testing.assert_close(found.value, expected, rtol=0, atol=0.02)
    assert ((found.value - expected).abs() <= 3 * found.error).all()


def test_a_normal_distribution_is_known_at_every_sigma() -> None:
    """Also where noise does not drown the data: there all depends on their deviation."""
    y = sets()
    found = follow(flat, y, replace(FLOW, sigma_max=0.5), sigma_data=0.4)
    expected = normal(2 * y - 1, 0.4) + y[0].numel() * math.log(2)
    torch.testing.assert_close(found.value, expected, rtol=0, atol=0.02)


def test_a_mixture() -> None:
    y = sets()
    found = follow(mixture, y)
    expected = exact_mixture(y)
    assert expected.std() > 1  # the densities differ by far more than they may be off
    torch.testing.assert_close(found.value, expected, rtol=0, atol=0.05)
    assert ((found.value - expected).abs() <= 3 * found.error).all()


def test_it_integrates_to_one() -> None:
    # A grid over more than all of the mass of single elements.
    axis = torch.linspace(-1, 2, 61, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis).unsqueeze(1)
    found = follow(mixture, grid, EDMSettings(steps=60, sigma_max=20.0, sigma_min=0.002))
    assert float(found.value.exp().sum() * (axis[1] - axis[0]) ** 2) == pytest.approx(1.0, abs=0.02)


def test_probes_estimate_the_exact_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    y, flow = sets(batch=4), replace(FLOW, steps=40)
    exact = follow(mixture, y, flow)
    monkeypatch.setattr(density, "EXACT_UP_TO", 0)
    probed = follow(mixture, y, flow, probes=16)
    assert ((probed.value - exact.value).abs() <= 4 * probed.error + 1e-9).all()
    assert (probed.error >= exact.error - 1e-3).all()
    once, again = (follow(mixture, y, replace(FLOW, steps=4), probes=16).value for _ in range(2))
    assert torch.equal(once, again)


def test_errors_fall_with_more_steps() -> None:
    y = sets()
    few = follow(mixture, y, EDMSettings(steps=20, sigma_max=20.0, sigma_min=0.002))
    assert (few.error > 3 * follow(mixture, y).error).all()


def test_without_probes_the_error_is_the_difference_to_half_as_many_steps() -> None:
    y = sets()
    whole, half = (
        follow(mixture, y, EDMSettings(steps=steps, sigma_max=20.0, sigma_min=0.002)) for steps in (40, 20)
    )
    torch.testing.assert_close(whole.error, (whole.value - half.value).abs())


def test_it_takes_as_many_steps_as_the_settings_say_and_half_as_many_for_the_error() -> None:
    sigmas: list[float] = []

    def counted(code: Tensor) -> ValueAndGrad:
        sigmas.append(float((4 * code[0, 1]).exp()))
        return flat(code)

    follow(counted, sets(), replace(FLOW, steps=4))
    assert len(sigmas) == 2 * 4 + 2 * 2  # two gradients a step
    assert sigmas[0] == sigmas[8] == pytest.approx(0.002)
    assert sigmas[7] == sigmas[-1] == pytest.approx(20.0)


def test_the_divergence_is_exact_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    y = sets()
    flow = replace(FLOW, steps=4)
    exact = follow(mixture, y, flow, probes=2)
    monkeypatch.setattr(density, "EXACT_UP_TO", 6)  # three elements of two features
    assert torch.equal(follow(mixture, y, flow, probes=2).value, exact.value)
    monkeypatch.setattr(density, "EXACT_UP_TO", 5)
    assert not torch.equal(follow(mixture, y, flow, probes=2).value, exact.value)


def test_the_error_of_probes_is_that_of_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither too small, nor as large as that of one probe alone, five times as much."""
    y, flow = sets(batch=30), replace(FLOW, steps=30)
    exact = follow(mixture, y, flow)
    monkeypatch.setattr(density, "EXACT_UP_TO", 0)
    probed = follow(mixture, y, flow, probes=25)
    of_probes = probed.error.square().mean() - exact.error.square().mean()  # the rest is of the steps
    ratio = ((probed.value - exact.value).square().mean() / of_probes).sqrt()
    assert 0.5 < float(ratio) < 2


def test_the_error_of_the_steps_is_that_of_the_mean_over_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What probes change by half the steps in opposite directions has no part in it."""
    followed = iter([torch.tensor([[1.0], [3.0]]), torch.tensor([[3.0], [1.0]])])
    monkeypatch.setattr(density, "_followed", lambda *_: next(followed))
    assert follow(flat, sets(batch=1), FLOW, probes=2).error.tolist() == pytest.approx([1.0])
