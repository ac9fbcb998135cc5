"""What all benchmarks share: their options, the fields of a row, and the file they are recorded in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from desp.benchmarks.timing import Timing
from desp.errors import SettingsError
from desp.runs.provenance import provenance
from desp.settings import Engine
from desp.storage import write_json

Row = dict[str, Any]
"""One measurement, as plain JSON values."""

OnRow = Callable[[Row], None]

# What the reference computes with, and what the library does unless told otherwise.
REFERENCE_PRECISION: Final = "highest"
OUR_PRECISION: Final = "high"


@dataclass(frozen=True)
class BenchOptions:
    """How to measure.

    Attributes:
        device: where.
        engine: how our chains run.
        tasks: which rows of a benchmark; all of them if empty.
        steps: measure chains of this many steps; each benchmark has a default of its own.
        repeats: warm runs whose median is reported.
        seed: of weights and inputs.
        on_row: told of every row as soon as it is known.
    """

    device: torch.device
    engine: Engine = "auto"
    tasks: tuple[str, ...] = ()
    steps: int | None = None
    repeats: int = 5
    seed: int = 0
    on_row: OnRow | None = None

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise SettingsError(f"--repeats must be at least 1, got {self.repeats}.")
        if self.steps is not None and self.steps < 1:
            raise SettingsError(f"--steps must be at least 1, got {self.steps}.")

    def chosen(self, known: Sequence[str]) -> list[str]:
        """The tasks that were asked for, in the order of `known`.

        Raises:
            SettingsError: one of them is not known.
        """
        for name in self.tasks:
            if name not in known:
                raise SettingsError(f"There is no task '{name}' in this benchmark. It has: {', '.join(known)}.")
        return [name for name in known if not self.tasks or name in self.tasks]

    def tell(self, row: Row) -> Row:
        """Hand a row to `on_row`, and on."""
        if self.on_row:
            self.on_row(row)
        return row


def precision_name(device: torch.device) -> str:
    """What float32 matrix products are computed in at the moment: ``float32`` or ``tf32``."""
    rounded = device.type == "cuda" and torch.get_float32_matmul_precision() != "highest"
    return "tf32" if rounded else "float32"


def timing_fields(timing: Timing) -> Row:
    """The fields that every row has of what it measured; `compile_s` is the whole first call."""
    return {
        "ms": timing.ms,
        "compile_s": timing.first_s,
        "peak_mb": timing.peak_mb,
    }


def comparison_fields(ours: Timing, reference: Timing, floor_ms: float | None) -> Row:
    """Our time beside the reference's and the lower bound, where one is known."""
    return {
        **timing_fields(ours),
        "reference_ms": reference.ms,
        "speedup": reference.ms / ours.ms,
        "floor_ms": floor_ms,
        "share_of_floor": None if floor_ms is None else floor_ms / ours.ms,
        "reference_peak_mb": reference.peak_mb,
    }


def write_record(folder: Path, what: str, rows: Sequence[Row], device: torch.device) -> Path:
    """Write the rows of benchmark `what`, with where they come from, into `folder`."""
    path = folder / f"{what}-{device.type}.json"
    write_json(path, {"benchmark": what, "rows": list(rows), **provenance(device)})
    return path
