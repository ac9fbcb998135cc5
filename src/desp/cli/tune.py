"""``desp tune``"""

import json
import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from desp.cli.common import busy, number, parse, show_table
from desp.cli.run_arguments import RunArguments
from desp.runs.folder import WRITTEN_BY, RunFolder

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
    The run keeps the sampler that it was begun with, unless the best one is better by more than the standard error
    of the difference, paired by examples. Where a task gives no score for each example (CLEVR, CelebA,
    pedestrians), the best one is used.
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
    from desp.runs.tune import reset_run, tunable_sampler, tune_run
    from desp.settings import to_json

    folder = options.folder()
    measured = [path for path in folder.measurements if path.exists() and path != folder.tuning_file]
    if options.reset:
        print(f"the sampler is that of the beginning again: {_changes({}, to_json(reset_run(folder)))}")
        _tell_removed(folder, measured)
        return
    tunable_sampler(folder)  # refused before anything takes long
    tried: list[float] = []
    with busy("trying samplers; on a CPU this may take minutes") as say:

        def tell(candidate: dict[str, Any]) -> None:
            tried.append(_score(candidate))
            say(f"samplers tried: {len(tried)}, best score {number(min(tried))}")

        tuning = tune_run(folder, tell, options.protocol)
    if options.json:
        print(json.dumps(tuning, indent=2))
        _tell_removed(folder, measured, to_stderr=True)
        return
    _show(tuning)
    _tell_removed(folder, measured)


def _show(tuning: dict[str, Any]) -> None:
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
    chosen = _changes(first, tuning["sampler"])
    print(f"chosen: {chosen or 'the sampler that the run was begun with'}{_gain_words(tuning, bool(chosen))}")


def _gain_words(tuning: dict[str, Any], changed: bool) -> str:
    """By how much the best sampler is better than the one of the beginning, where it is known."""
    if "gain" not in tuning:
        return ""
    gain, error = number(tuning["gain"]), number(tuning["gain_se"])
    if tuning["gain_se"] is None:
        return f"; the best is better by {gain} on one example, which does not tell the noise"
    if changed:
        return f"; better by {gain}, standard error {error}"
    return f"; the best is better by {gain}, not more than the standard error of the difference, {error}"


def _tell_removed(folder: RunFolder, measured: Sequence[Path], *, to_stderr: bool = False) -> None:
    """Say which files went because they were of another sampler, and how to get them again."""
    gone = [path.name for path in measured if not path.exists()]
    if not gone:
        return
    run = shlex.quote(str(folder.path))
    commands = dict.fromkeys(WRITTEN_BY[name].replace("RUN", run) for name in gone)
    again = "".join(f"\n  {command}" for command in commands)
    print(
        f"removed, as they were of the sampler before: {', '.join(gone)}. To make them again:{again}",
        file=sys.stderr if to_stderr else sys.stdout,
    )


def _score(candidate: dict[str, Any]) -> float:
    return math.inf if candidate["score"] is None else float(candidate["score"])


def _changes(before: dict[str, Any], after: dict[str, Any]) -> str:
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    return ", ".join(f"{name} {None if value is None else number(value)}" for name, value in changed.items())
