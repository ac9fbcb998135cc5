"""The weight of every value's rank: all that a gradient needs of the sort inside FSPool.

A rank is a value's place in the descending order of its feature; equal values go by index. A stable sort gives
it, and costs more than the rest of a gradient. What is cheaper depends on the size and the device.
"""

from importlib.util import find_spec

import torch
from jaxtyping import Float, Int
from torch import Tensor

# Comparing all pairs beats a sort up to these sizes.
COMPARED_ON_CPU = 16
COMPARED_ON_GPU = 2048
KERNELS = find_spec("triton") is not None and torch.version.hip is None  # the kernel has instructions of Nvidia's


def rank_weights(values: Float[Tensor, "b n h"], table: Float[Tensor, "n h"]) -> Float[Tensor, "b n h"]:
    """``table[rank of the value, feature]`` for every value.

    It is the gradient of ``(values.sort(descending).values * table).sum(dim=1)`` in `values`. The result can be
    differentiated in `table`; in `values` it is constant almost everywhere.

    Args:
        values: features of elements.
        table: weight of each rank for each feature.
    """
    fixed, size = values.detach(), values.shape[1]
    if values.is_cuda and KERNELS and size <= COMPARED_ON_GPU:
        return table.expand_as(values).gather(1, kernel_ranks(fixed.contiguous()).long())
    if values.device.type == "cpu" and size <= COMPARED_ON_CPU:
        if torch.compiler.is_compiling():
            return table.expand_as(values).gather(1, compared_ranks(fixed))
        return _looked_up(table, shifted_ranks(fixed))
    if values.device.type == "cpu" and values.dtype == torch.float32:
        order = packed_order(fixed)
        return (
            table.new_empty(order.shape).scatter(-1, order, table.T.expand_as(order)).transpose(1, 2).contiguous()
        )
    order = fixed.argsort(dim=1, descending=True, stable=True)
    return table.new_empty(values.shape).scatter(1, order, table.expand_as(values))


def compared_ranks(values: Float[Tensor, "b n h"]) -> Int[Tensor, "b n h"]:
    """Ranks, int64, by comparing all pairs at once: for compilers, which fuse it into one pass."""
    index = torch.arange(values.shape[1], device=values.device)
    earlier = (index.unsqueeze(0) < index.unsqueeze(1)).unsqueeze(-1)  # (i, j, 1): j comes before i
    mine, other = values.unsqueeze(2), values.unsqueeze(1)
    ahead = (other > mine) | ((other == mine) & earlier)
    return ahead.sum(dim=2, dtype=torch.int32).long()


def shifted_ranks(values: Float[Tensor, "b n h"]) -> Int[Tensor, "b n h"]:
    """Ranks, int8, by comparing the set with itself, shifted by 1, 2, ...: plain passes over little memory."""
    size = values.shape[1]
    # As if all later elements came first; every comparison that an earlier one wins moves two ranks by one.
    last_first = torch.arange(size - 1, -1, -1, dtype=torch.int8, device=values.device)
    ranks = last_first.view(1, size, 1).repeat(values.shape[0], 1, values.shape[2])
    for shift in range(1, size):
        earlier_wins = (values[:, :-shift] >= values[:, shift:]).view(torch.int8)
        ranks[:, shift:] += earlier_wins
        ranks[:, :-shift] -= earlier_wins
    return ranks


def _looked_up(table: Float[Tensor, "n h"], ranks: Int[Tensor, "b n h"]) -> Float[Tensor, "b n h"]:
    features = table.shape[1]
    # int32 is enough here and twice as fast as what `gather` takes.
    places = torch.add(torch.arange(features, dtype=torch.int32, device=ranks.device), ranks, alpha=features)
    return table.reshape(-1).index_select(0, places.view(-1)).view(ranks.shape)


# Custom operators, which torch.compile treats as opaque: numpy's sort, and a kernel that is imported only
# when it is launched.
@torch.library.custom_op("desp::packed_order", mutates_args=())
def packed_order(values: Tensor) -> Tensor:
    """The index of every rank (B, H, N), of float32 values (B, N, H) on the CPU, by numpy's vectorised sort.

    It sorts integers whose upper half orders like the negated float and whose lower half is the index: that is a
    stable descending sort of the values, and leaves the index of each rank in the lower half.
    """
    # Subtracted from zero, -0 becomes 0, which it is equal to.
    bits = (0.0 - values).transpose(1, 2).contiguous().view(torch.int32)
    bits.bitwise_xor_((bits >> 31).bitwise_and_(0x7FFFFFFF))
    index = torch.arange(values.shape[1], device=values.device)
    keys = bits.long().bitwise_left_shift_(32).bitwise_or_(index)
    keys.numpy().sort(axis=-1)
    return keys.bitwise_and_(0xFFFFFFFF)


@packed_order.register_fake
def _(values: Tensor) -> Tensor:
    batch, size, features = values.shape
    return values.new_empty(batch, features, size, dtype=torch.int64)


@torch.library.custom_op("desp::kernel_ranks", mutates_args=())
def kernel_ranks(values: Tensor) -> Tensor:
    """The ranks (B, N, H), int32, of contiguous values on a CUDA device."""
    from desp.kernels.rank import count_ranks  # needs Triton

    return count_ranks(values)


@kernel_ranks.register_fake
def _(values: Tensor) -> Tensor:
    return torch.empty_like(values, dtype=torch.int32)
