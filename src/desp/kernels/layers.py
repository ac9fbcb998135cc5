"""Three linear layers on every element, and their pullback, each as one kernel: hidden features stay on the chip.

The first layer has so few inputs that it is cheaper to compute again than to read; of the second only the signs
are kept, which is all that its LeakyReLU's gradient needs.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

SLOPE = tl.constexpr(0.01)
UNITS = 32
FORWARD_ROWS, BACKWARD_ROWS = 128, 64


@triton.jit
def _to_tf32(values):
    """Round to tf32: the hardware truncates, so half a unit in the last place is added first.

    NaN is kept: the addition could turn its bits into those of a number.
    """
    rounded = (values.to(tl.int32, bitcast=True) + 0x1000).to(tl.float32, bitcast=True)
    return tl.where(values == values, rounded, values)


@triton.jit
def _first_layer(elements, weights, row, inside, unit, channels: tl.constexpr, hidden: tl.constexpr):
    """Some units of the first layer before their activation, in full precision; its weights come first."""
    before = tl.load(weights + hidden * channels + unit)[None, :]
    for channel in tl.static_range(channels):
        feature = tl.load(elements + row.to(tl.int64) * channels + channel, mask=inside, other=0.0)
        before += feature[:, None] * tl.load(weights + unit * channels + channel)[None, :]
    return before


@triton.jit
def _forward(
    elements,
    weights,
    values,
    signs,
    rows,
    channels: tl.constexpr,
    hidden: tl.constexpr,
    out: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
):
    """One program: ROWS elements through all layers, UNITS of the first at a time."""
    second = weights + hidden * (channels + 1)
    third = second + hidden * (hidden + 1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    every = tl.arange(0, hidden)
    sums = tl.zeros([ROWS, hidden], dtype=tl.float32)
    for start in range(0, hidden, UNITS):
        unit = start + tl.arange(0, UNITS)
        before = _first_layer(elements, weights, row, inside, unit, channels, hidden)
        weight = tl.load(second + every[None, :] * hidden + unit[:, None])
        after = _to_tf32(tl.where(before > 0, before, SLOPE * before))
        sums = tl.dot(after, weight, sums, input_precision="tf32")
    sums += tl.load(second + hidden * hidden + every)[None, :]
    positive = sums > 0
    place = row.to(tl.int64)[:, None]
    tl.store(signs + place * hidden + every[None, :], positive.to(tl.int8), mask=inside[:, None])
    last = _to_tf32(tl.where(positive, sums, SLOPE * sums))
    feature = tl.arange(0, out)
    to_features = tl.load(third + feature[None, :] * hidden + every[:, None])
    result = tl.dot(last, to_features, input_precision="tf32") + tl.load(third + hidden * out + feature)[None, :]
    tl.store(values + place * out + feature[None, :], result, mask=inside[:, None])


@triton.jit
def _backward(
    elements,
    weights,
    signs,
    gradient,
    result,
    rows,
    channels: tl.constexpr,
    hidden: tl.constexpr,
    out: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
):
    """One program: gradients in the output of ROWS elements back to them, UNITS of the second layer at a time."""
    second = weights + hidden * (channels + 1 + hidden + 1 + out) + out
    third = second + hidden * hidden
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    place = row.to(tl.int64)[:, None]
    every = tl.arange(0, hidden)
    feature = tl.arange(0, out)
    outer = _to_tf32(tl.load(gradient + place * out + feature[None, :], mask=inside[:, None], other=0.0))
    sums = tl.zeros([ROWS, hidden], dtype=tl.float32)
    for start in range(0, hidden, UNITS):
        unit = start + tl.arange(0, UNITS)
        from_features = tl.load(third + unit[None, :] * out + feature[:, None])
        slope = tl.dot(outer, from_features, input_precision="tf32")
        positive = tl.load(signs + place * hidden + unit[None, :], mask=inside[:, None], other=0)
        slope = _to_tf32(tl.where(positive > 0, slope, SLOPE * slope))
        weight = tl.load(second + every[None, :] * hidden + unit[:, None])
        sums = tl.dot(slope, weight, sums, input_precision="tf32")
    before = _first_layer(elements, weights, row, inside, every, channels, hidden)
    sums = tl.where(before > 0, sums, SLOPE * sums)
    for channel in tl.static_range(channels):
        weight_of_channel = tl.load(weights + every * channels + channel)
        total = tl.sum(sums * weight_of_channel[None, :], axis=1)
        tl.store(result + row.to(tl.int64) * channels + channel, total, mask=inside)


def pack(weights: list[Tensor]) -> Tensor:
    """Weight and bias of each of three layers, then the second and third weight transposed, in one row.

    What goes into tensor cores is rounded to tf32, once for a whole chain.
    """
    first, first_bias, second, second_bias, third, third_bias = weights
    second, third = _rounded(second), _rounded(third)
    parts = (first, first_bias, second, second_bias, third, third_bias, second.T, third.T)
    return torch.cat([part.reshape(-1) for part in parts])


def _rounded(weight: Tensor) -> Tensor:
    rounded = ((weight.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
    return torch.where(weight.isnan(), weight, rounded)


def three_layers(elements: Tensor, packed: Tensor, hidden: int, out: int) -> tuple[Tensor, Tensor]:
    """The output (B, N, O) of three layers, and whether each unit (B, N, H) of the second is positive, int8.

    Args:
        elements: (B, N, C), contiguous, float32, on a CUDA device.
        packed: from `pack`.
        hidden: H.
        out: O.
    """
    batch, size, channels = elements.shape
    values = elements.new_empty(batch, size, out)
    signs = torch.empty(batch, size, hidden, dtype=torch.int8, device=elements.device)
    with torch.cuda.device(elements.device):  # Triton launches on the current device
        _forward[(triton.cdiv(batch * size, FORWARD_ROWS),)](
            elements,
            packed,
            values,
            signs,
            batch * size,
            channels,
            hidden,
            out,
            ROWS=FORWARD_ROWS,
            UNITS=UNITS,
            num_warps=8,
            num_stages=3,
        )
    return values, signs


def three_layers_pullback(elements: Tensor, packed: Tensor, signs: Tensor, gradient: Tensor) -> Tensor:
    """From gradients (B, N, O) in the output of `three_layers` to gradients in its elements.

    Args:
        elements: (B, N, C), as they were given.
        packed: from `pack`.
        signs: (B, N, H), as they came back.
        gradient: contiguous.
    """
    batch, size, channels = elements.shape
    result = torch.empty_like(elements)
    with torch.cuda.device(elements.device):
        _backward[(triton.cdiv(batch * size, BACKWARD_ROWS),)](
            elements,
            packed,
            signs,
            gradient,
            result,
            batch * size,
            channels,
            signs.shape[2],
            gradient.shape[2],
            ROWS=BACKWARD_ROWS,
            UNITS=UNITS,
            num_warps=4,
            num_stages=3,
        )
    return result
