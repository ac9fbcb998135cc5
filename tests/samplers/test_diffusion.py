"""The arithmetic of noise, by hand and with other settings than the defaults."""

import math

import pytest
import torch
from torch import Tensor

from desp.nn import with_sigma
from desp.samplers import ProbabilityFlow, ValueAndGrad
from desp.samplers.diffusion import add_noise, from_symmetric, noise_mask, to_symmetric

SIGMA_DATA, ENERGY_SIGMA = 0.3, 0.2
CODE = torch.zeros(2, 1, dtype=torch.float64)


def example() -> Tensor:
    """Two sets of one and three of three rows, with presence."""
    y = torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y[..., -1] = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    return y * y[..., -1:]


class Seen:
    """E = sum of y^2 / 2 of what it is given, which it remembers."""

    def __call__(self, code: Tensor) -> ValueAndGrad:
        self.code = code

        def gradient(y: Tensor) -> tuple[Tensor, Tensor]:
            self.y = y
            return 0.5 * y.square().sum(dim=(1, 2)), y

        return gradient


def scaled(u: Tensor, mask: Tensor, sigma: float) -> Tensor:
    return torch.where(mask, u / math.hypot(sigma, SIGMA_DATA), u)


@pytest.mark.parametrize("sigma", [0.1, 2.0])
def test_what_is_denoised(sigma: float) -> None:
    """Inputs have unit variance; what is left of the noised set and of the network is Karras et al.'s."""
    seen, y = Seen(), example()
    mask, u = noise_mask(y, known_presence=True), 2 * y - 1
    assert mask[..., :2].sum() == 2 * 4
    assert not mask[..., 2].any()
    sigmas = torch.full((2,), sigma, dtype=torch.float64)
    flow = ProbabilityFlow(seen, CODE, mask, SIGMA_DATA)
    energies, clean = flow.denoise(u, sigmas)
    inner = scaled(u, mask, sigma)
    torch.testing.assert_close(seen.y, inner)
    torch.testing.assert_close(seen.code, with_sigma(CODE, sigmas))
    torch.testing.assert_close(energies, 0.5 * inner.square().sum(dim=(1, 2)))
    total = sigma**2 + SIGMA_DATA**2
    expected = SIGMA_DATA**2 / total * u - sigma * SIGMA_DATA / math.sqrt(total) * inner
    torch.testing.assert_close(clean, torch.where(mask, expected, u))
    torch.testing.assert_close(flow.derivative(u, sigma)[1], torch.where(mask, (u - expected) / sigma, 0.0))


def test_the_energy_of_sets_is_that_at_its_sigma() -> None:
    seen, y = Seen(), example()
    mask, u = noise_mask(y, known_presence=True), 2 * y - 1
    found = ProbabilityFlow(seen, CODE, mask, SIGMA_DATA).negative_log_density(u, ENERGY_SIGMA)
    square = (u.square() * mask).sum(dim=(1, 2)) / (2 * (ENERGY_SIGMA**2 + SIGMA_DATA**2))
    inner = scaled(u, mask, ENERGY_SIGMA)
    torch.testing.assert_close(found, square + SIGMA_DATA / ENERGY_SIGMA * 0.5 * inner.square().sum(dim=(1, 2)))
    sigmas = torch.full((2,), ENERGY_SIGMA, dtype=torch.float64)
    torch.testing.assert_close(seen.code, with_sigma(CODE, sigmas))


def test_each_set_gets_noise_of_its_own_sigma_where_it_is_masked_for_noise() -> None:
    y = example()
    mask, u = noise_mask(y, known_presence=True), to_symmetric(y)
    sigmas = torch.tensor([0.5, 3.0], dtype=torch.float64)
    found = add_noise(u, mask, sigmas, torch.Generator().manual_seed(4))
    noise = torch.randn(u.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    torch.testing.assert_close(found, u + sigmas.view(2, 1, 1) * noise * mask)
    torch.testing.assert_close(from_symmetric(u), y)
