"""The network on elements and its pullback as one kernel each: hidden features never leave the chip.

The network has three linear layers with LeakyReLU between, C -> H -> H -> O, and C so small that the first layer
is cheaper to compute again than to remember. Of the second layer only signs are kept.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

SLOPE = tl.constexpr(0.01)


@triton.jit  # type: ignore[untyped-decorator]
def _first_layer(y, offset, to_first, row, inside, unit, channels: tl.constexpr, hidden: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Units `unit` of the first layer, before its activation, for rows `row`: (rows, units)."""
    before = tl.load(offset + unit)[None, :]
    for channel in tl.static_range(channels):
        coordinate = tl.load(y + row * channels + channel, mask=inside, other=0.0)
        weight = tl.load(to_first + unit * channels + channel)
        before = before + coordinate[:, None] * weight[None, :]
    return before


@triton.jit  # type: ignore[untyped-decorator]
def _forward(  # type: ignore[no-untyped-def]  # noqa: ANN202
    y,  # noqa: ANN001
    offset,  # noqa: ANN001
    to_first,  # noqa: ANN001
    second,  # noqa: ANN001
    second_bias,  # noqa: ANN001
    third,  # noqa: ANN001
    third_bias,  # noqa: ANN001
    values,  # noqa: ANN001
    signs,  # noqa: ANN001
    rows,  # noqa: ANN001
    channels: tl.constexpr,
    hidden: tl.constexpr,
    out: tl.constexpr,
    ROWS: tl.constexpr,  # noqa: N803
    UNITS: tl.constexpr,  # noqa: N803
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    every = tl.arange(0, hidden)
    sums = tl.zeros([ROWS, hidden], dtype=tl.float32)
    for start in range(0, hidden, UNITS):
        unit = start + tl.arange(0, UNITS)
        before = _first_layer(y, offset, to_first, row, inside, unit, channels, hidden)
        after = tl.where(before > 0, before, SLOPE * before)
        weight = tl.load(second + every[None, :] * hidden + unit[:, None])
        sums = tl.dot(after, weight, sums, input_precision="tf32")
    sums += tl.load(second_bias + every)[None, :]
    positive = sums > 0
    tl.store(signs + row[:, None] * hidden + every[None, :], positive.to(tl.int8), mask=inside[:, None])
    after = tl.where(positive, sums, SLOPE * sums)
    feature = tl.arange(0, out)
    weight = tl.load(third + feature[None, :] * hidden + every[:, None])
    result = tl.dot(after, weight, input_precision="tf32") + tl.load(third_bias + feature)[None, :]
    tl.store(values + row[:, None] * out + feature[None, :], result, mask=inside[:, None])


@triton.jit  # type: ignore[untyped-decorator]
def _backward(  # type: ignore[no-untyped-def]  # noqa: ANN202
    y,  # noqa: ANN001
    offset,  # noqa: ANN001
    to_first,  # noqa: ANN001
    second_transposed,  # noqa: ANN001
    third_transposed,  # noqa: ANN001
    signs,  # noqa: ANN001
    ranks,  # noqa: ANN001
    table,  # noqa: ANN001
    gradient,  # noqa: ANN001
    result,  # noqa: ANN001
    rows,  # noqa: ANN001
    size,  # noqa: ANN001
    channels: tl.constexpr,
    hidden: tl.constexpr,
    out: tl.constexpr,
    ROWS: tl.constexpr,  # noqa: N803
    UNITS: tl.constexpr,  # noqa: N803
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    every, feature = tl.arange(0, hidden), tl.arange(0, out)
    rank = tl.load(ranks + row[:, None] * out + feature[None, :], mask=inside[:, None], other=0)
    weight_of_rank = tl.load(table + rank * out + feature[None, :])
    pooled = tl.load(gradient + (row // size)[:, None] * out + feature[None, :], mask=inside[:, None], other=0.0)
    top = weight_of_rank * pooled
    sums = tl.zeros([ROWS, hidden], dtype=tl.float32)
    for start in range(0, hidden, UNITS):
        unit = start + tl.arange(0, UNITS)
        weight = tl.load(third_transposed + unit[None, :] * out + feature[:, None])
        middle = tl.dot(top, weight, input_precision="tf32")
        sign = tl.load(signs + row[:, None] * hidden + unit[None, :], mask=inside[:, None], other=0)
        middle = tl.where(sign != 0, middle, SLOPE * middle)
        weight = tl.load(second_transposed + every[None, :] * hidden + unit[:, None])
        sums = tl.dot(middle, weight, sums, input_precision="tf32")
    before = _first_layer(y, offset, to_first, row, inside, every, channels, hidden)
    sums = tl.where(before > 0, sums, SLOPE * sums)
    for channel in tl.static_range(channels):
        weight = tl.load(to_first + every * channels + channel)
        tl.store(result + row * channels + channel, tl.sum(sums * weight[None, :], axis=1), mask=inside)


def forward(y: Tensor, layers: list[Tensor], rows_each: int = 64, units: int = 32, warps: int = 8, stages: int = 3):
    bias, to_first, second, second_bias, third, third_bias = layers
    rows, channels = y.shape[0] * y.shape[1], y.shape[2]
    hidden, out = second.shape[0], third.shape[0]
    values = y.new_empty(*y.shape[:2], out)
    signs = torch.empty(rows, hidden, dtype=torch.int8, device=y.device)
    _forward[(triton.cdiv(rows, rows_each),)](
        y, bias, to_first, second, second_bias, third, third_bias, values, signs, rows,
        channels, hidden, out, ROWS=rows_each, UNITS=units, num_warps=warps, num_stages=stages,
    )
    return values, signs


def backward(y, layers, second_transposed, third_transposed, signs, ranks, table, gradient, rows_each=64, units=32, warps=8, stages=3):
    bias, to_first = layers[:2]
    rows, channels = y.shape[0] * y.shape[1], y.shape[2]
    hidden, out = second_transposed.shape[0], third_transposed.shape[1]
    result = torch.empty_like(y)
    _backward[(triton.cdiv(rows, rows_each),)](
        y, bias, to_first, second_transposed, third_transposed, signs, ranks, table, gradient, result, rows, y.shape[1],
        channels, hidden, out, ROWS=rows_each, UNITS=units, num_warps=warps, num_stages=stages,
    )
    return result
