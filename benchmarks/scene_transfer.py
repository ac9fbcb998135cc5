"""How far generated scenes look like rendered ones: a run trained on the former is scored on images of the latter.

python benchmarks/scene_transfer.py runs/generated --data-dir ~/data --record results/clevr/transfer.json
"""

import argparse
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from desp.errors import SettingsError
from desp.metrics.base import describe
from desp.runs.folder import RunFolder
from desp.runs.provenance import provenance
from desp.settings import SCHEMA, ClevrSettings, to_json
from desp.storage import write_json
from desp.tasks import EvaluationSetup
from desp.tasks.clevr import ClevrTask


def measure_transfer(folder: RunFolder, data_dir: str, samples: int, protocol: str) -> dict[str, Any]:
    """The scores on test images from files of a run that never saw one of that kind, as a record.

    Raises:
        SettingsError: the run was not trained on generated scenes.
    """
    run = folder.open()
    known = run.settings.task
    if not isinstance(known, ClevrSettings) or known.source != "generated":
        raise SettingsError(f"{folder.path} was not trained on generated scenes (--task.source generated).")
    task = ClevrTask(replace(known, source="files", data_dir=data_dir))
    counts, began = task.protocol(protocol), time.monotonic()
    evaluation = task.evaluate(EvaluationSetup(run.predictor, run.seed, samples, counts))
    summary = folder.read_summary() or {}
    return {
        "recipe": run.settings.recipe,
        "seed": run.seed,
        "trained_on": run.task.data_label,
        "data": evaluation.data or task.data_label,
        "protocol": {"name": protocol, **asdict(counts)},
        "metrics": describe(task.metrics, [*evaluation.raw, *evaluation.returned]),
        "scores": {"raw": evaluation.raw, "returned": evaluation.returned},
        "real_data": evaluation.real_data,
        "details": evaluation.details,
        "training": {name: summary.get(name) for name in ("command", "commit", "device", "seconds", "steps")},
        "settings": {"schema": SCHEMA, **to_json(run.settings)},
        "evaluation": {"seconds": round(time.monotonic() - began, 2), **provenance(run.predictor.device)},
    }


def main() -> None:
    """Score, print, and record where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run trained with --task.source generated")
    parser.add_argument("--data-dir", default="", help="as of `desp train`; DESP_DATA if not given")
    parser.add_argument("--samples", type=int, default=10, help="predictions that are pooled")
    parser.add_argument("--protocol", default="full", help="quick or full")
    parser.add_argument("--record", type=Path, help="JSON file to write")
    options = parser.parse_args()
    result = measure_transfer(RunFolder(options.run), options.data_dir, options.samples, options.protocol)
    print(result["data"], {name: round(value, 4) for name, value in result["scores"]["returned"].items()})
    if options.record:
        write_json(options.record, result)


if __name__ == "__main__":
    main()
