"""Three linear layers on every element as one kernel: hidden features never leave the chip.

The first layer has so few inputs that it is cheaper to compute again than to read; of the second only the signs
are kept, which is all that its LeakyReLU's gradient needs.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

SLOPE = tl.constexpr(0.01)
ROWS = 64
UNITS = 32


@triton.jit
def _to_tf32(values):
    """Half of tf32's last place added, for the hardware cuts off what lies behind it: together that rounds."""
    return (values.to(tl.int32, bitcast=True) + 0x1000).to(tl.float32, bitcast=True)


@triton.jit
def _layers(
    elements,
    first,
    first_bias,
    second,
    second_bias,
    third,
    third_bias,
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
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    every = tl.arange(0, hidden)
    sums = tl.zeros([ROWS, hidden], dtype=tl.float32)
    for start in range(0, hidden, UNITS):
        unit = start + tl.arange(0, UNITS)
        before = tl.zeros([ROWS, UNITS], dtype=tl.float32) + tl.load(first_bias + unit)[None, :]
        for channel in tl.static_range(channels):
            feature = tl.load(elements + row.to(tl.int64) * channels + channel, mask=inside, other=0.0)
            before += feature[:, None] * tl.load(first + unit * channels + channel)[None, :]
        after = tl.where(before > 0, before, SLOPE * before)
        weight = tl.load(second + every[None, :] * hidden + unit[:, None])
        sums = tl.dot(_to_tf32(after), _to_tf32(weight), sums, input_precision="tf32")
    sums += tl.load(second_bias + every)[None, :]
    positive = sums > 0
    place = row.to(tl.int64)[:, None]
    tl.store(signs + place * hidden + every[None, :], positive.to(tl.int8), mask=inside[:, None])
    after = tl.where(positive, sums, SLOPE * sums)
    feature = tl.arange(0, out)
    weight = tl.load(third + feature[None, :] * hidden + every[:, None])
    result = (
        tl.dot(_to_tf32(after), _to_tf32(weight), input_precision="tf32") + tl.load(third_bias + feature)[None, :]
    )
    tl.store(values + place * out + feature[None, :], result, mask=inside[:, None])


def three_layers(elements: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The output (B, N, O) of three layers, and whether each unit (B, N, H) of the second is positive, int8.

    Args:
        elements: (B, N, C), contiguous, float32, on a CUDA device.
        weights: weight and bias of each layer, contiguous.
    """
    first, first_bias, second, second_bias, third, third_bias = weights
    batch, size, channels = elements.shape
    hidden, out = second.shape[0], third.shape[0]
    values = elements.new_empty(batch, size, out)
    signs = torch.empty(batch, size, hidden, dtype=torch.int8, device=elements.device)
    with torch.cuda.device(elements.device):  # Triton launches on the current device
        _layers[(triton.cdiv(batch * size, ROWS),)](
            elements,
            first,
            first_bias,
            second,
            second_bias,
            third,
            third_bias,
            values,
            signs,
            batch * size,
            channels,
            hidden,
            out,
            ROWS=ROWS,
            UNITS=UNITS,
            num_warps=8,
            num_stages=3,
        )
    return values, signs
