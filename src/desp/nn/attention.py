"""Attention, written out.

Fused kernels have no second derivative on some devices, which energies need, and add up gradients in any order, so
that a resumed run could not repeat them.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


class SelfAttention(nn.Module):
    """Every element looks at all, in several ways at once.

    Args:
        hidden: features of an element, a multiple of `heads`.
        heads: ways to look.
    """

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.queries_keys_values = nn.Linear(hidden, 3 * hidden)
        self.from_heads = nn.Linear(hidden, hidden)

    def forward(
        self, values: Float[Tensor, "b n h"], heard: Bool[Tensor, "b n"] | None = None
    ) -> Float[Tensor, "b n h"]:
        """What each element sees; only `heard` ones are looked at, at least one in each set."""
        batch, size, hidden = values.shape
        parts = self.queries_keys_values(values).view(batch, size, 3, self.heads, hidden // self.heads)
        queries, keys, contents = parts.permute(2, 0, 3, 1, 4)  # (B, heads, N, H / heads) each
        scores = queries @ keys.transpose(2, 3) / math.sqrt(hidden // self.heads)
        if heard is not None:
            scores = scores.masked_fill(~heard[:, None, None, :], -torch.inf)
        return self.from_heads((scores.softmax(dim=-1) @ contents).transpose(1, 2).reshape(batch, size, hidden))
