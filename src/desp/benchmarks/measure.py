"""What all benchmarks share: their options, time and memory of a piece of work, and the rows they give."""

import contextlib
import ctypes
import gc
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from desp.errors import SettingsError
from desp.runs.provenance import peak_memory_mb, provenance, synchronized_clock
from desp.settings import Engine
from desp.storage import write_json

Row = dict[str, Any]
"""One measurement, as plain JSON values."""

# What the reference computes with, and what runs do unless told otherwise.
REFERENCE_PRECISION: Final = "highest"
OUR_PRECISION: Final = "high"
# A sample shorter than this is the mean of several calls, as clocks and caches are not that steady.
SHORTEST_SAMPLE_S = 0.02
WARM_UP_S = 0.1
MOST_CALLS = 1000


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
        on_row: called with every row as soon as it is measured.
    """

    device: torch.device
    engine: Engine = "auto"
    tasks: tuple[str, ...] = ()
    steps: int | None = None
    repeats: int = 5
    seed: int = 0
    on_row: Callable[[Row], None] | None = None

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
        """Call `on_row` with a row, and return it."""
        if self.on_row:
            self.on_row(row)
        return row


def measure(work: Callable[[], object], device: torch.device, repeats: int) -> Row:
    """Call `work` once cold and then until `repeats` warm samples are taken; returns `timing`."""
    grown_mb = watch_memory(device)
    first = _seconds(work, device)
    usual, spent = first, 0.0
    while spent < WARM_UP_S:
        usual = _seconds(work, device)
        spent += max(usual, 1e-6)
    calls = min(math.ceil(SHORTEST_SAMPLE_S / max(usual, 1e-6)), MOST_CALLS)
    samples = [_seconds(work, device, calls) for _ in range(repeats)]
    return timing(samples, first, grown_mb())


def timing(samples: list[float], first: float, peak_mb: float) -> Row:
    """Fields of a row on how long work took.

    Args:
        samples: seconds of the warm runs, whose median counts; `spread_ms` is from the fastest to the slowest.
        first: seconds of the whole very first call (`compile_s`), compiling or capturing included.
        peak_mb: most memory by which the allocations on the GPU, or the process, grew.
    """
    return {
        "ms": 1e3 * statistics.median(samples),
        "spread_ms": 1e3 * (max(samples) - min(samples)),
        "compile_s": first,
        "peak_mb": round(peak_mb, 1),
    }


def _seconds(work: Callable[[], object], device: torch.device, calls: int = 1) -> float:
    began = synchronized_clock(device)
    ended = began
    for _ in range(calls):
        work()
        ended = synchronized_clock(device)
    return (ended - began) / calls


def watch_memory(device: torch.device) -> Callable[[], float]:
    """A function that says by how many MB the allocations on the GPU, or the process, grew at most since now."""
    if device.type == "cuda":
        gc.collect()  # graphs of earlier work keep their memory until they are collected
        torch.cuda.reset_peak_memory_stats(device)
    else:
        # Linux gives freed memory back, and forgets the process's peak, when told to; other systems do not.
        with contextlib.suppress(OSError, AttributeError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = peak_memory_mb(device)  # of what is still there, such as weights
    return lambda: max(peak_memory_mb(device) - before, 0.0)


def make_row(
    task: str,
    engine: str,
    device: torch.device,
    ours: Row,
    reference: Row | None = None,
    captured: Row | None = None,
    **sizes: int | None,
) -> Row:
    """One measurement by `measure`, beside the reference's where there is one, and the reference's captured as one
    CUDA graph."""
    row: Row = {
        "task": task,
        "engine": engine,
        "device": device.type,
        "precision": "tf32" if device.type == "cuda" else "float32",
        **ours,
    }
    if reference is not None:
        row |= {
            "reference_ms": reference["ms"],
            "reference_spread_ms": reference["spread_ms"],
            "speedup": reference["ms"] / ours["ms"],
            "reference_peak_mb": reference["peak_mb"],
        }
    if captured is not None:
        row |= {
            "captured_ms": captured["ms"],
            "captured_spread_ms": captured["spread_ms"],
            "captured_speedup": captured["ms"] / ours["ms"],
        }
    return row | sizes


def write_record(folder: Path, what: str, rows: Sequence[Row], device: torch.device) -> Path:
    """Write the rows of benchmark `what`, with where they come from, into `folder`."""
    path = folder / f"{what}-{device.type}.json"
    write_json(path, {"benchmark": what, "rows": list(rows), **provenance(device)})
    return path
