"""Categorical features: one-hot in data, continuous while sets are sampled, argmax at the end."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def argmax_one_hot(
    values: Float[Tensor, "*batch d"], groups: Sequence[tuple[int, int]]
) -> Float[Tensor, "*batch d"]:
    """`values` with each group replaced by the one-hot vector of its largest value."""
    if not groups:
        return values
    result = values.clone()
    for first, behind in groups:
        kind = values[..., first:behind].argmax(dim=-1)
        result[..., first:behind] = F.one_hot(kind, behind - first).to(values.dtype)
    return result


def are_one_hot(values: Float[Tensor, "n d"], groups: Sequence[tuple[int, int]]) -> bool:
    """Whether the groups of all elements hold a single 1 and zeros."""
    return all(
        bool(((values[:, a:b] == 0) | (values[:, a:b] == 1)).all() and torch.all(values[:, a:b].sum(dim=1) == 1))
        for a, b in groups
    )
