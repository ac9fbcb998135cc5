"""How times grow with the batch, the set size and the length of a chain."""

from collections.abc import Iterator
from dataclasses import replace

from desp.benchmarks.base import OUR_PRECISION, BenchOptions, Row, precision_name, timing_fields
from desp.benchmarks.chains import ChainCase, get_chain
from desp.benchmarks.distances import ENGINES, time_distance
from desp.benchmarks.sampler import time_our_chain
from desp.distances import SET_DISTANCES
from desp.precision import matmul_precision
from desp.settings import Distance

# Everything that is not varied is as in the Polygons task, but for shorter chains on the CPU.
BATCHES = (10, 100, 1000)
SIZES = (8, 64, 512)
SIZES_ON_CUDA = (*SIZES, 4096)
STEPS = (10, 100)
STEPS_ON_CUDA = (*STEPS, 1000)
# Batch and size of one chain over sets as large as scenes.
LARGE_SETS = {"cuda": (16, 10_000), "cpu": (2, 10_000)}
DISTANCE_SIZES = (8, 32, 128, 512)
USUAL_STEPS = {"cuda": 100, "cpu": 10}
PARTS = ("chain", "chamfer", "hungarian")


def scaling_rows(options: BenchOptions) -> list[Row]:
    """Our chain against B, N and T, and both distances against N; `options.steps` is T where it is not varied."""
    parts = options.chosen(PARTS)
    rows = _chain_rows(options) if "chain" in parts else iter(())
    told = [options.tell(row) for row in rows]
    for name in SET_DISTANCES:
        if name in parts:
            told += [options.tell(_distance_row(name, size, options)) for size in DISTANCE_SIZES]
    return told


def _chain_rows(options: BenchOptions) -> Iterator[Row]:
    case, on_cuda = get_chain("polygons"), options.device.type == "cuda"
    usual = options.steps or USUAL_STEPS[options.device.type]
    for batch in BATCHES:
        yield _chain_row("batch", batch, replace(case, batch=batch), usual, options)
    for size in SIZES_ON_CUDA if on_cuda else SIZES:
        yield _chain_row("size", size, replace(case, size=size), usual, options)
    for steps in STEPS_ON_CUDA if on_cuda else STEPS:
        yield _chain_row("steps", steps, case, steps, options)
    batch, size = LARGE_SETS[options.device.type]
    yield _chain_row("large sets", size, replace(case, batch=batch, size=size), usual, options)


def _chain_row(vary: str, value: int, case: ChainCase, steps: int, options: BenchOptions) -> Row:
    with matmul_precision(OUR_PRECISION):
        timing, engine = time_our_chain(case, case.build(options.device, options.seed), options, steps)
        precision = precision_name(options.device)
    return {
        "task": "chain",
        "vary": vary,
        "value": value,
        "engine": engine,
        "device": options.device.type,
        "precision": precision,
        **timing_fields(timing),
        "steps": steps,
        "batch": case.batch,
        "size": case.size,
    }


def _distance_row(name: Distance, size: int, options: BenchOptions) -> Row:
    case = get_chain("polygons")
    timing = time_distance(SET_DISTANCES[name], (case.batch, size, case.channels), options)
    return {
        "task": name,
        "vary": "size",
        "value": size,
        "engine": ENGINES[name],
        "device": options.device.type,
        "precision": "float32",
        **timing_fields(timing),
        "steps": None,
        "batch": case.batch,
        "size": size,
    }
