"""Langevin chains and the stochastic-then-deterministic prediction (equations 5 and 6)."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.samplers.base import Chain, Sampler, Step, ValueAndGrad, ValueAndGradFor
from desp.sets import present_feature_mask
from desp.settings import LangevinSettings, require_setting

HUGE = 1e15


def langevin_step(
    y: Float[Tensor, "b n c"],
    value_and_grad: ValueAndGrad,
    noise: Float[Tensor, "b n c"] | None,
    settings: LangevinSettings,
    velocity: Float[Tensor, "b n c"] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One transition: noise and a gradient step, in the order that `settings` name.

    Args:
        y: where the chain is.
        value_and_grad: energies and gradients of sets.
        noise: what to add, already scaled; None for a deterministic step (equation 6b).
        settings: step size and order.
        velocity: the gradient step before, for deterministic steps with momentum.

    Returns:
        The new sets, the energies (B,) and gradients (B, N, C) that were used, and the gradient step.
    """
    if noise is not None and settings.noise_first:
        y = y + noise
    energy, gradients = value_and_grad(y)
    step = -settings.step_size * gradients
    if settings.momentum > 0 and noise is None and velocity is not None:
        step = step + settings.momentum * velocity
    if settings.max_step_norm is not None:
        # Clamped first, as the square of a huge number is infinite; not divided by the length, which may be zero.
        step = step.clamp(-HUGE, HUGE)
        length = step.norm(dim=-1, keepdim=True)
        step = step * (settings.max_step_norm / length.clamp(min=settings.max_step_norm))
    y = y + step
    if noise is not None and not settings.noise_first:
        y = y + noise
    return y, energy, gradients, step


@dataclass(frozen=True)
class LangevinSampler(Sampler):
    """T transitions, the first S with noise; no Metropolis step, and only the last sets are kept.

    S = T is the training-time chain of equation 5, S < T the prediction of equation 6, S = 0 plain descent. Steps
    without noise may carry momentum (Polyak 1964).

    Attributes:
        settings: of the chain.
        known_presence: the last feature of the start is presence, which stays as it is; only present elements
            move.
    """

    settings: LangevinSettings
    known_presence: bool = False

    def __post_init__(self) -> None:
        require_setting(self.settings.restarts == 1, "restarts", "1 for a single chain", self.settings.restarts)

    def chain(
        self, value_and_grad_for: ValueAndGradFor, code: Tensor, start: Tensor, generator: torch.Generator
    ) -> Chain:
        """Transitions from `start`."""
        return start, self._steps(value_and_grad_for(code), start, generator)

    def _steps(self, value_and_grad: ValueAndGrad, start: Tensor, generator: torch.Generator) -> Iterator[Step]:
        y, velocity = start, None
        if self.known_presence:
            value_and_grad = _masked(value_and_grad, present_feature_mask(start))
        for step in range(self.settings.steps):
            noise, scale = None, self.settings.noise_at(step)
            if scale > 0:
                noise = scale * torch.randn(y.shape, generator=generator, device=y.device, dtype=y.dtype)
                noise = noise * present_feature_mask(start) if self.known_presence else noise
            y, energy, gradients, velocity = langevin_step(y, value_and_grad, noise, self.settings, velocity)
            yield y, energy, gradients


def _masked(value_and_grad: ValueAndGrad, mask: Bool[Tensor, "b n c"]) -> ValueAndGrad:
    """With the gradient where `mask` is true, else 0."""

    def masked(y: Tensor) -> tuple[Tensor, Tensor]:
        values, gradients = value_and_grad(y)
        return values, gradients.masked_fill(~mask, 0.0)

    return masked
