"""Training steps of recipes, milliseconds each, and what the GPU does in them.

    DESP_DATA=~/data python benchmarks/training_steps.py --recipes mnist-c-dspn mnist-tspn --kernels

To compare two versions, run it in turn with PYTHONPATH on the `src` of each. It is for GPUs: on a CPU it takes all
cores, where training of small models takes one.
"""

import argparse
import statistics
from collections import defaultdict
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from desp.precision import matmul_precision
from desp.predictor import SetPredictor
from desp.recipes import get_recipe
from desp.runs.provenance import provenance, synchronized_clock
from desp.settings import RunSettings
from desp.storage import write_json
from desp.tasks import make_task
from desp.training.convergence import STEPS_WITHOUT_VALIDATION
from desp.training.device import default_device, make_accelerator
from desp.training.update import Update

BASELINES = ("mnist-dspn-chamfer", "mnist-dspn-hungarian", "mnist-c-dspn", "mnist-tspn")
WARM_UP = 5  # the first step compiles, the second is captured
BLOCK, BLOCKS = 20, 5
KERNELS_SHOWN = 12


def step_row(settings: RunSettings, *, kernels: bool) -> dict[str, Any]:
    """The time of a step: the median over blocks of steps of the mean in each."""
    device, task = default_device(settings.device), make_task(settings.task, 0)
    parts = settings.representation
    shape, statistics_of_inputs = task.shape(parts.max_size, parts.scaled)
    predictor = SetPredictor(settings.method, parts, engine=settings.engine, device=settings.device)
    predictor.build(shape, seed=0, input_statistics=statistics_of_inputs)
    accelerator = make_accelerator(settings.device, settings.training, None)
    source = task.source(shape, settings.training, 0, accelerator)
    method = predictor.method.to(device).train()
    method.set_training_steps(settings.training.steps or STEPS_WITHOUT_VALIDATION)
    with matmul_precision(settings.matmul_precision):
        update = Update(
            method,
            source,
            lambda batch: predictor.prepare(batch, device),
            settings.training,
            accelerator,
            settings.engine,
        )
        feeds, counted = update.feeds(0, 0), iter(range(2**31))

        def take(count: int) -> float:
            began = synchronized_clock(device)
            for feed in islice(feeds, count):
                update(feed, 0, next(counted), settings.training.learning_rate)
            return 1e3 * (synchronized_clock(device) - began) / count

        take(WARM_UP)
        times = [take(BLOCK) for _ in range(BLOCKS)]
        row = {
            "recipe": settings.recipe,
            "ms": statistics.median(times),
            "spread_ms": max(times) - min(times),
            "captured": update.captures,
        }
        return row | ({"kernels": _kernels(take)} if kernels and device.type == "cuda" else {})


def _kernels(take: Callable[[int], float]) -> list[dict[str, Any]]:
    """Microseconds and launches of each kernel in a step, the longest first."""
    from torch.profiler import ProfilerActivity, profile

    steps = 3
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        take(steps)
    found: dict[str, list[float]] = defaultdict(list)
    for event in profiled.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            found[event.name].append(event.device_time)
    rows = [
        {"kernel": name[:120], "us": sum(times) / steps, "launches": len(times) / steps}
        for name, times in found.items()
    ]
    return sorted(rows, key=lambda row: -row["us"])


def main() -> None:
    """Time, print, and record if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="+", default=BASELINES, help="whose steps (%(default)s)")
    parser.add_argument("--kernels", action="store_true", help="also say what takes the GPU's time")
    parser.add_argument("--record", type=Path, help="also write the rows, with their provenance, to this file")
    given = parser.parse_args()
    rows = []
    for name in given.recipes:
        row = step_row(get_recipe(name).build(), kernels=given.kernels)
        rows.append(row)
        how = "captured" if row["captured"] else "eager"
        print(f"{name}: {row['ms']:.2f} ms (from fastest to slowest {row['spread_ms']:.2f}), {how}", flush=True)
        for kernel in row.get("kernels", ())[:KERNELS_SHOWN]:
            print(f"  {kernel['us']:8.0f} us {kernel['launches']:6.0f} x {kernel['kernel']}", flush=True)
        if given.record:  # after every recipe: some take long
            write_json(given.record, {"rows": rows, **provenance(default_device("auto"))})


if __name__ == "__main__":
    main()
