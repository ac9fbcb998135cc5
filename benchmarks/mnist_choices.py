"""Set-MNIST runs on validation digits, by which settings and samplers are chosen; test digits are not touched.

desp train mnist-desp --seed 30 --run runs/one
python benchmarks/mnist_choices.py runs/one runs/another --record choices.json
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from desp.runs.folder import RunFolder
from desp.runs.provenance import provenance
from desp.settings import LangevinSettings, SamplerSettings, to_json
from desp.storage import write_json
from desp.tasks.mnist import SetMnistTask, reconstruction_scores, with_presence
from desp.tasks.scoring import EvaluationSetup
from desp.training.device import default_device

# What the run's own chain is changed by; its own comes first.
CHANGES: dict[str, dict[str, Any]] = {
    "own": {},
    "a single chain": {"restarts": 1},
    "mean of 3 of 6": {"restarts": 6, "aggregate": "mean"},
    "mean of 12 of 24": {"restarts": 24, "aggregate": "mean"},
    "lowest energy of 12": {"restarts": 12, "aggregate": "lowest"},
    "noise .01": {"noise_scale": 0.01},
    "noise .02": {"noise_scale": 0.02},
    "constant noise": {"final_noise_scale": None},
}
DIGITS = 3000
SHOWN = ("chamfer", "hungarian", "size_rmse_released", "size_rmse", "right_size")


def validation_scores(folder: Path, digits: int = DIGITS) -> dict[str, Any]:
    """Settings, and the scores of raw sets with each sampler."""
    run = RunFolder(folder).open()
    task, predictor = run.task, run.predictor
    if not isinstance(task, SetMnistTask):
        raise SystemExit(f"{folder} is not a run on set-MNIST but on {task.name}.")
    batch = task.validation_batch(0, digits)
    x = batch.x.to(predictor.device)
    setup, scores = EvaluationSetup(predictor, run.seed, 1, task.protocol("full")), {}
    for name, sampler in _samplers(predictor.method_settings.prediction_sampler).items():
        _, raw = replace(setup, sampler=sampler).sample([x], 1, "validation chains")
        found, _ = reconstruction_scores(with_presence(predictor, raw), x, [len(x)])
        scores[name] = found[len(x)]
    return {
        "run": folder.name,
        "seed": run.seed,
        "digits": len(x),
        "settings": to_json(run.settings),
        "scores": scores,
    }


def _samplers(own: SamplerSettings | None) -> dict[str, SamplerSettings | None]:
    if not isinstance(own, LangevinSettings):
        return {"own": None}
    return {name: replace(own, **changes) for name, changes in CHANGES.items()}


def main() -> None:
    """Score and print; record if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of finished runs")
    parser.add_argument("--digits", type=int, default=DIGITS, help="validation digits (%(default)s)")
    parser.add_argument("--record", type=Path, help="also write the scores, with their provenance, to this file")
    given = parser.parse_args()
    rows = []
    for folder in given.runs:
        rows.append(validation_scores(folder, given.digits))
        for name, scores in rows[-1]["scores"].items():
            print(folder.name, f"{name}:", *(f"{key} {scores[key]:.3g}" for key in SHOWN), flush=True)
        if given.record:  # after every run: scoring many takes long
            write_json(given.record, {"rows": rows, **provenance(default_device("auto"))})


if __name__ == "__main__":
    main()
