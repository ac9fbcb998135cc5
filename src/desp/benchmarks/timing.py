"""Time and memory of a piece of work."""

import contextlib
import ctypes
import gc
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from desp.runs.provenance import peak_memory_mb

# A sample shorter than this is the mean of several calls, as clocks and caches are not that steady.
SHORTEST_SAMPLE_S = 0.02
WARM_UP_S = 0.1
MOST_CALLS = 1000


@dataclass(frozen=True)
class Timing:
    """How long work took.

    Attributes:
        ms: median of the warm runs.
        fastest_ms: the fastest of them.
        first_s: seconds of the very first call, which may compile or capture.
        peak_mb: most memory by which the allocations on the GPU, or the process, grew.
    """

    ms: float
    fastest_ms: float
    first_s: float
    peak_mb: float

    def scaled(self, factor: float) -> "Timing":
        """The time of `factor` times the work; the first call and the memory stay as they were."""
        return replace(self, ms=self.ms * factor, fastest_ms=self.fastest_ms * factor)


def measure(work: Callable[[], object], device: torch.device, repeats: int) -> Timing:
    """Call `work` once cold and then until `repeats` warm samples are taken."""
    memory = PeakMemory(device)
    first = _seconds(work, device)
    usual, spent = first, 0.0
    while spent < WARM_UP_S:
        usual = _seconds(work, device)
        spent += max(usual, 1e-6)
    calls = min(math.ceil(SHORTEST_SAMPLE_S / max(usual, 1e-6)), MOST_CALLS)
    samples = [_seconds(work, device, calls) for _ in range(repeats)]
    return timing_of(samples, first, memory.mb())


def timing_of(samples: list[float], first: float, peak_mb: float) -> Timing:
    """A `Timing` from seconds."""
    return Timing(1e3 * statistics.median(samples), 1e3 * min(samples), first, round(peak_mb, 1))


def synchronized_clock(device: torch.device) -> float:
    """Seconds, once all work given to `device` is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _seconds(work: Callable[[], object], device: torch.device, calls: int = 1) -> float:
    began = synchronized_clock(device)
    ended = began
    for _ in range(calls):
        work()
        ended = synchronized_clock(device)
    return (ended - began) / calls


class PeakMemory:
    """The most memory by which the allocations on the GPU, or the process, grew since this was made."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if device.type == "cuda":
            gc.collect()  # graphs of earlier work keep their memory until they are collected
            torch.cuda.reset_peak_memory_stats(device)
            self._before = peak_memory_mb(device)  # of what is still there, such as weights
            return
        # Linux gives freed memory back, and forgets the process's peak, when told to; other systems do not.
        with contextlib.suppress(OSError, AttributeError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._before = peak_memory_mb(device)

    def mb(self) -> float:
        """MB so far."""
        return max(peak_memory_mb(self.device) - self._before, 0.0)
