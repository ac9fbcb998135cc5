"""Scores on scenes that were not trained on, by which settings of pedestrians are chosen.

Each run was trained without two scenes (`--task.validation-scene`). A scene is validation data for the recipe that
is tested on the other one, and is never used for the recipe that is tested on itself.

desp train pedestrians-eth --task.validation-scene hotel --training.keep last --run runs/eth-hotel
python benchmarks/pedestrian_choices.py runs/eth-hotel --record choices.json
"""

import argparse
from pathlib import Path
from typing import Any

from desp.data.base import Batch
from desp.runs.folder import LoadedRun, RunFolder
from desp.runs.provenance import provenance
from desp.settings import to_json
from desp.storage import write_json
from desp.tasks.pedestrians import BASELINES, PREDICTIONS, PedestriansTask
from desp.tasks.scoring import EvaluationSetup
from desp.training.device import default_device


def scores_of_scenes(folder: Path) -> list[dict[str, Any]]:
    """A row for each of the two scenes that a run left out: scores of its samples, and of baselines."""
    run = RunFolder(folder).open()
    task = run.task
    if not isinstance(task, PedestriansTask) or task.settings.validation_scene is None:
        raise SystemExit(f"{folder} is not a run on pedestrians with --task.validation-scene.")
    first, second, data = task.settings.scene, task.settings.validation_scene, task.data
    return [
        _row(folder.name, run, task, second, first, data.validation),
        _row(folder.name, run, task, first, second, data.test),
    ]


def _row(
    name: str, run: LoadedRun, task: PedestriansTask, scored: str, chosen_for: str, windows: Batch
) -> dict[str, Any]:
    setup = EvaluationSetup(run.predictor, 0, PREDICTIONS, task.protocol("full"))
    return {
        "run": name,
        "scored": scored,
        "chosen_for": chosen_for,
        "seed": run.seed,
        "settings": to_json(run.settings),
        "scores": task.scores_of_samples(setup, windows),
        "baselines": {baseline: task.baseline_scores(baseline, windows) for baseline in BASELINES},
    }


def main() -> None:
    """Score and print; record if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of finished runs")
    parser.add_argument("--record", type=Path, help="also write the scores, with their provenance, to this file")
    given = parser.parse_args()
    rows = [row for folder in given.runs for row in scores_of_scenes(folder)]
    for row in rows:
        scores = {"samples": row["scores"], **row["baselines"]}
        shown = (
            f"{name} {values['energy_score']:.3f} (joint ADE {values['joint_ade']:.3f})"
            for name, values in scores.items()
        )
        print(row["run"], row["scored"], "for", row["chosen_for"], *shown, flush=True)
    if given.record:
        write_json(given.record, {"rows": rows, **provenance(default_device("auto"))})


if __name__ == "__main__":
    main()
