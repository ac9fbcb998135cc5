"""Exact maximum likelihood of binary labels: equations 1 and 3 with a sum in place of the integral of Z."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.constants import constant
from desp.energies import SetEnergy
from desp.methods.aligned import given_mask
from desp.methods.base import MethodParts
from desp.methods.building import build_energy
from desp.methods.labels import LabelMethod, is_high, padded_labels
from desp.samplers import ChainInfo, Record
from desp.samplers.labels import choose_labellings
from desp.sets import presence_mask
from desp.settings import LabelLikelihoodSettings, LabelSamplerSettings, SamplerSettings, require_setting
from desp.settings.base import require_variant
from desp.settings.label_methods import MOST_ELEMENTS

# Codes whose labellings, up to 1024 each, are scored together.
CODES_AT_ONCE = 256


class LabelLikelihood(LabelMethod):
    """-log p(Y | x), where p is the softmax of minus the energies of all labellings of the given elements.

    Raises:
        SettingsError: outputs are no labels of given elements, or sets are too large.
    """

    energy: SetEnergy

    def __init__(self, settings: LabelLikelihoodSettings, parts: MethodParts) -> None:
        super().__init__(settings, parts)
        size = parts.shape.max_size
        wanted = (
            f"at most {MOST_ELEMENTS} for the method {settings.kind}, as all 2^N labellings are scored (use "
            "autoregressive-tagger for larger ones)"
        )
        require_setting(size <= MOST_ELEMENTS, "size of the largest set", wanted, size)
        self.settings = settings
        self.energy = build_energy(settings.energy, parts)
        self.labellings = tuple(
            tuple(bool(number >> place & 1) for place in range(size)) for number in range(2**size)
        )

    def _logits(self, code: Float[Tensor, "b n h"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b l"]:
        """Minus the energies of all labellings; minus infinity where an absent element has the higher label, so
        that every labelling of the present ones counts once."""
        high = self._labellings(mask.shape[1], code.device)
        count, batch = len(high), len(code)
        masks, codes = mask.repeat_interleave(count, dim=0), code.repeat_interleave(count, dim=0)
        sets = padded_labels(high.repeat(batch, 1), masks, self.labels, code.dtype)
        energies = self.energy(codes, sets).view(batch, count)
        twice = (high & ~mask.unsqueeze(1)).any(dim=2)
        return (-energies).masked_fill(twice, -torch.inf)

    def _labellings(self, size: int, device: torch.device) -> Bool[Tensor, "l n"]:
        """All labellings of `size` elements: the first ones of the largest set, in which all further elements have
        the lower label."""
        return constant(self.labellings, device, torch.bool)[: 2**size, :size]

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Mean of -log p; nothing is random, so `generator` stays unused."""
        del generator
        mask = presence_mask(y)
        true = is_high(y, self.labels) & mask
        places = constant(tuple(1 << place for place in range(y.shape[1])), y.device, torch.int64)
        chosen = (true * places).sum(dim=1, keepdim=True)
        logits = self._logits(self.encode(x), mask)
        log_prob = logits.gather(1, chosen).squeeze(1) - logits.logsumexp(dim=1)
        return -log_prob.mean(), {"log_prob": log_prob.detach().mean()}

    @torch.no_grad()
    def sample(
        self,
        code: Float[Tensor, "b *code"],
        generator: torch.Generator,
        sampler: SamplerSettings | None = None,
        record: Record = "nothing",
        presence: Bool[Tensor, "b n"] | None = None,
        samples: int = 1,
    ) -> tuple[Float[Tensor, "bk n c"], ChainInfo]:
        """K labellings for each code by their probabilities; energies are computed once, without a chain."""
        del record
        settings = require_variant(sampler or self.settings.sampler, LabelSamplerSettings, "sampler")
        parts, mask = [], given_mask(code, presence)
        for codes, masks in zip(code.split(CODES_AT_ONCE), mask.split(CODES_AT_ONCE), strict=True):
            chosen = choose_labellings(self._logits(codes, masks), settings, samples, generator)
            high = self._labellings(mask.shape[1], code.device)[chosen.flatten()]
            repeated = masks.repeat_interleave(samples, dim=0)
            parts.append(padded_labels(high, repeated, self.labels, code.dtype))
        return torch.cat(parts), ChainInfo()

    def sample_batch(
        self,
        code: Tensor,
        generator: torch.Generator,
        sampler: SamplerSettings | None,
        record: Record,
        presence: Tensor | None,
    ) -> tuple[Tensor, ChainInfo]:
        """One labelling for each code."""
        return self.sample(code, generator, sampler, record, presence)
