"""Kill commands at random moments, and check that nothing is lost.

    .venv/bin/python tests/kill_runs.py --kills 200 --seed 0

Tiny runs are trained, tuned, predicted with, scored and reported, and ended by SIGKILL at a random moment. After
each kill the run must be usable, every file whole, and training that is resumed must end with the same weights and
the same log, bit for bit, as training that nobody disturbed. Commands run in forked processes, which have all
modules already.
"""

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from desp.cli import main as desp_main
from desp.runs.folder import RunFolder
from desp.settings import to_json
from desp.tasks.digits import DigitsTask
from desp.tasks.scoring import Protocol
from desp.training.checkpoints import CheckpointStore, load_checkpoint

RECIPE = "digits-desp-paper"
TINY = [
    *("--training.steps", "12", "--training.batch-size", "8", "--training.checkpoint-every", "2"),
    *("--training.validate-every", "4", "--training.log-every", "1", "--method.energy.hidden", "8"),
    *("--method.training_sampler.steps", "3", "--method.training_sampler.stochastic-steps", "3"),
    *("--method.sampler.steps", "3", "--method.sampler.stochastic-steps", "2", "--device", "cpu"),
]
FEW = Protocol((12,), 4, sets_per_collection=6, sets_per_collection_hungarian=6, calibration_examples=20)
COMMANDS = ("predict", "evaluate", "report", "tune")
OLD = "what was there before\n"


class Lost(Exception):
    """Something that a kill must not do."""


def need(condition: object, words: str) -> None:
    """Fail with `words` unless the condition holds."""
    if not condition:
        raise Lost(words)


# -- processes -------------------------------------------------------------------------------------------


def start(log: Path, *arguments: object) -> int:
    """Start a command in a process of its own; returns its number."""
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        with log.open("w") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
            status = 0
            desp_main([str(item) for item in arguments])
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:  # noqa: BLE001 - a traceback is what is looked for
        status = 70
        with log.open("a") as file:
            traceback.print_exc(file=file)
    finally:
        os._exit(status)


def finish(log: Path, *arguments: object) -> float:
    """Run a command to its end; returns how long it took."""
    began = time.monotonic()
    _, status = os.waitpid(start(log, *arguments), 0)
    words = " ".join(map(str, arguments))
    need(status == 0, f"`desp {words}` ended with status {status >> 8}: {log.read_text()[-800:]}")
    return time.monotonic() - began


def killed(log: Path, after: float, *arguments: object) -> bool:
    """Run a command and kill it after some seconds; false if it was done by then."""
    process = start(log, *arguments)
    time.sleep(after)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        return True
    words = " ".join(map(str, arguments))
    need(status == 0, f"`desp {words}` ended with status {status >> 8}: {log.read_text()[-800:]}")
    return False


# -- what a run is ---------------------------------------------------------------------------------------


def trained(run: Path) -> dict[str, Any]:
    """All that training made, but for times."""
    steps = CheckpointStore(run / "checkpoints").paths()
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    summary = json.loads((run / "summary.json").read_text())
    return {
        "weights": tensors(run / "model" / "model.safetensors"),
        "newest": tensors(steps[-1]),
        "best": tensors(run / "checkpoints" / "best.safetensors"),
        "log": [{name: value for name, value in line.items() if name != "seconds"} for line in log],
        "summary": {name: summary[name] for name in ("steps", "kept_score", "kept_step", "rollbacks")},
    }


def tensors(path: Path) -> dict[str, bytes]:
    """The bytes of all tensors."""
    found = load_checkpoint(path).tensors
    return {
        name: value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() for name, value in found.items()
    }


def check_usable(run: Path) -> None:
    """A finished run opens, and its files are whole and speak of the same sampler."""
    folder = RunFolder(run)
    opened = folder.open()
    for file in (folder.summary_file, folder.samples_file, folder.evaluation_file, folder.tuning_file):
        folder.read(file)  # an error if it is damaged
    tuning = folder.read(folder.tuning_file)
    sampler = to_json(opened.predictor.method_settings.prediction_sampler)
    need(tuning is None or tuning["sampler"] == sampler, "tuning.json and the model speak of different samplers")


def check_no_halves(run: Path) -> None:
    """A command that came to its end has removed what others left."""
    left = [path.name for path in run.rglob(".*")]
    need(not left, f"left behind: {left}")


# -- kills -----------------------------------------------------------------------------------------------


@dataclass
class Kills:
    """A folder to work in, the run that nobody disturbed, and how long commands take."""

    work: Path
    chance: random.Random
    seconds: dict[str, float] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def prepare(self) -> None:
        """Do everything once without any kill."""
        self.log, self.whole, self.run = self.work / "log", self.work / "whole", self.work / "run"
        self.inputs = self.work / "in.jsonl"
        self.inputs.write_text('{"input": 0}\n{"input": 1}\n' * 20)
        warm = self.work / "warm"  # in this process, so that it loads all modules for those that are forked
        for command in (self.train(warm), *(self.command(name, warm) for name in COMMANDS)):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                desp_main([str(item) for item in command])
        self.seconds["train"] = finish(self.log, *self.train(self.whole))
        self.expected = trained(self.whole)
        for name in COMMANDS:
            used = self.copy()
            (used / "samples.json").unlink()
            self.seconds[name] = finish(self.log, *self.command(name, used))
            check_usable(used)
            if name == "predict":
                self.predicted = (used / "out.jsonl").read_text()
            if name == "tune":
                self.tuned = json.loads((used / "tuning.json").read_text())["sampler"]

    def train(self, run: Path) -> list[object]:
        begun = ["--resume"] if (run / "settings.json").exists() else []
        return ["train", RECIPE, "--run", run, *TINY, *begun]

    def command(self, name: str, run: Path) -> list[object]:
        """A command on a finished run, with all that makes it write."""
        more: dict[str, list[object]] = {
            "predict": ["--input", self.inputs, "--output", run / "out.jsonl"],
            "evaluate": ["--record", run / "results", "--variant", "tiny"],
            "tune": ["--protocol", "quick"],
        }
        return [name, run, *more.get(name, [])]

    def copy(self) -> Path:
        """A copy of the run that nobody disturbed."""
        shutil.rmtree(self.work / "used", ignore_errors=True)
        return Path(shutil.copytree(self.whole, self.work / "used"))

    def moment(self, name: str) -> float:
        return self.chance.uniform(0, 1.1 * self.seconds[name])

    def kill_training(self) -> bool:
        """Kills pile up in one run, until it comes to its end; after each one, a copy of it is resumed."""
        hit = killed(self.log, self.moment("train"), *self.train(self.run))
        if self.run.exists():
            shutil.rmtree(self.work / "resumed", ignore_errors=True)
            resumed = Path(shutil.copytree(self.run, self.work / "resumed"))
            finish(self.log, *self.train(resumed))
            self.compare(resumed)
            check_no_halves(resumed)
        if not hit:
            self.compare(self.run)
            shutil.rmtree(self.run)
        return hit

    def compare(self, run: Path) -> None:
        found = trained(run)
        for name, value in self.expected.items():
            need(found[name] == value, f"{name} of {run} differs from the run that nobody disturbed")
        check_usable(run)

    def kill_command(self, name: str) -> bool:
        used = self.copy()
        (used / "samples.json").unlink()  # so that the report predicts as well
        (used / "out.jsonl").write_text(OLD)
        hit = killed(self.log, self.moment(name), *self.command(name, used))
        check_usable(used)
        need((used / "out.jsonl").read_text() in (OLD, self.predicted), "half of the predictions were written")
        for result in (used / "results").glob("*.json"):
            json.loads(result.read_text())
        page = used / "report.html"
        need(not page.exists() or page.read_text().rstrip().endswith("</html>"), "half of the report was written")
        finish(self.log, *self.command(name, used))
        check_usable(used)
        if name == "tune":
            need(json.loads((used / "tuning.json").read_text())["sampler"] == self.tuned, "tuning ended elsewhere")
        return hit

    def one(self) -> None:
        """One attempt; it counts if the command was not done before."""
        name = self.chance.choice(["train"] * len(COMMANDS) + [*COMMANDS])
        hit = self.kill_training() if name == "train" else self.kill_command(name)
        self.counts[name] += hit


def kill_runs(kills: int, seed: int, seconds: float, tell: Callable[[str], None]) -> int:
    """Kill that many commands, or as many as fit into the time; returns how many.

    Raises:
        Lost: something was lost; the message says what, the folder is left to be looked at.
    """
    torch.set_num_threads(1)
    os.environ.setdefault("DESP_COMMIT", "0" * 40)
    DigitsTask.protocols = {"full": FEW, "quick": FEW}
    work = Path(tempfile.mkdtemp(prefix="kill-runs-"))
    tell(f"in {work}, seed {seed}")
    state, began = Kills(work, random.Random(seed)), time.monotonic()
    state.prepare()
    tell("undisturbed: " + ", ".join(f"{name} {value:.2f} s" for name, value in state.seconds.items()))
    while state.counts.total() < kills and time.monotonic() - began < seconds:
        state.one()
        if state.counts.total() % 20 == 0:
            tell(f"{state.counts.total()} kills in {time.monotonic() - began:.0f} s")
    told = ", ".join(f"{name} {count}" for name, count in sorted(state.counts.items()))
    tell(f"{state.counts.total()} kills ({told}) in {time.monotonic() - began:.0f} s: nothing was lost")
    shutil.rmtree(work)
    return state.counts.total()


def main() -> None:
    """Kill as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0, help="stop after this time")
    options = parser.parse_args()
    try:
        kill_runs(options.kills, options.seed, options.seconds, lambda line: print(line, flush=True))
    except Lost as error:
        sys.exit(f"LOST: {error}")


if __name__ == "__main__":
    main()
