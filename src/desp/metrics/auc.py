"""How well scores tell items with an attribute from those without it."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def roc_auc(scores: Float[Tensor, "m a"], truth: Bool[Tensor, "m a"]) -> Float[Tensor, " a"]:
    """The area under the ROC curve of each column: the probability that an item with the attribute scores higher
    than one without it, ties counting half.

    NaN where all items have the attribute, or none has it.
    """
    ranks = torch.stack([_mean_ranks(column) for column in scores.double().unbind(dim=1)], dim=1)
    positive = truth.sum(dim=0).double()
    negative = len(truth) - positive
    above = (ranks * truth).sum(dim=0) - positive * (positive - 1) / 2
    return above / (positive * negative)


def _mean_ranks(values: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
    """The place of each value in ascending order, from 0; equal values share the mean of their places."""
    _, group, sizes = values.unique(sorted=True, return_inverse=True, return_counts=True)
    ends = sizes.cumsum(dim=0)
    return (ends - (sizes + 1) / 2)[group]
