"""Set-MNIST runs on validation digits, by which settings and samplers are chosen; test digits are not touched.

desp train mnist-desp --seed 30 --run runs/one
python benchmarks/mnist_choices.py runs/one runs/another --record choices.json

By the counting rule of the paper's code a point in row or column 0 never counts, and one in row or column 1 only
if it is predicted above .015. Few digits have such points, so sizes are also scored on digits moved there.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from desp.data.mnist import PIXELS
from desp.runs.folder import RunFolder
from desp.runs.provenance import provenance
from desp.sets import SetBatch
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
BORDERS = (0, 1)
SHOWN = ("chamfer", "hungarian", "size_rmse_released", "size_rmse", "right_size")


def validation_scores(folder: Path, digits: int = DIGITS, *, own_only: bool = False) -> dict[str, Any]:
    """Settings, the scores of raw sets with each sampler, and of the first sampler on digits at the border."""
    run = RunFolder(folder).open()
    task, predictor = run.task, run.predictor
    if not isinstance(task, SetMnistTask):
        raise SystemExit(f"{folder} is not a run on set-MNIST but on {task.name}.")
    batch = task.validation_batch(0, digits)
    x = batch.x.to(predictor.device)
    setup = EvaluationSetup(predictor, run.seed, 1, task.protocol("full"))

    def scored(inputs: Tensor, sampler: SamplerSettings | None) -> dict[str, float]:
        _, raw = replace(setup, sampler=sampler).sample([inputs], 1, "validation chains")
        return reconstruction_scores(with_presence(predictor, raw), inputs, [len(inputs)])[0][len(inputs)]

    samplers = _samplers(predictor.method_settings.prediction_sampler, own_only=own_only)
    first = next(iter(samplers.values()))
    at_border = {f"row and column {place}": scored(moved_to(batch.sets, place).to(x), first) for place in BORDERS}
    scores = {name: scored(x, sampler) for name, sampler in samplers.items()}
    return {
        "run": folder.name,
        "seed": run.seed,
        "digits": len(x),
        "settings": to_json(run.settings),
        "scores": scores,
        "at_border": at_border,
    }


def moved_to(sets: SetBatch, place: int) -> Tensor:
    """The sets (B, N, 3), with presence, translated so that the first row and the first column are `place`."""
    first = sets.elements.masked_fill(~sets.mask.unsqueeze(-1), 1.0).amin(dim=1, keepdim=True)
    moved = (sets.elements - first + place / (PIXELS - 1)) * sets.mask.unsqueeze(-1)
    return SetBatch(moved, sets.mask).with_presence()


def _samplers(own: SamplerSettings | None, *, own_only: bool = False) -> dict[str, SamplerSettings | None]:
    if own_only or not isinstance(own, LangevinSettings):
        return {"own": None}
    return {name: replace(own, **changes) for name, changes in CHANGES.items()}


def main() -> None:
    """Score and print; record if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of finished runs")
    parser.add_argument("--digits", type=int, default=DIGITS, help="validation digits (%(default)s)")
    parser.add_argument("--own", action="store_true", help="score the runs' own samplers only")
    parser.add_argument("--record", type=Path, help="also write the scores, with their provenance, to this file")
    given = parser.parse_args()
    rows = []
    for folder in given.runs:
        rows.append(validation_scores(folder, given.digits, own_only=given.own))
        for name, scores in (rows[-1]["scores"] | rows[-1]["at_border"]).items():
            print(folder.name, f"{name}:", *(f"{key} {scores[key]:.3g}" for key in SHOWN), flush=True)
        if given.record:  # after every run: scoring many takes long
            write_json(given.record, {"rows": rows, **provenance(default_device("auto"))})


if __name__ == "__main__":
    main()
