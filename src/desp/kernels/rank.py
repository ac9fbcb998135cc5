"""Ranks on a GPU, by counting larger values.

Needs Triton, which comes with torch's CUDA builds; imported only when a kernel is launched.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 16
FEATURES = 64
# A power of two keeps products exact; this one leaves room for values to 2^37 and differences from 2^-90 on.
LARGE = tl.constexpr(2.0**90)


@triton.jit
def _add_larger(count, value, scaled):
    """`count` plus 1 where `value` is larger than what was scaled by -LARGE.

    A saturated multiply-add runs at twice the rate of a comparison. It is exact but for values beyond 2^37, which
    count as equal, and differences below 2^-90, which count in part.
    """
    return tl.inline_asm_elementwise(
        "{ .reg .f32 larger; fma.rn.sat.f32 larger, $2, 0f6C800000, $3; add.f32 $0, $1, larger; }",
        "=f,f,f,f",
        [count, value, scaled],
        dtype=tl.float32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def _count(values, ranks, size, features, ROWS: tl.constexpr, FEATURES: tl.constexpr):
    """One program: the ranks of ROWS elements of one set, for FEATURES features."""
    column = tl.program_id(1) * FEATURES + tl.arange(0, FEATURES)
    blocks = tl.cdiv(size, ROWS)
    first = tl.program_id(0) % blocks * ROWS
    row = first + tl.arange(0, ROWS)
    here = column < features
    base = (tl.program_id(0) // blocks).to(tl.int64) * size * features
    place = base + row[:, None] * features + column[None, :]
    inside = (row[:, None] < size) & here[None, :]
    mine = tl.load(values + place, mask=inside, other=0.0)
    smaller = tl.zeros([ROWS, FEATURES], dtype=tl.float32)
    larger = tl.zeros([ROWS, FEATURES], dtype=tl.float32)
    last = tl.minimum(first + ROWS, size)
    # An equal value counts if it comes before: always in the first loop, never in the last.
    for other in tl.range(0, first, loop_unroll_factor=8):
        value = tl.load(values + base + other * features + column, mask=here, other=0.0)
        if values.dtype.element_ty == tl.float32:
            smaller = _add_larger(smaller, tl.broadcast_to(-value[None, :], [ROWS, FEATURES]), LARGE * mine)
        else:
            smaller += tl.where(value[None, :] >= mine, 0.0, 1.0)
    for other in range(first, last):
        value = tl.load(values + base + other * features + column, mask=here, other=0.0)
        before = other < row[:, None]
        larger += tl.where((value[None, :] > mine) | ((value[None, :] == mine) & before), 1.0, 0.0)
    for other in tl.range(last, size, loop_unroll_factor=8):
        value = tl.load(values + base + other * features + column, mask=here, other=0.0)
        if values.dtype.element_ty == tl.float32:
            larger = _add_larger(larger, tl.broadcast_to(value[None, :], [ROWS, FEATURES]), -LARGE * mine)
        else:
            larger += tl.where(value[None, :] > mine, 1.0, 0.0)
    rank = first - smaller + larger + 0.5
    tl.store(ranks + place, rank.to(tl.int32), mask=inside)


def count_ranks(values: Tensor) -> Tensor:
    """Ranks (B, N, H), int32, of contiguous values on a CUDA device."""
    batch, size, features = values.shape
    ranks = torch.empty(values.shape, dtype=torch.int32, device=values.device)
    if values.numel() == 0:
        return ranks
    # Sets and blocks of rows share the first axis, the only one without a small limit.
    grid = (batch * triton.cdiv(size, ROWS), triton.cdiv(features, FEATURES))
    with torch.cuda.device(values.device):  # Triton launches on the current device
        _count[grid](values, ranks, size, features, ROWS=ROWS, FEATURES=FEATURES, num_warps=4)
    return ranks
