"""The weight of every value's rank: all that a gradient needs of the sort inside FSPool."""

import torch
from jaxtyping import Float
from torch import Tensor

# Counting larger values is quadratic in the size, but one fused pass without a sort.
COUNTED_UP_TO = 16
COUNTED_WHEN_COMPILED = 96


def rank_weights(values: Float[Tensor, "b n h"], table: Float[Tensor, "n h"]) -> Float[Tensor, "b n h"]:
    """``table[rank of the value, feature]`` for every value, ranks in descending order, ties by index.

    It is the gradient of ``(values.sort(descending).values * table).sum(dim=1)`` in `values`. The result can be
    differentiated in `table`; in `values` it is constant almost everywhere.

    Args:
        values: features of elements.
        table: weight of each rank for each feature.
    """
    limit = COUNTED_WHEN_COMPILED if torch.compiler.is_compiling() else COUNTED_UP_TO
    if values.shape[1] <= limit:
        return torch.take_along_dim(table.unsqueeze(0), counted_ranks(values.detach()), dim=1)
    order = values.detach().argsort(dim=1, descending=True, stable=True)
    return torch.zeros_like(values).scatter(1, order, table.expand_as(values))


def counted_ranks(values: Float[Tensor, "b n h"]) -> Tensor:
    """The rank of every value (B, N, H), int64, by comparing all pairs: larger ones, and equal ones before it."""
    index = torch.arange(values.shape[1], device=values.device)
    earlier = (index.unsqueeze(0) < index.unsqueeze(1)).unsqueeze(-1)  # (i, j, 1): j comes before i
    mine, other = values.unsqueeze(2), values.unsqueeze(1)
    ahead = (other > mine) | ((other == mine) & earlier)
    return ahead.sum(dim=2, dtype=torch.int32).long()
