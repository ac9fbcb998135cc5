"""A run that is interrupted and resumed ends exactly where an uninterrupted one does."""

import json
import os
import random
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tiny_problem import KINDS, RICH, ActingSource, Kind, Recorder, rich_trainer, weights_of
from torch import Tensor

from desp.errors import TrainingInterrupted
from desp.training import TrainingCallback, TrainingOutcome

SCRIPT = Path(__file__).parent / "train_script.py"


def assert_same(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []


def log_of(folder: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    for record in records:
        record.pop("seconds", None)
    return records


def uninterrupted(kind: Kind, folder: Path) -> tuple[TrainingOutcome, dict[str, Tensor]]:
    trainer = rich_trainer(kind, folder)
    outcome = trainer.fit()
    return outcome, weights_of(trainer)


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        *((kind, signal.SIGINT) for kind in KINDS),
        ("contrastive", signal.SIGTERM),
        *(pytest.param(kind, signal.SIGTERM, marks=pytest.mark.long) for kind in KINDS if kind != "contrastive"),
    ],
)
def test_signals_save_and_resume_is_exact(tmp_path: Path, kind: Kind, number: signal.Signals) -> None:
    """Interrupted twice: at a step that nothing else happens at (5), and where all is saved (8)."""
    outcome, last = uninterrupted(kind, tmp_path / "whole")
    folder = tmp_path / "parts"
    handler = signal.getsignal(number)
    for begin, end in ((0, 5), (5, 8)):
        source = ActingSource(end - 1, lambda: os.kill(os.getpid(), number))
        callback = Recorder()
        message = rf"Stopped after step {end} of 12; saved in {folder / 'checkpoints'}.*--resume"
        with pytest.raises(TrainingInterrupted, match=message):
            rich_trainer(kind, folder, source=source, callback=callback).fit(resume=begin > 0)
        assert (callback.starts, callback.ends) == ([(begin, RICH.steps)], 1)
        assert signal.getsignal(number) is handler
        assert (folder / "checkpoints" / f"step-{end:08d}.safetensors").exists()
    trainer = rich_trainer(kind, folder)
    resumed = trainer.fit(resume=True)
    assert_same(weights_of(trainer), last)
    assert_same(resumed.weights, outcome.weights)
    assert (resumed.score, resumed.score_step) == (outcome.score, outcome.score_step)
    assert log_of(folder) == log_of(tmp_path / "whole")


def test_a_callback_can_stop_training(tmp_path: Path) -> None:
    class Impatient(TrainingCallback):
        def on_validation_end(self, step: int, score: float, best: bool) -> None:  # noqa: ARG002
            if step == 6:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(TrainingInterrupted, match="after step 6"):
        rich_trainer("contrastive", tmp_path / "parts", callback=Impatient()).fit()
    resumed = rich_trainer("contrastive", tmp_path / "parts").fit(resume=True)
    assert_same(resumed.weights, uninterrupted("contrastive", tmp_path / "whole")[0].weights)
    assert log_of(tmp_path / "parts") == log_of(tmp_path / "whole")


def test_a_second_signal_stops_at_once_and_resume_is_exact(tmp_path: Path) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="second signal"):
        rich_trainer("contrastive", tmp_path / "parts", source=ActingSource(6, twice)).fit()
    trainer = rich_trainer("contrastive", tmp_path / "parts")
    trainer.fit(resume=True)
    assert_same(weights_of(trainer), uninterrupted("contrastive", tmp_path / "whole")[1])


def stopped_in_validation(folder: Path) -> None:
    """A run of which the validation at step 4 is still to do."""

    def end() -> float:
        raise KeyboardInterrupt

    trainer = rich_trainer("contrastive", folder, settings=replace(RICH, validate_every=4))
    trainer.validate = end
    with pytest.raises(KeyboardInterrupt):
        trainer.fit()


def test_a_failure_in_the_validation_that_is_caught_up_ends_training_as_any_other(tmp_path: Path) -> None:
    stopped_in_validation(tmp_path)
    callback = Recorder()
    trainer = rich_trainer("contrastive", tmp_path, settings=replace(RICH, validate_every=4), callback=callback)

    def fail() -> float:
        raise ValueError("no such metric")

    trainer.validate = fail
    with pytest.raises(ValueError, match="no such metric"):
        trainer.fit(resume=True)
    assert (callback.starts, callback.ends) == ([(4, 12)], 1)


def test_a_signal_in_the_validation_that_is_caught_up_stops_after_it(tmp_path: Path) -> None:
    settings, folder = replace(RICH, validate_every=4), tmp_path / "parts"
    stopped_in_validation(folder)
    callback = Recorder()
    trainer = rich_trainer("contrastive", folder, settings=settings, callback=callback)
    score = trainer.validate

    def ask() -> float:
        os.kill(os.getpid(), signal.SIGINT)
        return score()

    trainer.validate = ask
    with pytest.raises(TrainingInterrupted, match="Stopped after step 4 of 12; saved"):
        trainer.fit(resume=True)
    assert ([step for step, _, _ in callback.scores], callback.steps, callback.ends) == ([4], [], 1)
    rich_trainer("contrastive", folder, settings=settings).fit(resume=True)
    rich_trainer("contrastive", tmp_path / "whole", settings=settings).fit()
    assert log_of(folder) == log_of(tmp_path / "whole")


def test_patience_is_counted_across_an_interruption(tmp_path: Path) -> None:
    settings = replace(RICH, patience=3, validation_mode="min")
    scores = iter([1.0, 2.0, 3.0, 4.0])
    source = ActingSource(4, lambda: os.kill(os.getpid(), signal.SIGINT))
    trainer = rich_trainer("contrastive", tmp_path, source=source, settings=settings)
    trainer.validate = lambda: next(scores)
    with pytest.raises(TrainingInterrupted, match="after step 5"):
        trainer.fit()
    trainer = rich_trainer("contrastive", tmp_path, settings=settings)
    trainer.validate = lambda: next(scores)
    outcome = trainer.fit(resume=True)
    assert (outcome.stopped_early, outcome.steps, outcome.score_step) == (True, 8, 2)


# -- processes that are killed -------------------------------------------------------------------------


RunScript = Callable[..., int]


@pytest.fixture(scope="module")
def run_script(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunScript]:
    """Trains in a process of its own, and tells how it ended."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command, errors = [sys.executable, str(SCRIPT)], tmp_path_factory.mktemp("script") / "errors.txt"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with errors.open("w") as file, subprocess.Popen(command, env=environment, stderr=file, **pipes) as script:

        def run(folder: Path, kind: Kind, *options: str) -> int:
            script.stdin.write(shlex.join([str(folder), kind, *options]) + "\n")
            script.stdin.flush()
            status = script.stdout.readline().strip()
            assert status in ("0", str(-signal.SIGKILL)), errors.read_text()
            return int(status)

        yield run
        script.stdin.close()  # which ends it


def assert_resumes_exactly(run_script: RunScript, tmp_path: Path, kind: Kind) -> None:
    outcome, last = uninterrupted(kind, tmp_path / "whole")
    assert run_script(tmp_path / "parts", kind, "--resume") == 0
    assert_same(load_file(tmp_path / "parts" / "last.safetensors"), last)
    assert_same(load_file(tmp_path / "parts" / "outcome.safetensors"), outcome.weights)
    assert log_of(tmp_path / "parts") == log_of(tmp_path / "whole")


@pytest.mark.parametrize(
    ("kind", "seed"), [("contrastive", 0), pytest.param("set-risk", 1, marks=pytest.mark.long)]
)
def test_sigkill_after_a_random_step(run_script: RunScript, tmp_path: Path, kind: Kind, seed: int) -> None:
    step = random.Random(seed).randrange(RICH.checkpoint_every + 1, RICH.steps)
    assert run_script(tmp_path / "parts", kind, "--kill-after", str(step)) == -signal.SIGKILL
    assert not (tmp_path / "parts" / "last.safetensors").exists()
    assert_resumes_exactly(run_script, tmp_path, kind)


def test_sigkill_between_writing_and_renaming_a_checkpoint(run_script: RunScript, tmp_path: Path) -> None:
    assert run_script(tmp_path / "parts", "contrastive", "--kill-at-rename", "3") == -signal.SIGKILL
    names = sorted(path.name for path in (tmp_path / "parts" / "checkpoints").glob("*step-*"))
    left, whole = names
    assert left.startswith(".step-00000008.safetensors.")  # written, not renamed
    assert whole == "step-00000004.safetensors"
    assert_resumes_exactly(run_script, tmp_path, "contrastive")
