"""All ordered pairs of a set's elements: what a relation network sees (Santoro et al. 2017)."""

import torch
from jaxtyping import Float
from torch import Tensor

from desp.nn.mlp import Pullback


def ordered_pairs(sets: Float[Tensor, "b n c"]) -> Float[Tensor, "b pairs joined"]:
    """Elements i and j, joined, for all i and j, i = j included: (B, N, C) to (B, N * N, 2 C).

    Pair (i, j) is row i * N + j.
    """
    batch, size, features = sets.shape
    shape = (batch, size, size, features)
    first, second = sets.unsqueeze(2).expand(shape), sets.unsqueeze(1).expand(shape)
    return torch.cat([first, second], dim=-1).reshape(batch, size * size, 2 * features)


def pairs_with_pullback(sets: Float[Tensor, "b n c"]) -> tuple[Float[Tensor, "b pairs joined"], Pullback]:
    """`ordered_pairs`, and the pullback from gradients in them to gradients in `sets`.

    The gradient of an element is the sum over all pairs that it is the first or the second one of.
    """
    batch, size, features = sets.shape

    def pull(gradient: Tensor) -> Tensor:
        of_first, of_second = gradient.reshape(batch, size, size, 2 * features).split(features, dim=-1)
        return of_first.sum(dim=2) + of_second.sum(dim=1)

    return ordered_pairs(sets), pull
