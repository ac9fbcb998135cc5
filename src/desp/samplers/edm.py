"""From noise to sets: the probability-flow sampler of Karras et al. (2022)."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from desp.samplers.base import ChainInfo, ChainRecorder, GradientFor, Record, Sampler
from desp.samplers.diffusion import Preconditioning, ProbabilityFlow
from desp.settings import EDMSettings


def sigma_schedule(settings: EDMSettings) -> list[float]:
    """The noise levels to pass, from sigma_max to 0: `steps` + 1 of them."""
    high, low = settings.sigma_max ** (1 / settings.rho), settings.sigma_min ** (1 / settings.rho)
    last = max(settings.steps - 1, 1)
    return [*((high + step / last * (low - high)) ** settings.rho for step in range(settings.steps)), 0.0]


@dataclass(frozen=True)
class EDMSampler(Sampler):
    """Follows the denoised set from sigma_max to 0 by Euler's or Heun's steps.

    Without churn this solves the probability-flow equation, and the first noise decides the set. With it, some
    noise is added before each step and removed again, which forgets errors of earlier steps.
    """

    settings: EDMSettings
    preconditioning: Preconditioning

    def probe(self, gradient: GradientFor, code: Tensor, start: Tensor) -> None:
        """One denoising: codes carry a sigma here."""
        mask = self.preconditioning.noise_mask(start)
        ProbabilityFlow(self.preconditioning, gradient, code, mask).derivative(start, 1.0)

    @torch.no_grad()
    def sample(
        self,
        gradient: GradientFor,
        code: Float[Tensor, "b *code"],
        start: Float[Tensor, "b n c"],
        generator: torch.Generator,
        record: Record = "nothing",
    ) -> tuple[Float[Tensor, "b n c"], ChainInfo]:
        """Sets for `code`; where presence is known, that of `start` says which elements there are."""
        edm = self.preconditioning
        mask, known = edm.noise_mask(start), edm.to_symmetric(start)
        sigmas = sigma_schedule(self.settings)
        u = edm.add_noise(torch.where(mask, 0.0, known), mask, sigmas[0], generator)
        recorder = ChainRecorder(record, edm.from_symmetric(u))
        flow = ProbabilityFlow(edm, gradient, code, mask)
        for sigma, following in pairwise(sigmas):
            raised = sigma * (1 + self.settings.churn) if following else sigma
            if raised > sigma:
                u = edm.add_noise(u, mask, (raised**2 - sigma**2) ** 0.5, generator)
            u, energies, derivative = _step(flow, u, raised, following, second=self.settings.order == 2)
            recorder.add(edm.from_symmetric(u), energies, derivative)
        return edm.from_symmetric(u), recorder.info()


def _step(
    flow: ProbabilityFlow, u: Tensor, sigma: float, following: float, *, second: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """From one sigma to the next; also the energies and the derivative it began with."""
    energies, derivative = flow.derivative(u, sigma)
    ahead = u + (following - sigma) * derivative
    if second and following > 0:
        _, next_derivative = flow.derivative(ahead, following)
        ahead = u + (following - sigma) / 2 * (derivative + next_derivative)
    return ahead, energies, derivative
