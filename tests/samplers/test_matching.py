"""Descent to a minimum of zero, on energies where its way is known."""

import torch
from torch import Tensor

from desp.samplers import descend_to_zero

TARGET = torch.tensor([[[0.2, 0.4], [0.6, 0.1]]])


def squared(y: Tensor) -> tuple[Tensor, Tensor]:
    """E = |y - target|^2."""
    return (y - TARGET).square().sum(dim=(1, 2)), 2 * (y - TARGET)


def test_a_quadratic_distance_is_halved_in_every_step() -> None:
    start = TARGET + torch.tensor([[[0.01, 0.0], [0.0, -0.02]]])
    for steps in (0, 1, 3):
        expected = TARGET + (start - TARGET) / 2**steps
        torch.testing.assert_close(descend_to_zero(squared, start, steps), expected)


def test_a_minimum_stays() -> None:
    assert torch.equal(descend_to_zero(squared, TARGET, 3), TARGET)


def test_no_element_goes_too_far() -> None:
    moved = descend_to_zero(squared, TARGET + 3, 1, largest_step=0.1)
    torch.testing.assert_close((moved - TARGET - 3).norm(dim=-1), torch.full((1, 2), 0.1))


def test_no_set_gets_worse() -> None:
    def overshooting(y: Tensor) -> tuple[Tensor, Tensor]:
        energies, slope = squared(y)
        return energies, -slope  # uphill

    start = torch.cat([TARGET + 0.01, TARGET + 0.02])
    assert torch.equal(descend_to_zero(overshooting, start, 4), start)


def test_a_slope_that_is_nearly_level_moves_no_farther_and_no_less_than_the_largest_step() -> None:
    """Polyak's step there is so long that its square is infinite."""

    def level(y: Tensor) -> tuple[Tensor, Tensor]:
        return 100 - y.sum(dim=(1, 2)), torch.full_like(y, -5e-20)

    moved = descend_to_zero(level, torch.zeros(1, 2, 2), 1, largest_step=0.1)
    torch.testing.assert_close(moved.norm(dim=-1), torch.full((1, 2), 0.1))
