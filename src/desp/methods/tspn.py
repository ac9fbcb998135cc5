"""TSPN, the transformer set prediction network (Kosiorek et al. 2020)."""

import torch
from jaxtyping import Float
from torch import Tensor

from desp.distances import chamfer_of_equal_sizes
from desp.errors import SettingsError
from desp.methods.base import Method, MethodParts
from desp.nn import CardinalityHead, TransformerDecoder
from desp.samplers import ChainInfo, Record
from desp.sets import prefix_mask, presence_mask
from desp.settings import SamplerSettings, TSPNSettings


class TSPN(Method):
    """The Chamfer distance between the data and as many elements made from random points, and -log p(n | x).

    As with direct risk on an energy, what is learned is the one answer that is nearest to all right ones: random
    points give the elements places to start from, and nothing rewards that sets differ.

    Raises:
        SettingsError: the encoder does not give one vector for an input.
    """

    cardinality: CardinalityHead

    def __init__(self, settings: TSPNSettings, parts: MethodParts) -> None:
        super().__init__(parts)
        code_shape, shape = parts.code_shape, parts.shape
        if len(code_shape) != 1:
            raise SettingsError(
                f"TSPN needs codes (B, H), but the encoder gives shape {code_shape} for one input."
            )
        self.settings = settings
        self.decoder = TransformerDecoder(code_shape[0], shape.features, settings)
        hidden = settings.cardinality_hidden
        self.cardinality = CardinalityHead(code_shape[0], shape.max_size, hidden, layers=2)

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Mean distance of elements, presence left out, and the weighted loss of the cardinality."""
        code, presence, elements = self.encode(x), presence_mask(y), y[..., :-1]
        sizes = presence.sum(dim=1)
        mask = prefix_mask(sizes, y.shape[1])  # the true cardinality is given
        noise = torch.randn(elements.shape, generator=generator, device=y.device, dtype=y.dtype)
        predicted = self.decoder(code, noise, mask)
        risk = chamfer_of_equal_sizes(predicted, elements, mask, presence).mean()
        cardinality_loss = self.cardinality.loss(code, sizes)
        statistics = {"risk": risk.detach(), "cardinality_loss": cardinality_loss.detach()}
        return risk + self.settings.cardinality_weight * cardinality_loss, statistics

    def sample_batch(
        self,
        code: Tensor,
        generator: torch.Generator,
        sampler: SamplerSettings | None,
        record: Record,
        presence: Tensor | None,
    ) -> tuple[Tensor, ChainInfo]:
        """As many elements as are most probable, in a single pass: there is no sampler and no chain to record."""
        del sampler, record, presence
        size, features = self.shape.max_size, self.shape.features
        mask = prefix_mask(self.cardinality.mode(code), size)
        noise = torch.randn((len(code), size, features), generator=generator, device=code.device, dtype=code.dtype)
        elements = self.decoder(code, noise, mask)
        return torch.cat([elements, mask.unsqueeze(-1).to(elements.dtype)], dim=-1), ChainInfo()
