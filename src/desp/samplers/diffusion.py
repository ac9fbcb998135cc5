"""Noising and denoising of sets with the preconditioning of Karras et al. (2022).

u is a set scaled to [-1, 1] plus noise of standard deviation sigma. The denoiser is c_skip u + c_out F(c_in
u), where F is minus the gradient of a noise-conditional energy, or minus a network's output: inputs and targets of
F have unit variance at every sigma.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.nn import with_sigma
from desp.samplers.base import ValueAndGradFor
from desp.sets import present_feature_mask


def noise_mask(y: Float[Tensor, "b n c"], known_presence: bool) -> Bool[Tensor, "b n c"]:
    """What carries noise: everything, or, where presence is known, the features of present elements."""
    return present_feature_mask(y) if known_presence else torch.ones_like(y, dtype=torch.bool)


def to_symmetric(y: Float[Tensor, "b n c"]) -> Float[Tensor, "b n c"]:
    """From about [0, 1] to [-1, 1]."""
    return 2 * y - 1


def from_symmetric(u: Float[Tensor, "b n c"]) -> Float[Tensor, "b n c"]:
    """From [-1, 1] to about [0, 1]."""
    return (u + 1) / 2


def add_noise(
    u: Float[Tensor, "b n c"],
    mask: Bool[Tensor, "b n c"],
    sigma: Float[Tensor, "#b"] | float,
    generator: torch.Generator,
) -> Float[Tensor, "b n c"]:
    """`u` with noise of each set's `sigma` where `mask` is true."""
    noise = torch.randn(u.shape, generator=generator, device=u.device, dtype=u.dtype)
    scale = sigma.view(-1, 1, 1) if isinstance(sigma, Tensor) else sigma
    return u + scale * noise * mask


@dataclass(frozen=True)
class ProbabilityFlow:
    """The EDM denoiser and its probability-flow ODE du / dsigma, solved towards less noise for samples, back for
    densities.

    Attributes:
        value_and_grad_for: from codes with sigma to energies and gradients; a network may take the place of the
            gradient.
        code: of the inputs.
        mask: what carries noise.
        sigma_data: standard deviation of the data scaled to [-1, 1], roughly.
    """

    value_and_grad_for: ValueAndGradFor
    code: Float[Tensor, "b *code"]
    mask: Bool[Tensor, "b n c"]
    sigma_data: float

    def c_skip_out(self, sigma: Float[Tensor, " b"]) -> tuple[Tensor, Tensor]:
        """c_skip and c_out, (B, 1, 1) each."""
        sigma = sigma.view(-1, 1, 1)
        total = sigma.square() + self.sigma_data**2
        return self.sigma_data**2 / total, sigma * self.sigma_data * total.rsqrt()

    def network(
        self, u: Float[Tensor, "b n c"], sigma: Float[Tensor, " b"]
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n c"]]:
        """The energy of the sets scaled by c_in, and F: minus its gradient, or minus a network's output."""
        c_in = (sigma.square() + self.sigma_data**2).rsqrt().view(-1, 1, 1)
        value_and_grad = self.value_and_grad_for(with_sigma(self.code, sigma))
        energies, gradients = value_and_grad(torch.where(self.mask, c_in * u, u))
        return energies, -gradients

    def denoise(
        self, u: Float[Tensor, "b n c"], sigma: Float[Tensor, " b"]
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n c"]]:
        """Energies, and the denoised sets: the expectation of the clean set given u."""
        energies, network = self.network(u, sigma)
        c_skip, c_out = self.c_skip_out(sigma)
        return energies, torch.where(self.mask, c_skip * u + c_out * network, u)

    def derivative(
        self, u: Float[Tensor, "b n c"], sigma: float
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n c"]]:
        """Energies, and du / dsigma."""
        energies, clean = self.denoise(u, torch.full((len(u),), sigma, device=u.device, dtype=u.dtype))
        return energies, (u - clean) / sigma

    def negative_log_density(self, u: Float[Tensor, "b n c"], sigma: float) -> Float[Tensor, " b"]:
        """-log p of sets, smoothed by noise of `sigma`, up to a constant for each input and cardinality.

        The score (denoised - u) / sigma^2 is minus the gradient of
        |u|^2 / (2 (sigma^2 + sigma_data^2)) + (sigma_data / sigma) E(c_in u).
        """
        sigmas = torch.full((len(u),), sigma, device=u.device, dtype=u.dtype)
        energies, _ = self.network(u, sigmas)
        square = (u.square() * self.mask).sum(dim=(1, 2))
        return square / (2 * (sigmas.square() + self.sigma_data**2)) + self.sigma_data / sigmas * energies
