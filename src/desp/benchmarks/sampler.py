"""The chains of the five tasks: ours, the reference's, and their lower bound."""

from collections.abc import Callable

import torch

from desp.benchmarks.base import (
    OUR_PRECISION,
    REFERENCE_PRECISION,
    BenchOptions,
    Row,
    comparison_fields,
    precision_name,
)
from desp.benchmarks.chains import CHAINS, ChainCase, get_chain, make_engine
from desp.benchmarks.floors import Peaks, chain_floor_ms, measure_peaks
from desp.benchmarks.reference import reference_chain
from desp.benchmarks.timing import Timing, measure
from desp.energies import SetEnergy
from desp.precision import matmul_precision
from desp.randomness import make_generator
from desp.samplers import LangevinSampler

# A whole reference chain takes minutes on a CPU; there this many of its steps are measured and scaled up.
STEPS_ON_CPU = 20


def sampler_rows(options: BenchOptions) -> list[Row]:
    """One row a task.

    With `options.steps`, or by default on the CPU, only the first steps of each chain are measured, and the
    time is scaled to the whole chain; `measured_steps` says so.
    """
    tasks = options.chosen([case.task for case in CHAINS])
    with matmul_precision(OUR_PRECISION):
        peaks = measure_peaks(options.device)
    return [options.tell(_row(get_chain(task), options, peaks)) for task in tasks]


def _row(case: ChainCase, options: BenchOptions, peaks: Peaks) -> Row:
    energy = case.build(options.device, options.seed)
    wanted = options.steps or (case.steps if options.device.type == "cuda" else STEPS_ON_CPU)
    measured = min(wanted, case.steps)
    with matmul_precision(OUR_PRECISION):
        ours, engine = time_our_chain(case, energy, options, measured)
        precision = precision_name(options.device)
    with matmul_precision(REFERENCE_PRECISION):
        reference = measure(_reference(case, energy, options, measured), options.device, options.repeats)
    factor = case.steps / measured
    floor = chain_floor_ms(energy, case.batch, case.size, case.channels, steps=case.steps, peaks=peaks)
    return {
        "task": case.task,
        "engine": engine,
        "device": options.device.type,
        "precision": precision,
        **comparison_fields(ours.scaled(factor), reference.scaled(factor), floor),
        "steps": case.steps,
        "measured_steps": measured,
        "batch": case.batch,
        "size": case.size,
    }


def time_our_chain(case: ChainCase, energy: SetEnergy, options: BenchOptions, steps: int) -> tuple[Timing, str]:
    """The time of `steps` steps of our chain, and the engine that ran it."""
    engine = make_engine(energy, options.engine)
    settings, code, start = case.chain(steps), case.code(options.device, options.seed), case.start(options.device)
    generator = _generator(case, options)
    sampler = LangevinSampler(settings)
    timing = measure(lambda: engine.run(sampler, code, start, generator), options.device, options.repeats)
    return timing, engine.name(options.device)


def _reference(case: ChainCase, energy: SetEnergy, options: BenchOptions, steps: int) -> Callable[[], object]:
    code, start = case.code(options.device, options.seed), case.start(options.device)
    generator = _generator(case, options)
    return lambda: reference_chain(energy, code, start, generator, steps=steps, noise_scale=case.noise_scale)


def _generator(case: ChainCase, options: BenchOptions) -> torch.Generator:
    return make_generator(options.seed, "bench", case.task, "noise", device=options.device)
