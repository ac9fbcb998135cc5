"""Densities of sets: the probability flow, followed from the data to noise."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.samplers.diffusion import ProbabilityFlow, to_symmetric
from desp.samplers.edm import sigma_schedule
from desp.settings import EDMSettings

# Sets of up to this many numbers get their exact divergence, by one derivative for each number.
EXACT_UP_TO = 64


@dataclass(frozen=True)
class LogDensity:
    """Logarithms of densities, with how far they may be off.

    Attributes:
        value: (B,).
        error: same shape. Root sum of squares of the Hutchinson estimate's standard error (0 where the divergence
            is exact) and of the difference to a solution with half as many steps.
    """

    value: Float[Tensor, " b"]
    error: Float[Tensor, " b"]


def log_density(
    flow: ProbabilityFlow,
    y: Float[Tensor, "b n c"],
    generator: torch.Generator,
    *,
    settings: EDMSettings,
    probes: int,
) -> LogDensity:
    """log p of padded sets, their elements in this order, over the entries where `flow.mask` is true, with noise
    of sigma_min added.

    Along the flow du / dsigma = f(u, sigma) the logarithm of the density falls by the divergence of f (Chen et al.
    2018; Song et al. 2021). At sigma_max all is noise, whose density is known.

    Args:
        flow: of a field that can be differentiated once more.
        y: the sets, in about [0, 1].
        generator: of the probes.
        settings: sigmas and number of steps; always of second order.
        probes: random directions for the divergence of large sets (Hutchinson's estimate).
    """
    mask, u = flow.mask, to_symmetric(y)
    exact = y.shape[1] * y.shape[2] <= EXACT_UP_TO
    directions = _unit_directions(mask) if exact else _signs(mask, probes, generator)
    divergence = _Divergence(flow, directions, exact)
    lengths = (settings.steps, settings.steps // 2)
    fine, coarse = (_followed(divergence, u, replace(settings, steps=steps + 1)) for steps in lengths)
    estimates = fine + mask.sum(dim=(1, 2)) * math.log(2.0)  # `to_symmetric` doubles lengths
    spread = estimates.std(dim=0) / math.sqrt(len(estimates)) if len(estimates) > 1 else torch.zeros_like(fine[0])
    return LogDensity(estimates.mean(dim=0), torch.hypot(spread, (fine - coarse).mean(dim=0).abs()))


def _followed(divergence: "_Divergence", u: Tensor, settings: EDMSettings) -> Float[Tensor, "p b"]:
    """The logarithms of the densities, one for each probe, by Heun's steps from sigma_min upwards."""
    sigmas = sigma_schedule(settings)[-2::-1]
    total = u.new_zeros(1, len(u))
    for sigma, above in pairwise(sigmas):
        derivative, change = divergence(u, sigma)
        derivative_ahead, change_ahead = divergence(u + (above - sigma) * derivative, above)
        u = u + (above - sigma) / 2 * (derivative + derivative_ahead)
        total = total + (above - sigma) / 2 * (change + change_ahead)
    flow = divergence.flow
    noise = torch.distributions.Normal(0.0, math.hypot(settings.sigma_max, flow.sigma_data))
    return total + (noise.log_prob(u) * flow.mask).sum(dim=(1, 2))


@dataclass(frozen=True)
class _Divergence:
    """Derivatives of the flow with their divergence in the given directions (P, B, N, C)."""

    flow: ProbabilityFlow
    directions: Float[Tensor, "p b n c"]
    exact: bool

    def __call__(self, u: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = u.detach().requires_grad_()
            _, derivative = self.flow.derivative(leaf, sigma)
            # The batch's sets do not depend on each other, so one derivative serves them all.
            along = [
                (torch.autograd.grad(derivative, leaf, direction, retain_graph=True)[0] * direction).sum(
                    dim=(1, 2)
                )
                for direction in self.directions
            ]
        changes = torch.stack(along) if along else u.new_zeros(1, len(u))  # empty sets do not move
        return derivative.detach(), changes.sum(dim=0, keepdim=True) if self.exact else changes


def _unit_directions(mask: Bool[Tensor, "b n c"]) -> Float[Tensor, "p b n c"]:
    """Each number of a set in turn, where it carries noise in any set of the batch."""
    _, size, channels = mask.shape
    units = torch.eye(size * channels, device=mask.device).view(-1, 1, size, channels) * mask
    return units[mask.any(dim=0).flatten()]


def _signs(mask: Bool[Tensor, "b n c"], probes: int, generator: torch.Generator) -> Float[Tensor, "p b n c"]:
    random = torch.randint(2, (probes, *mask.shape), generator=generator, device=mask.device)
    return (2.0 * random - 1.0) * mask
