"""The arithmetic of noise, by hand and with other settings than the defaults."""

import math

import pytest
import torch
from torch import Tensor

from desp.nn.levels import with_level
from desp.samplers import Diffusion, Gradient
from desp.samplers.diffusion import Flow
from desp.settings import DenoisingSettings

DEVIATION, ENERGY_LEVEL = 0.3, 0.2
SETTINGS = DenoisingSettings(sizes="first", data_deviation=DEVIATION, energy_level=ENERGY_LEVEL)
CODE = torch.zeros(2, 1, dtype=torch.float64)


def example() -> Tensor:
    """Two sets of one and three of three rows, with presence."""
    y = torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y[..., -1] = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    return y * y[..., -1:]


class Seen:
    """E = sum of y^2 / 2 of what it is given, which it remembers."""

    def __call__(self, code: Tensor) -> Gradient:
        self.code = code

        def gradient(y: Tensor) -> tuple[Tensor, Tensor]:
            self.y = y
            return 0.5 * y.square().sum(dim=(1, 2)), y

        return gradient


def scaled(u: Tensor, free: Tensor, level: float) -> Tensor:
    return torch.where(free, u / math.hypot(level, DEVIATION), u)


@pytest.mark.parametrize("level", [0.1, 2.0])
def test_what_is_denoised(level: float) -> None:
    """Inputs have unit variance; what is left of the noised set and of the network is Karras et al.'s."""
    diffusion, seen, y = Diffusion(SETTINGS), Seen(), example()
    free, u = diffusion.free(y), 2 * y - 1
    assert free[..., :2].sum() == 2 * 4
    assert not free[..., 2].any()
    levels = torch.full((2,), level, dtype=torch.float64)
    energies, clean = diffusion.denoised(seen, CODE, u, free, levels)
    inner = scaled(u, free, level)
    torch.testing.assert_close(seen.y, inner)
    torch.testing.assert_close(seen.code, with_level(CODE, levels))
    torch.testing.assert_close(energies, 0.5 * inner.square().sum(dim=(1, 2)))
    total = level**2 + DEVIATION**2
    expected = DEVIATION**2 / total * u - level * DEVIATION / math.sqrt(total) * inner
    torch.testing.assert_close(clean, torch.where(free, expected, u))
    flow = Flow(diffusion, seen, CODE, free)
    torch.testing.assert_close(flow.slope(u, level)[1], torch.where(free, (u - expected) / level, 0.0))


def test_the_energy_of_sets_is_that_at_its_level() -> None:
    diffusion, seen, y = Diffusion(SETTINGS), Seen(), example()
    found = diffusion.negative_log_density(seen, CODE, y)
    free, u = diffusion.free(y), 2 * y - 1
    square = (u.square() * free).sum(dim=(1, 2)) / (2 * (ENERGY_LEVEL**2 + DEVIATION**2))
    inner = scaled(u, free, ENERGY_LEVEL)
    torch.testing.assert_close(found, square + DEVIATION / ENERGY_LEVEL * 0.5 * inner.square().sum(dim=(1, 2)))
    levels = torch.full((2,), ENERGY_LEVEL, dtype=torch.float64)
    torch.testing.assert_close(seen.code, with_level(CODE, levels))


def test_each_set_gets_noise_of_its_own_level_where_it_is_free() -> None:
    diffusion, y = Diffusion(SETTINGS), example()
    free, u = diffusion.free(y), diffusion.moved(y)
    levels = torch.tensor([0.5, 3.0], dtype=torch.float64)
    found = diffusion.noised(u, free, levels, torch.Generator().manual_seed(4))
    noise = torch.randn(u.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    torch.testing.assert_close(found, u + levels.view(2, 1, 1) * noise * free)
    torch.testing.assert_close(diffusion.moved_back(u), y)
