"""Engression (Shen & Meinshausen 2024): a network from noise to aligned sets, trained by their energy score."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.methods.aligned import given_mask, require_aligned
from desp.methods.base import Method, MethodParts
from desp.nn import SetNetwork
from desp.samplers import ChainInfo, Record
from desp.samplers.diffusion import from_symmetric
from desp.sets import presence_mask
from desp.settings import EngressionSettings, SamplerSettings


class Engression(Method):
    """The energy score of each element: mean distance of samples to the truth, less half of that between samples.

    It is a proper scoring rule of an element's distribution, and lowest in expectation for the true one. How
    elements depend on each other, given the input, is not scored, so it is not learned.

    Raises:
        SettingsError: outputs are not aligned with inputs.
    """

    def __init__(self, settings: EngressionSettings, parts: MethodParts) -> None:
        super().__init__(parts)
        require_aligned(parts.shape, settings.kind)
        self.settings = settings
        self.network = SetNetwork(
            settings.network,
            settings.noise_features + 1,  # and presence
            parts.code_shape,
            known_presence=True,
            outputs=parts.shape.features,
        )

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """The energy score, mean over present elements."""
        mask, count = presence_mask(y), self.settings.training_samples
        code = self.encode(x).repeat_interleave(count, dim=0)
        drawn = self._draw(code, mask.repeat_interleave(count, dim=0), generator)
        samples = drawn.unflatten(0, (len(y), count)).transpose(1, 2)  # (B, N, K, D)
        to_truth = torch.linalg.vector_norm(samples - y[..., None, :-1], dim=-1).mean(dim=-1)
        # Each pair is there twice, and each sample has no distance to itself.
        between = torch.cdist(samples, samples, compute_mode="donot_use_mm_for_euclid_dist").sum(dim=(-2, -1))
        between = between / (count * (count - 1))
        present = mask.sum().clamp(min=1)
        distance, spread = ((item * mask).sum() / present for item in (to_truth, between))
        statistics = {"distance_to_truth": distance.detach(), "distance_between": spread.detach()}
        return distance - spread / 2, statistics

    def sample_batch(
        self,
        code: Tensor,
        generator: torch.Generator,
        sampler: SamplerSettings | None,
        record: Record,
        presence: Tensor | None,
    ) -> tuple[Tensor, ChainInfo]:
        """A single pass: there is no sampler and no chain to record."""
        del sampler, record
        mask = given_mask(code, presence)
        elements = self._draw(code, mask, generator)
        return torch.cat([elements, mask.unsqueeze(-1).to(elements.dtype)], dim=-1), ChainInfo()

    def _draw(
        self, code: Float[Tensor, "b n h"], mask: Bool[Tensor, "b n"], generator: torch.Generator
    ) -> Float[Tensor, "b n d"]:
        """Elements for each code, from new noise; zero where `mask` is false."""
        shape = (*mask.shape, self.settings.noise_features)
        noise = torch.randn(shape, generator=generator, device=code.device, dtype=code.dtype)
        present = mask.unsqueeze(-1)
        # Scaled features lie around 1/2, and the network has no bias at its end.
        elements = from_symmetric(self.network(code, torch.cat([noise, present.to(noise.dtype)], dim=-1)))
        return elements * present
