"""From noise to sets: the probability-flow solver of a denoising energy."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from desp.samplers.base import ChainInfo, ChainRecorder, GradientFor, Record, Sampler
from desp.samplers.diffusion import Diffusion, Flow
from desp.settings import DenoisingSettings, SolverSettings


def noise_levels(settings: SolverSettings) -> list[float]:
    """The levels to pass, from the highest to 0: `steps` + 1 of them."""
    high, low = settings.highest ** (1 / settings.spacing), settings.lowest ** (1 / settings.spacing)
    last = max(settings.steps - 1, 1)
    return [*((high + step / last * (low - high)) ** settings.spacing for step in range(settings.steps)), 0.0]


@dataclass(frozen=True)
class SolverSampler(Sampler):
    """Follows the denoised set from the highest level to none, by Euler's or Heun's steps.

    Without stochasticity this solves the probability-flow equation, and the first noise decides the set. With it,
    some noise is added before each step and taken off again, which forgets errors of earlier steps.
    """

    settings: SolverSettings
    denoising: DenoisingSettings

    def probe(self, gradient: GradientFor, code: Tensor, start: Tensor) -> None:
        """One denoising: codes carry a level here."""
        diffusion = Diffusion(self.denoising)
        Flow(diffusion, gradient, code, diffusion.free(start)).slope(start, 1.0)

    @torch.no_grad()
    def draw(
        self,
        gradient: GradientFor,
        code: Float[Tensor, "b *code"],
        start: Float[Tensor, "b n c"],
        generator: torch.Generator,
        record: Record = "nothing",
    ) -> tuple[Float[Tensor, "b n c"], ChainInfo]:
        """Sets for `code`; `start` tells with its presence which elements there are, where sizes come first."""
        diffusion = Diffusion(self.denoising)
        free, known = diffusion.free(start), diffusion.moved(start)
        levels = noise_levels(self.settings)
        u = diffusion.noised(torch.where(free, 0.0, known), free, levels[0], generator)
        recorder = ChainRecorder(record, diffusion.moved_back(u))
        flow = Flow(diffusion, gradient, code, free)
        for level, below in pairwise(levels):
            raised = level * (1 + self.settings.stochasticity) if below else level
            if raised > level:
                u = diffusion.noised(u, free, (raised**2 - level**2) ** 0.5, generator)
            u, energies, slope = _step(flow, u, raised, below, second=self.settings.order == 2)
            recorder.add(diffusion.moved_back(u), energies, slope)
        for _ in range(self.settings.refinement):
            u, energies, slope = _step(flow, u, self.settings.lowest, 0.0, second=False)
            recorder.add(diffusion.moved_back(u), energies, slope)
        return diffusion.moved_back(u), recorder.info()


def _step(flow: Flow, u: Tensor, level: float, below: float, *, second: bool) -> tuple[Tensor, Tensor, Tensor]:
    """From one level to the next; also the energies and the slope it began with."""
    energies, slope = flow.slope(u, level)
    ahead = u + (below - level) * slope
    if second and below > 0:
        _, next_slope = flow.slope(ahead, below)
        ahead = u + (below - level) / 2 * (slope + next_slope)
    return ahead, energies, slope
