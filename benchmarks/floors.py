"""Roofline bounds on the time of a chain: floating-point operations, and memory traffic.

    python benchmarks/floors.py --device cuda

The hardware's rates are measured in the same run, so that the bounds hold for this machine.
"""

from dataclasses import dataclass

import torch
from study import main
from torch import nn

from desp.benchmarks import BenchOptions, Row
from desp.benchmarks.chains import CHAINS
from desp.benchmarks.measure import OUR_PRECISION, measure
from desp.energies import DeepSetsEnergy, SetEncoderEnergy, SetEnergy
from desp.errors import SettingsError
from desp.nn import MLP
from desp.precision import matmul_precision
from desp.randomness import make_generator

# Sides of the square matrices, and bytes of the copy: large enough for full speed, small enough for a moment.
MATRIX_SIDE = {"cuda": 8192, "cpu": 1024}
COPIED_BYTES = {"cuda": 2**30, "cpu": 2**26}


@dataclass(frozen=True)
class Peaks:
    """What the machine can do.

    Attributes:
        operations: multiplications and additions a second, in a large matrix product.
        bytes: bytes read and written a second, in a large copy.
    """

    operations: float
    bytes: float


def measure_peaks(device: torch.device, repeats: int) -> Peaks:
    """Time a large matrix product and a large copy; the fastest of `repeats` counts."""
    side, size = MATRIX_SIDE[device.type], COPIED_BYTES[device.type]
    # Random numbers: a GPU multiplies constant ones faster, as they cost it less power.
    matrix = torch.rand(side, side, device=device, generator=make_generator("bench", "peaks", device=device))
    product = torch.empty_like(matrix)
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    multiplied = min(
        measure(lambda: torch.mm(matrix, matrix, out=product), device, 1)["ms"] for _ in range(repeats)
    )
    copied = min(measure(lambda: target.copy_(source), device, 1)["ms"] for _ in range(repeats))
    return Peaks(2 * side**3 / (1e-3 * multiplied), 2 * size / (1e-3 * copied))


def floor_rows(options: BenchOptions) -> list[Row]:
    """One row a task: the lower bound on the time of its whole chain."""
    tasks = options.chosen([case.task for case in CHAINS])
    with matmul_precision(OUR_PRECISION):
        peaks = measure_peaks(options.device, options.repeats)
    rows = []
    for case in (item for item in CHAINS if item.task in tasks):
        energy, shape = case.build(options.device, options.seed), (case.batch, case.size, case.channels)
        floor = chain_floor_ms(energy, *shape, steps=case.steps, peaks=peaks)
        row = {"task": case.task, "batch": case.batch, "size": case.size, "steps": case.steps, "floor_ms": floor}
        rows.append(options.tell({**row, "device": options.device.type}))
    return rows


def gradient_flops(energy: SetEnergy, batch: int, size: int, channels: int) -> int:
    """Floating-point operations that one energy with its gradient in the sets cannot do without.

    A product of (R, I) with (I, O) has 2 R I O. In the first layer only the elements' columns count, as the part
    of the code stays the same over a chain. The last layer of E_DS and its triangular matrix make one quadratic
    form, and energy and gradient share its one product.

    Raises:
        SettingsError: an energy whose layers are not known here.
    """
    rows = batch * size
    if isinstance(energy, SetEncoderEnergy):
        return _forward_and_backward_flops(energy.set_encoder.mlp, rows, channels)
    if isinstance(energy, DeepSetsEnergy):
        *middle, last = energy.set_mlp.linears
        form = 2 * batch * last.in_features**2
        return (
            _forward_and_backward_flops(energy.element_mlp, rows, channels)
            + 2 * sum(_product(item, batch) for item in middle)
            + form
        )
    raise SettingsError(f"The operations of {type(energy).__name__} are not known; use E_DS or E_SE.")


def _forward_and_backward_flops(mlp: MLP, rows: int, channels: int) -> int:
    first, *others = mlp.linears
    return 2 * (2 * rows * channels * first.out_features + sum(_product(layer, rows) for layer in others))


def _product(layer: nn.Linear, rows: int) -> int:
    return 2 * rows * layer.in_features * layer.out_features


def gradient_bytes(energy: SetEnergy, batch: int, size: int, channels: int) -> int:
    """Bytes that one gradient moves at least: all weights and the sets read once, the sets written once."""
    weights = list(energy.parameters())
    sets = batch * size * channels * weights[0].element_size()
    return sum(item.numel() * item.element_size() for item in weights) + 2 * sets


def chain_floor_ms(energy: SetEnergy, batch: int, size: int, channels: int, *, steps: int, peaks: Peaks) -> float:
    """The larger of the two bounds, for a chain of `steps` gradients of sets (B, N, C)."""
    computing = gradient_flops(energy, batch, size, channels) / peaks.operations
    moving = gradient_bytes(energy, batch, size, channels) / peaks.bytes
    return 1e3 * steps * max(computing, moving)


if __name__ == "__main__":
    main("floors", floor_rows, __doc__)
