"""Denoising score matching: an estimator without chains."""

from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from desp.energies import SetEnergy
from desp.errors import DataError
from desp.estimators.base import Estimator
from desp.nn import SizeHead
from desp.samplers import Diffusion, eager_gradient
from desp.sets import SizeGroup
from desp.settings import DenoisingSettings


class DenoisingEstimator(Estimator):
    """Teaches the energy's gradient to take noise of every level off real sets.

    At each level the gradient then is that of -log p of the noised data (Vincent 2011), with no normaliser to
    estimate; levels are weighted such that the network's targets have unit variance (Karras et al. 2022).

    Args:
        energy: knows the noise level from its code.
        sizes: p(size | x), where sizes come first.
        settings: levels, and what carries noise.
    """

    def __init__(self, energy: SetEnergy, sizes: SizeHead | None, settings: DenoisingSettings) -> None:
        super().__init__()
        self.energy, self.sizes = energy, sizes
        self.settings, self.diffusion = settings, Diffusion(settings)

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Mean squared error of the network over all that carries noise, and -log p(size | x)."""
        code, free, level = self.energy.encode(x), self.diffusion.free(y), self._levels(y, generator)
        clean = self.diffusion.moved(y)
        u = self.diffusion.noised(clean, free, level, generator)
        network = self._network(code, u, free, level)
        skip, out = self.diffusion.shares(level)
        errors = (network - (clean - skip * u) / out).square() * free
        loss = errors.sum() / free.sum().clamp(min=1)
        statistics = {"denoising": loss.detach()}
        if self.sizes is not None:
            size_loss = self.sizes.loss(code, (y[..., -1] > 0.5).sum(dim=1))
            statistics["size"] = size_loss.detach()
            loss = loss + self.settings.size_weight * size_loss
        return loss, statistics

    def _network(self, code: Tensor, u: Tensor, free: Tensor, level: Tensor) -> Tensor:
        """F (B, N, C); where absent rows make no difference, only of those that may be present in a group."""
        size = u.shape[1]
        groups = (self.groups if self.energy.ignores_absent else ()) or (SizeGroup(len(u), size),)
        if sum(group.count for group in groups) != len(u):
            raise DataError(f"Groups of like size are for other batches than of {len(u)} sets: {groups}.")
        parts, first = [], 0
        for group in groups:
            rows, some = group.rows, slice(first, first + group.count)
            gradient = partial(eager_gradient, self.energy, size=rows)
            _, network = self.diffusion.network(
                gradient, code[some], u[some, :rows], free[some, :rows], level[some]
            )
            parts.append(F.pad(network, (0, 0, 0, size - rows)))
            first += group.count
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def _levels(self, y: Tensor, generator: torch.Generator) -> Tensor:
        """One log-normal level for each set, spread evenly over the batch's quantiles.

        Which place in the batch gets which quantile changes with each batch, as datasets may not shuffle.
        """
        first = torch.arange(len(y), device=y.device, dtype=y.dtype)
        shift, turn = torch.rand(2, len(y), generator=generator, device=y.device, dtype=y.dtype)
        quantiles = ((first + shift) / len(y) + turn[0]) % 1
        if self.groups:  # neighbours are alike in size, and shall not be in their levels
            quantiles = quantiles[torch.rand(len(y), generator=generator, device=y.device).argsort()]
        places = torch.special.ndtri(quantiles.clamp(1e-6, 1 - 1e-6))
        return (self.settings.mean_log_level + self.settings.deviation_log_level * places).exp()
