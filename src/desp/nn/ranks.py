"""The weight of every value's rank: all that a gradient needs of the sort inside FSPool."""

from importlib.util import find_spec

import torch
from jaxtyping import Float, Int
from torch import Tensor

# Comparing all pairs beats a sort up to these sizes.
SMALL = 16
COUNTED_ON_GPU = 2048
KERNELS = find_spec("triton") is not None


def rank_weights(values: Float[Tensor, "b n h"], table: Float[Tensor, "n h"]) -> Float[Tensor, "b n h"]:
    """``table[rank of the value, feature]`` for every value, ranks in descending order, ties by index.

    It is the gradient of ``(values.sort(descending).values * table).sum(dim=1)`` in `values`. The result can be
    differentiated in `table`; in `values` it is constant almost everywhere.

    Args:
        values: features of elements.
        table: weight of each rank for each feature.
    """
    fixed = values.detach()
    if KERNELS and values.is_cuda and values.shape[1] <= COUNTED_ON_GPU:
        return table.expand_as(values).gather(1, kernel_ranks(fixed.contiguous()).long())
    if not values.is_cuda and values.shape[1] <= SMALL:
        return table.expand_as(values).gather(1, counted_ranks(fixed))
    order = fixed.argsort(dim=1, descending=True, stable=True)
    return torch.zeros_like(values).scatter(1, order, table.expand_as(values))


def counted_ranks(values: Float[Tensor, "b n h"]) -> Int[Tensor, "b n h"]:
    """The rank of every value, int64, by comparing all pairs: larger ones, and equal ones before it."""
    index = torch.arange(values.shape[1], device=values.device)
    earlier = (index.unsqueeze(0) < index.unsqueeze(1)).unsqueeze(-1)  # (i, j, 1): j comes before i
    mine, other = values.unsqueeze(2), values.unsqueeze(1)
    ahead = (other > mine) | ((other == mine) & earlier)
    return ahead.sum(dim=2, dtype=torch.int32).long()


# An operator of its own, as the compiler cannot look into a kernel that is imported only when it is launched.
@torch.library.custom_op("desp::kernel_ranks", mutates_args=())
def kernel_ranks(values: Tensor) -> Tensor:
    """The ranks (B, N, H), int32, of contiguous values on a CUDA device."""
    from desp.kernels.rank import count_ranks  # needs Triton

    return count_ranks(values)


@kernel_ranks.register_fake
def _(values: Tensor) -> Tensor:
    return torch.empty_like(values, dtype=torch.int32)
