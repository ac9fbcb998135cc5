"""From noise to sets: the probability-flow sampler of Karras et al. (2022)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from desp.samplers.base import Chain, Sampler, Step, ValueAndGradFor
from desp.samplers.diffusion import ProbabilityFlow, add_noise, from_symmetric, noise_mask, to_symmetric
from desp.settings import EDMSettings


def sigma_schedule(settings: EDMSettings) -> list[float]:
    """The noise levels to pass, from sigma_max to 0: `steps` + 1 of them."""
    high, low = settings.sigma_max ** (1 / settings.rho), settings.sigma_min ** (1 / settings.rho)
    last = max(settings.steps - 1, 1)
    return [*((high + step / last * (low - high)) ** settings.rho for step in range(settings.steps)), 0.0]


@dataclass(frozen=True)
class EDMSampler(Sampler):
    """Solves the probability-flow ODE from sigma_max to 0 by Euler or Heun steps.

    Without churn the set is a deterministic function of the initial noise. With churn, some noise is added before
    each step but the last and removed again, which corrects errors of earlier steps.

    Attributes:
        settings: sigmas, steps and their order, churn.
        sigma_data: standard deviation of the data scaled to [-1, 1], roughly.
        known_presence: the last feature is presence, which carries no noise, and only present elements do.
    """

    settings: EDMSettings
    sigma_data: float
    known_presence: bool

    def warm_up_gradient(self, value_and_grad_for: ValueAndGradFor, code: Tensor, start: Tensor) -> None:
        """One denoising: codes carry a sigma here."""
        mask = noise_mask(start, self.known_presence)
        ProbabilityFlow(value_and_grad_for, code, mask, self.sigma_data).derivative(start, 1.0)

    def chain(
        self, value_and_grad_for: ValueAndGradFor, code: Tensor, start: Tensor, generator: torch.Generator
    ) -> Chain:
        """Steps from noise; where presence is known, `start` has it."""
        mask, sigmas = noise_mask(start, self.known_presence), sigma_schedule(self.settings)
        first = self.settings.temperature * sigmas[0]
        u = add_noise(torch.where(mask, 0.0, to_symmetric(start)), mask, first, generator)
        flow = ProbabilityFlow(value_and_grad_for, code, mask, self.sigma_data)
        return from_symmetric(u), self._steps(flow, u, sigmas, generator)

    def _steps(
        self, flow: ProbabilityFlow, u: Tensor, sigmas: list[float], generator: torch.Generator
    ) -> Iterator[Step]:
        """In place of gradients, the derivatives du / dsigma that each step began with."""
        for sigma, following in pairwise(sigmas):
            raised = sigma * (1 + self.settings.churn) if following else sigma
            if raised > sigma:
                u = add_noise(u, flow.mask, (raised**2 - sigma**2) ** 0.5, generator)
            energies, derivative = flow.derivative(u, raised)
            ahead = u + (following - raised) * derivative
            if self.settings.order == 2 and following > 0:
                _, next_derivative = flow.derivative(ahead, following)
                ahead = u + (following - raised) / 2 * (derivative + next_derivative)
            u = ahead
            yield from_symmetric(u), energies, derivative
