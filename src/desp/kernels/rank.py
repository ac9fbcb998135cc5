"""Ranks on a GPU, by counting larger values.

Needs Triton, which comes with torch's CUDA builds; imported only when a kernel is launched.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 16
FEATURES = 64


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
    rank = tl.zeros([ROWS, FEATURES], dtype=tl.int32)
    last = tl.minimum(first + ROWS, size)
    # An equal value counts if it comes before: always in the first loop, never in the last.
    for other in tl.range(0, first, loop_unroll_factor=4):
        value = tl.load(values + base + other * features + column, mask=here, other=0.0)
        rank += (value[None, :] >= mine).to(tl.int32)
    for other in range(first, last):
        value = tl.load(values + base + other * features + column, mask=here, other=0.0)
        before = other < row[:, None]
        rank += ((value[None, :] > mine) | ((value[None, :] == mine) & before)).to(tl.int32)
    for other in tl.range(last, size, loop_unroll_factor=4):
        value = tl.load(values + base + other * features + column, mask=here, other=0.0)
        rank += (value[None, :] > mine).to(tl.int32)
    tl.store(ranks + place, rank, mask=inside)


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
