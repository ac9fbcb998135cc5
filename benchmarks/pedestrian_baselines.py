"""Pedestrians without a model: everybody walks on at the last velocity, as it is or with a random turn.

Each scene is scored on all its windows, as the recipes are; `desp tables` shows what is recorded beside them.

python benchmarks/pedestrian_baselines.py --data-dir ~/data --record results
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch

from desp.data.pedestrian_files import SCENES
from desp.metrics.base import describe
from desp.results import write_baseline
from desp.runs.provenance import provenance
from desp.settings import PedestriansSettings
from desp.tasks.pedestrians import BASELINES, Baseline, PedestriansTask


def measure_baseline(task: PedestriansTask, baseline: Baseline) -> dict[str, Any]:
    """The scores of a baseline in the scene that a task leaves out, as a record."""
    began = time.monotonic()
    scores = task.baseline_scores(baseline, task.scored_windows(task.protocol("full")))
    return {
        "table": "pedestrians",
        "task": task.settings.scene,
        "system": baseline,
        "data": task.data_label,
        "windows": len(task.data.test.x),
        "metrics": describe(task.metrics, scores),
        "scores": scores,
        "evaluation": {"seconds": round(time.monotonic() - began, 2), **provenance(torch.device("cpu"))},
    }


def main() -> None:
    """Measure all scenes, print, and record where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default="", help="folder of the recordings; DESP_DATA if not given")
    parser.add_argument("--simulated", action="store_true", help="simulated walkers in place of the recordings")
    parser.add_argument("--record", type=Path, help="folder of results")
    options = parser.parse_args()
    source = "simulated" if options.simulated else "files"
    for scene in SCENES:
        task = PedestriansTask(PedestriansSettings(source=source, data_dir=options.data_dir, scene=scene))
        for baseline in BASELINES:
            result = measure_baseline(task, baseline)
            print(scene, baseline, {name: round(value, 3) for name, value in result["scores"].items()})
            if options.record:
                print(write_baseline(options.record, result))


if __name__ == "__main__":
    main()
