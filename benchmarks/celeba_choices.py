"""CelebA runs on validation sets, by which settings and features are chosen; test sets are not touched.

python benchmarks/celeba_choices.py runs/one runs/another --record results/celeba/choices.json
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from desp.runs.folder import RunFolder
from desp.runs.provenance import provenance
from desp.runs.tune import is_allowed
from desp.settings import LabelSamplerSettings, MethodSettings, SamplerSettings, to_json
from desp.storage import write_json
from desp.tasks.celeba import PREDICTIONS, CelebaTask, scores_by_ambiguity
from desp.tasks.scoring import EvaluationSetup
from desp.training.device import default_device

# For methods that know the probability of every answer: None gives independent samples, numbers the most probable
# answers. Each is tried with the methods that take it, beside the method's own; a tagger takes None and 1 alone.
MIN_PROBABILITIES = (None, 0.03, 0.05, 0.07, 0.1)


def validation_scores(folder: Path) -> dict[str, Any]:
    """Settings, how features were made, and the scores with each sampler."""
    run = RunFolder(folder).open()
    if not isinstance(run.task, CelebaTask):
        raise SystemExit(f"{folder} is not a run on CelebA but on {run.task.name}.")
    protocol = run.task.protocol("full")
    scored = run.task.scored_sets("validation", protocol.validation_examples)
    setup = EvaluationSetup(run.predictor, 0, PREDICTIONS, protocol)
    scores = {}
    for name, sampler in _samplers(run.predictor.method_settings).items():
        predicted, _ = run.task.predict(replace(setup, sampler=sampler), scored.batch.x, "validation chains")
        scores[name] = scores_by_ambiguity(predicted, scored.valid)
    return {
        "run": folder.name,
        "seed": run.seed,
        "settings": to_json(run.settings),
        "features": None if run.task.settings.source == "simulated" else run.task.data.feature_settings,
        "scores": scores,
    }


def _samplers(method: MethodSettings) -> dict[str, SamplerSettings | None]:
    own = method.prediction_sampler
    if not isinstance(own, LabelSamplerSettings):
        return {"own": None}
    tried = map(LabelSamplerSettings, dict.fromkeys((*MIN_PROBABILITIES, own.min_probability)))
    return {f"min_probability {_shown(item)}": item for item in tried if is_allowed(method, item)}


def _shown(sampler: LabelSamplerSettings) -> str:
    return "None" if sampler.min_probability is None else f"{sampler.min_probability:g}"


def main() -> None:
    """Score and print; record if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of finished runs")
    parser.add_argument("--record", type=Path, help="also write the scores, with their provenance, to this file")
    given = parser.parse_args()
    device = default_device("auto")
    rows = [validation_scores(folder) for folder in given.runs]
    if given.record:
        write_json(given.record, {"rows": rows, **provenance(device)})
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
