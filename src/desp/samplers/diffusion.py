"""How noise is put on sets and taken off again: the arithmetic that denoising and its sampler share.

A set, moved to [-1, 1], is u; with noise of level s it is u + s n. The energy's gradient is the network F in the
preconditioning of Karras et al. (2022): inputs and targets have unit variance at every level.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.nn.levels import with_level
from desp.samplers.base import GradientFor
from desp.settings import DenoisingSettings


@dataclass(frozen=True)
class Diffusion:
    """Noise and denoising of padded sets (B, N, C)."""

    settings: DenoisingSettings

    def free(self, y: Float[Tensor, "b n c"]) -> Bool[Tensor, "b n c"]:
        """What carries noise: everything, or, where sizes come first, the features of present elements."""
        if self.settings.sizes == "denoised":
            return torch.ones_like(y, dtype=torch.bool)
        present = y[..., -1:] > 0.5
        return torch.cat([present.expand(*y.shape[:-1], y.shape[-1] - 1), torch.zeros_like(present)], dim=-1)

    def moved(self, y: Float[Tensor, "b n c"]) -> Float[Tensor, "b n c"]:
        """From about [0, 1] to [-1, 1]."""
        return 2 * y - 1

    def moved_back(self, u: Float[Tensor, "b n c"]) -> Float[Tensor, "b n c"]:
        """From [-1, 1] to about [0, 1]."""
        return (u + 1) / 2

    def noised(
        self,
        u: Float[Tensor, "b n c"],
        free: Bool[Tensor, "b n c"],
        level: Float[Tensor, "#b"] | float,
        generator: torch.Generator,
    ) -> Float[Tensor, "b n c"]:
        """`u` with noise of each set's `level` where it is free."""
        noise = torch.randn(u.shape, generator=generator, device=u.device, dtype=u.dtype)
        scale = level.view(-1, 1, 1) if isinstance(level, Tensor) else level
        return u + scale * noise * free

    def network(
        self,
        gradient: GradientFor,
        code: Float[Tensor, "b *code"],
        u: Float[Tensor, "b n c"],
        free: Bool[Tensor, "b n c"],
        level: Float[Tensor, " b"],
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n c"]]:
        """The energy of the scaled sets, and F, minus its gradient."""
        scale = (level.square() + self.settings.data_deviation**2).rsqrt().view(-1, 1, 1)
        energies, slope = gradient(with_level(code, level))(torch.where(free, scale * u, u))
        return energies, -slope

    def shares(self, level: Float[Tensor, " b"]) -> tuple[Tensor, Tensor]:
        """(B, 1, 1) each: a denoised set is the first times the noised set plus the second times F."""
        level, deviation = level.view(-1, 1, 1), self.settings.data_deviation
        total = level.square() + deviation**2
        return deviation**2 / total, level * deviation * total.rsqrt()

    def denoised(
        self,
        gradient: GradientFor,
        code: Float[Tensor, "b *code"],
        u: Float[Tensor, "b n c"],
        free: Bool[Tensor, "b n c"],
        level: Float[Tensor, " b"],
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n c"]]:
        """Energies, and the expectation of the sets without their noise."""
        energies, network = self.network(gradient, code, u, free, level)
        skip, out = self.shares(level)
        return energies, torch.where(free, skip * u + out * network, u)

    def negative_log_density(
        self,
        gradient: GradientFor,
        code: Float[Tensor, "b *code"],
        y: Float[Tensor, "b n c"],
    ) -> Float[Tensor, " b"]:
        """-log p of sets, smoothed by noise of `energy_level`, up to a constant for each input and size.

        The score (denoised - u) / s^2 is minus the gradient of |u|^2 / 2 (s^2 + d^2) + d / s E(scaled u).
        """
        level = torch.full((len(y),), self.settings.energy_level, device=y.device, dtype=y.dtype)
        free, u, deviation = self.free(y), self.moved(y), self.settings.data_deviation
        energies, _ = self.network(gradient, code, u, free, level)
        square = (u.square() * free).sum(dim=(1, 2))
        return square / (2 * (level.square() + deviation**2)) + deviation / level * energies


@dataclass(frozen=True)
class Flow:
    """The equation that sets follow from level to level: towards less noise for samples, back for densities.

    Attributes:
        diffusion: what noise does.
        gradient: of the energy.
        code: of the inputs.
        free: what moves.
    """

    diffusion: Diffusion
    gradient: GradientFor
    code: Float[Tensor, "b *code"]
    free: Bool[Tensor, "b n c"]

    def slope(self, u: Float[Tensor, "b n c"], level: float) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n c"]]:
        """Energies, and the change of the sets for each unit of noise level."""
        levels = torch.full((len(u),), level, device=u.device, dtype=u.dtype)
        energies, clean = self.diffusion.denoised(self.gradient, self.code, u, self.free, levels)
        return energies, (u - clean) / level
