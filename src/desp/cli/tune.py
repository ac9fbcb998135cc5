"""``desp tune``"""

import json
import math
from dataclasses import dataclass
from typing import Any

from desp.cli.common import busy, number, parse, show_table
from desp.cli.run_arguments import RunArguments

EXAMPLES = """  desp tune runs/mine
  desp tune runs/polygons --json
  desp tune runs/mine --reset"""


@dataclass(frozen=True)
class _TuneArguments(RunArguments):
    """Choose the sampler of a trained run on validation data; predictions and scores use it from then on.

    It varies the fraction of stochastic steps S/T, the noise scale, the number of steps, momentum and, where there
    are several, restarts; for denoising methods the number of noise levels and the churn; for methods of labels
    `min_probability`. It minimises the energy score (nearly a proper scoring rule, Gneiting & Raftery 2007; not
    the model's energy): distance to the truth less half the distance among predictions. On set-MNIST it minimises
    `task.validation_distance`, on CLEVR one minus mean AP, as one answer is right there, on CelebA one minus F1.
    """

    reset: bool = False
    """Go back to the sampler that the run was begun with."""
    protocol: str = "full"
    """How many examples samplers are compared on, the protocol's `calibration_examples`: full, or quick for a look
    on a CPU. Own data have at most 200."""
    json: bool = False
    """Print JSON."""


def run(arguments: list[str]) -> None:
    """Tune."""
    options = parse(_TuneArguments, arguments, "tune", EXAMPLES)
    from desp.runs.tune import reset_run, tune_run
    from desp.settings import to_json

    folder = options.folder()
    if options.reset:
        print(f"the sampler is that of the beginning again: {_changes({}, to_json(reset_run(folder)))}")
        return
    tried: list[float] = []
    with busy("trying samplers; on a CPU this may take minutes") as say:

        def tell(candidate: dict[str, Any]) -> None:
            tried.append(_score(candidate))
            say(f"samplers tried: {len(tried)}, best score {number(min(tried))}")

        tuning = tune_run(folder, tell, options.protocol)
    if options.json:
        print(json.dumps(tuning, indent=2))
        return
    first = tuning["before"]
    rows = [
        (
            "*" if candidate["sampler"] == tuning["sampler"] else "",
            _changes(first, candidate["sampler"]) or "as the run was begun",
            number(candidate["score"]),
            number(candidate["seconds"]),
        )
        for candidate in sorted(tuning["candidates"], key=_score)
    ]
    title = f"{tuning['recipe']}, seed {tuning['seed']}: samplers on {tuning['examples']} examples, best first"
    show_table(title, ("", "sampler", "score", "seconds"), rows, wrapped=["sampler"])
    print(f"chosen: {_changes(first, tuning['sampler']) or 'the sampler that the run was begun with'}")


def _score(candidate: dict[str, Any]) -> float:
    return math.inf if candidate["score"] is None else float(candidate["score"])


def _changes(before: dict[str, Any], after: dict[str, Any]) -> str:
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    return ", ".join(f"{name} {None if value is None else number(value)}" for name, value in changed.items())
