"""Attention, written out.

Fused kernels have no second derivative on some devices, which energies need, and add up gradients in any order, so
that a resumed run could not repeat them.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

# Squared, with four heads: 0, 6, 25, 56. Elements at a distance of 1 / 7 then count half as much for the last.
NEARNESS_STEP = 2.5


def distances_apart(places: Float[Tensor, "b n d"]) -> Float[Tensor, "b n n"]:
    """Squares of all distances among the elements of each set."""
    return (places.unsqueeze(2) - places.unsqueeze(1)).square().sum(dim=-1)


class SelfAttention(nn.Module):
    """Every element looks at all, in several ways at once.

    Args:
        hidden: features of an element, a multiple of `heads`.
        heads: ways to look.
        near: how near to look is learned for each head, beginning with all for the first and with ever nearer ones
            for the others.
    """

    def __init__(self, hidden: int, heads: int, *, near: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.nearness = nn.Parameter(NEARNESS_STEP * torch.arange(heads)) if near else None
        self.queries_keys_values = nn.Linear(hidden, 3 * hidden)
        self.from_heads = nn.Linear(hidden, hidden)

    def forward(
        self,
        values: Float[Tensor, "b n h"],
        heard: Bool[Tensor, "b n"] | None = None,
        apart: Float[Tensor, "b n n"] | None = None,
    ) -> Float[Tensor, "b n h"]:
        """What each element sees.

        Args:
            values: of the elements.
            heard: only these are looked at, at least one in each set.
            apart: squares of the distances of elements, where it matters how near they are.
        """
        batch, size, hidden = values.shape
        parts = self.queries_keys_values(values).view(batch, size, 3, self.heads, hidden // self.heads)
        queries, keys, contents = parts.permute(2, 0, 3, 1, 4)  # (B, heads, N, H / heads) each
        scores = queries @ keys.transpose(2, 3) / math.sqrt(hidden // self.heads)
        if apart is not None and self.nearness is not None:
            # Nothing for 0, then about the inverse of the squared distance from which on they are out of sight.
            scores = scores - self.nearness.square().view(-1, 1, 1) * apart.unsqueeze(1)
        if heard is not None:
            scores = scores.masked_fill(~heard[:, None, None, :], -torch.inf)
        return self.from_heads((scores.softmax(dim=-1) @ contents).transpose(1, 2).reshape(batch, size, hidden))
