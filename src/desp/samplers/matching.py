"""Descent to a minimum whose value is known."""

import torch
from jaxtyping import Float
from torch import Tensor

from desp.samplers.base import Gradient
from desp.samplers.langevin import HUGE


@torch.no_grad()
def descend_to_zero(
    gradient: Gradient, start: Float[Tensor, "b n c"], steps: int, largest_step: float = 0.05
) -> Float[Tensor, "b n c"]:
    """The sets of lowest energy on a descent with Polyak's (1987) steps, E / |gradient|^2 along the gradient.

    They need no step size, as the lowest possible energy is known to be 0. The start is among the candidates, so
    no set gets worse.

    Args:
        gradient: energies and gradients of sets.
        start: where to begin.
        steps: how many.
        largest_step: no element goes farther in one.
    """
    y = best = start
    lowest = torch.full((len(start),), torch.inf, device=start.device, dtype=start.dtype)
    for step in range(steps + 1):
        energies, slope = gradient(y)
        better = energies < lowest
        best, lowest = torch.where(better.view(-1, 1, 1), y, best), torch.where(better, energies, lowest)
        if step < steps:
            square = slope.square().sum(dim=(1, 2)).clamp(min=torch.finfo(y.dtype).tiny)
            # Finite, as a minimum may be so flat that a step would leave all numbers behind.
            move = ((energies / square).view(-1, 1, 1) * slope).clamp(-HUGE, HUGE)
            length = move.norm(dim=-1, keepdim=True)
            y = y - move * (largest_step / length.clamp(min=largest_step))
    return best
