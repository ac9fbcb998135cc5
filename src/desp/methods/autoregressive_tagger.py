"""Binary labels one after the other, in any order: a distribution over labellings for sets of any size."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from desp.methods.aligned import given_mask
from desp.methods.base import MethodParts
from desp.methods.labels import LabelMethod, is_high, padded_labels
from desp.methods.tagger import EquivariantLayers
from desp.samplers import ChainInfo, Record
from desp.sets import presence_mask
from desp.settings import AutoregressiveTaggerSettings, SamplerSettings


class AutoregressiveTagger(LabelMethod):
    """-log p(Y | x) with p(Y | x) the product of p(label | labels before it, x), in a random order of elements.

    The network sees which labels are known, and gives the logits of all others. A training step draws how many are
    known and which, and scores all that are not: an unbiased estimate of the mean of -log p over orders, and so a
    bound of -log of the mean (Hoogeboom et al. 2022).

    Raises:
        SettingsError: outputs are not aligned with inputs, or elements have more than one feature.
    """

    def __init__(self, settings: AutoregressiveTaggerSettings, parts: MethodParts) -> None:
        super().__init__(settings, parts)
        # Beside its code, each element has its label, -1 or 1, or 0 where that is unknown, and their product: the
        # mean of products says which elements have the higher label.
        self.layers = EquivariantLayers(2 * parts.code_shape[-1] + 1, settings.hidden, settings.layers)

    def logits(
        self,
        code: Float[Tensor, "b n h"],
        high: Bool[Tensor, "b n"],
        known: Bool[Tensor, "b n"],
        mask: Bool[Tensor, "b n"],
    ) -> Float[Tensor, "b n"]:
        """Of the higher label, for each element, given the labels that are known."""
        label = torch.where(known, torch.where(high, 1.0, -1.0), 0.0).to(code.dtype).unsqueeze(-1)
        logits: Tensor = self.layers(torch.cat([code, label * code, label], dim=-1), mask)
        return logits

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Mean over sets of an estimate of -log p; the number of known labels is uniform."""
        mask, high = presence_mask(y), is_high(y, self.labels)
        count = mask.sum(dim=1)
        share = torch.rand(count.shape, generator=generator, device=y.device)
        rank, known_count = _ranks(mask, generator), (share * count).floor()
        known = rank < known_count.unsqueeze(1)
        logits = self.logits(self.encode(x), high, known, mask)
        each = F.binary_cross_entropy_with_logits(logits, high.to(logits.dtype), reduction="none")
        unknown = mask & ~known
        weight = count / (count - known_count).clamp(min=1)
        loss = (weight * torch.where(unknown, each, 0.0).sum(dim=1)).mean()
        right = ((logits > 0) == high) & unknown
        return loss, {"accuracy": (right.sum() / unknown.sum().clamp(min=1)).detach()}

    @torch.no_grad()
    def sample_batch(
        self,
        code: Tensor,
        generator: torch.Generator,
        sampler: SamplerSettings | None,
        record: Record,
        presence: Tensor | None,
    ) -> tuple[Tensor, ChainInfo]:
        """Labels drawn one after the other, each set in an order of its own; there is no chain to record."""
        del sampler, record
        mask = given_mask(code, presence)
        rank = _ranks(mask, generator)
        high = torch.zeros_like(mask)
        for place in range(mask.shape[1]):
            logits = self.logits(code, high, rank < place, mask)
            drawn = torch.rand(mask.shape, generator=generator, device=code.device) < logits.sigmoid()
            high = torch.where(rank == place, drawn & mask, high)
        return padded_labels(high, mask, self.labels, code.dtype), ChainInfo()


def _ranks(mask: Bool[Tensor, "b n"], generator: torch.Generator) -> Tensor:
    """(B, N), the place of each element in a random order: the present ones first."""
    keys = torch.rand(mask.shape, generator=generator, device=mask.device)
    return torch.where(mask, keys, 2.0).argsort(dim=1).argsort(dim=1)
