"""The Deep Sets tagger, the baseline for subset anomalies (paper, section 5.5)."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from desp.methods.aligned import given_mask
from desp.methods.base import MethodParts
from desp.methods.labels import LabelMethod, is_high, padded_labels
from desp.nn.mlp import NEGATIVE_SLOPE
from desp.samplers import ChainInfo, Record
from desp.sets import presence_mask
from desp.settings import LabelSamplerSettings, SamplerSettings, TaggerSettings
from desp.settings.base import require_variant


class EquivariantLayers(nn.ModuleList):
    """Permutation-equivariant layers to a logit for each element (Zaheer et al. 2017).

    Args:
        features: of an element.
        hidden: width of the layers.
        layers: how many, the last one to the logit.
    """

    def __init__(self, features: int, hidden: int, layers: int) -> None:
        widths = [features, *[hidden] * (layers - 1), 1]
        super().__init__(_EquivariantLayer(before, after) for before, after in pairwise(widths))

    def forward(self, values: Float[Tensor, "b n h"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        """The logits of all elements."""
        for number, layer in enumerate(self):
            values = layer(F.leaky_relu(values, NEGATIVE_SLOPE) if number else values, mask)
        return values.squeeze(-1)


class _EquivariantLayer(nn.Module):
    """W1 y_i + W2 mean(y) for each element; the mean is over the present ones."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.of_element = nn.Linear(before, after)
        self.of_mean = nn.Linear(before, after, bias=False)

    def forward(self, values: Float[Tensor, "b n i"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b n o"]:
        """The new features of all elements."""
        weight = mask.unsqueeze(-1).to(values.dtype)
        mean = (values * weight).sum(dim=1, keepdim=True) / weight.sum(dim=1, keepdim=True).clamp(min=1)
        return self.of_element(values) + self.of_mean(mean)


class Tagger(LabelMethod):
    """Binary cross-entropy of a logit for each element, given the features of all of them.

    Where several answers are valid, the probabilities are their mean, and the most probable labels of single
    elements need not be an answer together.

    Raises:
        SettingsError: outputs are not aligned with inputs, or elements have more than one feature.
    """

    def __init__(self, settings: TaggerSettings, parts: MethodParts) -> None:
        super().__init__(settings, parts)
        self.settings = settings
        self.layers = EquivariantLayers(parts.code_shape[-1], settings.hidden, settings.layers)

    def logits(self, code: Float[Tensor, "b n h"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        """The logit of the higher label, for each element."""
        logits: Tensor = self.layers(code, mask)
        return logits

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Mean cross-entropy of the present elements; nothing is random, so `generator` stays unused."""
        del generator
        mask, high = presence_mask(y), is_high(y, self.labels)
        logits = self.logits(self.encode(x), mask)
        each = F.binary_cross_entropy_with_logits(logits, high.to(logits.dtype), reduction="none")
        loss = torch.where(mask, each, 0.0).sum() / mask.sum().clamp(min=1)
        right = ((logits > 0) == high) & mask
        return loss, {"accuracy": (right.sum() / mask.sum().clamp(min=1)).detach()}

    def sample_batch(
        self,
        code: Tensor,
        generator: torch.Generator,
        sampler: SamplerSettings | None,
        record: Record,
        presence: Tensor | None,
    ) -> tuple[Tensor, ChainInfo]:
        """The more probable label of each element, or samples; there is no chain to record."""
        del record
        settings = require_variant(sampler or self.settings.sampler, LabelSamplerSettings, "sampler")
        mask = given_mask(code, presence)
        logits = self.logits(code, mask)
        if settings.min_probability is None:
            logits = logits - torch.rand(mask.shape, generator=generator, device=code.device).logit()
        return padded_labels(logits > 0, mask, self.labels, code.dtype), ChainInfo()
