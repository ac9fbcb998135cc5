"""Attention, written out.

Fused kernels have no second derivative on some devices, which energies need, and add up gradients in any order, so
that a resumed run could not repeat them.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

# With four heads the logits lose 0, 6, 25 and 56 times the squared distance: the last weight halves at 1 / 9.
LOCALITY_STEP = 2.5


def squared_distances(places: Float[Tensor, "b n d"]) -> Float[Tensor, "b n n"]:
    """Squares of all distances among the elements of each set."""
    return (places.unsqueeze(2) - places.unsqueeze(1)).square().sum(dim=-1)


class SelfAttention(nn.Module):
    """Multi-head self-attention among the elements of a set.

    Args:
        hidden: features of an element, a multiple of `heads`.
        heads: attention heads.
        local_heads: all heads but the first subtract `nearness`^2 times the squared distance from the attention
            logits. `nearness` is learned, and initially larger for each further head.
    """

    def __init__(self, hidden: int, heads: int, *, local_heads: bool = False) -> None:
        super().__init__()
        self.heads = heads
        local = local_heads and heads > 1
        self.nearness = nn.Parameter(LOCALITY_STEP * torch.arange(1, heads)) if local else None
        self.queries_keys_values = nn.Linear(hidden, 3 * hidden)
        self.from_heads = nn.Linear(hidden, hidden)

    def forward(
        self,
        features: Float[Tensor, "b n h"],
        mask: Bool[Tensor, "b n"] | None = None,
        distances: Float[Tensor, "b n n"] | None = None,
    ) -> Float[Tensor, "b n h"]:
        """The attention output for each element.

        Args:
            features: of the elements.
            mask: only these are attended to, at least one in each set.
            distances: squared distances of elements; for local heads.
        """
        batch, size, hidden = features.shape
        parts = self.queries_keys_values(features).view(batch, size, 3, self.heads, hidden // self.heads)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)  # (B, heads, N, H / heads) each
        scores = queries @ keys.transpose(2, 3) / math.sqrt(hidden // self.heads)
        if self.nearness is not None:
            if distances is None:
                raise TypeError("local attention heads need `distances`")
            each = F.pad(self.nearness.square(), (1, 0))  # nothing for the first, which sees all
            scores = scores - each.view(-1, 1, 1) * distances.unsqueeze(1)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], -torch.inf)
        return self.from_heads((scores.softmax(dim=-1) @ values).transpose(1, 2).reshape(batch, size, hidden))
