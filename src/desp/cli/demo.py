"""``desp demo``"""

import math
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from desp.cli.common import bar, parse
from desp.cli.report import report
from desp.cli.train import train
from desp.errors import RunError, TrainingInterrupted
from desp.recipes import get_recipe
from desp.runs.folder import RunFolder

EXAMPLES = """  desp demo
  desp demo --run /tmp/demo --seed 3"""


@dataclass(frozen=True)
class _DemoArguments:
    """Train a small model on generated polygons, predict several sets for each input, write a report.

    Takes about a minute on two CPU cores, a few minutes if the cores are shared. Needs the extra `viz` for the
    report.
    """

    run: Path = Path("runs/demo")
    """Folder of the run; an earlier demo in it is replaced."""
    seed: int = 0
    """Seed of weights, noise and data."""


def run(arguments: list[str]) -> None:
    """Train, predict, report."""
    options = parse(_DemoArguments, arguments, "demo", EXAMPLES)
    from desp.extras import require
    from desp.randomness import check_seed

    require("matplotlib", "viz", "draw pictures")
    settings = get_recipe("demo").build()
    check_seed(options.seed)
    _clear(options.run)
    print("Learning to draw polygons with four to eight corners at any rotation, from their number of corners.")
    from desp.training.device import one_thread

    # On two cores that others use as well, two threads wait for each other longer than one works.
    with one_thread():
        try:
            first = train(settings, options.run, options.seed, resume=False)
        except TrainingInterrupted:
            raise TrainingInterrupted("The demo was stopped. Run it again, it starts anew.") from None
        if not first:
            return
        _show_score(options.run)
    report(options.run)
    # Where the shell does not find `desp`, the path it was called by.
    desp = "desp" if shutil.which("desp") else shlex.quote(sys.argv[0])
    run = shlex.quote(str(options.run))
    print(
        "\nhow to go on:\n"
        f"  echo '{{\"input\": 5}}' > {run}/five.jsonl\n"
        f"  {desp} predict {run} --input {run}/five.jsonl --samples 4 --output {run}/predicted.jsonl\n"
        f'  {desp} train custom --data FILE     your own sets: JSON lines {{"input": ..., "set": [[...]]}}\n'
        f"  {desp} recipes                      what can be trained by name"
    )


def _show_score(path: Path) -> None:
    from desp.runs.evaluate import evaluate_run

    with bar("scoring; this may take a minute") as tell:
        result, _ = evaluate_run(RunFolder(path), protocol="demo", progress=tell)
    returned, real = result["scores"]["returned"], result["real_data"]["score"]
    print(
        f"score {returned['score']:.2e} (smaller is better; real polygons get {real:.1e}), "
        f"{_percent(returned['right_size'])} of the sets have the right number of corners"
    )


def _percent(share: float) -> str:
    """A share in percent, rounded down: less than all never reads as 100 %."""
    return f"{math.floor(1000 * share + 1e-9) / 10:.1f} %"


def _clear(path: Path) -> None:
    """Remove an earlier demo, and nothing else."""
    settings = path / "settings.json"
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not settings.is_file() or '"recipe": "demo"' not in settings.read_text(encoding="utf-8", errors="replace"):
        raise RunError(f"{path} holds something other than a demo. Choose another folder with --run.")
    with RunFolder(path).locked():  # nobody trains there
        shutil.rmtree(path)
