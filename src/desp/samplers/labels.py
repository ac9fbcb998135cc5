"""Labellings chosen by their probabilities, which are all known: no chain is needed."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from desp.settings import LabelSamplerSettings


def choose_labellings(
    logits: Float[Tensor, "b l"], settings: LabelSamplerSettings, samples: int, generator: torch.Generator
) -> Int[Tensor, "b k"]:
    """Indices of K labellings for each of B inputs: independent samples, or the most probable ones.

    Args:
        logits: log p of all labellings, up to a constant.
        settings: which of the two, and how probable the most probable ones must be.
        samples: K, which may be more than there are labellings.
        generator: of independent samples; the most probable ones need none.
    """
    probabilities, least = logits.softmax(dim=1), settings.min_probability
    if least is None:
        return torch.multinomial(probabilities, samples, replacement=True, generator=generator)
    values, order = probabilities.topk(min(samples, logits.shape[1]), dim=1)
    best = order[:, :1]
    chosen = torch.where(values >= least, order, best)
    return torch.cat([chosen, best.expand(-1, samples - chosen.shape[1])], dim=1)
