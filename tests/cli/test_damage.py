"""Damaged files of a run, folders that others use, and links in a circle: what is told is true."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from desp.cli.main import main
from desp.training.checkpoints import load_checkpoint

Desp = Callable[..., Any]
Write = Callable[..., Path]
Train = Callable[..., Any]

RECIPE = "digits-desp-paper"


@pytest.fixture
def train(desp: Desp, tiny: list[str]) -> Train:
    """Trains with a checkpoint every two steps of six."""
    more = ["--training.checkpoint-every", "2", "--training.log-every", "1"]
    return lambda run, *arguments: desp("train", RECIPE, "--run", run, *tiny, *more, *arguments)


@pytest.fixture
def run(train: Train) -> Path:
    finished = train("run")
    assert finished.status == 0, finished.err
    return Path("run")


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def weights(run: Path) -> dict[str, list[float]]:
    tensors = load_checkpoint(run / "model" / "model.safetensors").tensors
    return {name: value.flatten().tolist() for name, value in tensors.items()}


def records(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


# -- checkpoints and models ------------------------------------------------------------------------------


def test_the_newest_checkpoint_is_damaged(train: Train, run: Path) -> None:
    whole, log = weights(run), records(run)
    newest = run / "checkpoints" / "step-00000006.safetensors"
    damage(newest)
    shutil.rmtree(run / "model")
    told = train(run, "--resume")
    assert told.status == 2
    assert "delete it: the one before it, step-00000004.safetensors, is used then" in told.err
    newest.unlink()  # what the message asks for
    assert train(run, "--resume").status == 0
    assert (weights(run), records(run)) == (whole, log)


def test_the_only_checkpoint_is_damaged(train: Train, run: Path) -> None:
    whole, log = weights(run), records(run)
    first, second = sorted((run / "checkpoints").glob("step-*"))
    first.unlink()
    damage(second)
    shutil.rmtree(run / "model")
    told = train(run, "--resume")
    assert told.status == 2
    assert "delete it: training begins anew then" in told.err
    second.unlink()
    assert train(run, "--resume").status == 0
    assert (weights(run), records(run)) == (whole, log)


def test_the_only_checkpoint_of_a_finished_run_is_damaged(desp: Desp, train: Train, run: Path) -> None:
    first, second = sorted((run / "checkpoints").glob("step-*"))
    first.unlink()
    damage(second)
    told = train(run, "--resume", "--training.steps", 8)
    assert told.status == 2
    assert (
        "It is the only one, so this run cannot be resumed unless it is restored; its model can be used"
        in told.err
    )
    assert "delete" not in told.err
    assert desp("evaluate", run).status == 0
    second.unlink()
    assert "lost its checkpoints" in train(run, "--resume", "--training.steps", 8).err


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
@pytest.mark.parametrize("gone", [False, True], ids=["damaged", "gone"])
def test_a_damaged_model_is_made_again_as_the_message_says(
    desp: Desp, train: Train, run: Path, name: str, gone: bool
) -> None:
    whole = weights(run)
    file = run / "model" / name
    file.unlink() if gone else damage(file)
    told = desp("evaluate", run)
    assert told.status == 2
    assert f"To make it again from the last checkpoint: desp train {RECIPE} --run {run} --resume" in told.err
    finished = desp("train", RECIPE, "--run", run, "--resume")
    assert finished.status == 0, finished.err
    assert weights(run) == whole
    assert desp("evaluate", run).status == 0


def test_the_best_checkpoint_is_damaged(train: Train) -> None:
    validated = ("--training.validate-every", "2")
    assert train("run", *validated).status == 0
    damage(Path("run/checkpoints/best.safetensors"))
    told = train("run", *validated, "--resume", "--training.steps", 8)
    assert told.status == 2
    assert "best.safetensors" in told.err
    assert "restore it, or train in another folder" in told.err


# -- the log ---------------------------------------------------------------------------------------------

BROKEN = {
    "half a line": (b"", b'{"step": 4, "lo', 0),
    "garbage": (b"no JSON at all\n", b"", 1),
    "binary": (bytes(range(256)), b"\xff\xfe", 2),
    "other values": (b'[1]\n7\n{"loss": 1}\n{"step": "x"}\n', b"", 4),
}


@pytest.mark.parametrize(("middle", "end", "lines"), BROKEN.values(), ids=BROKEN)
def test_a_damaged_log_is_mended(
    train: Train, run: Path, middle: bytes, end: bytes, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    whole, log = weights(run), records(run)
    for newest in ("checkpoints/step-00000006.safetensors", "summary.json"):
        (run / newest).unlink()
    first, *others = (run / "log.jsonl").read_bytes().splitlines(keepends=True)
    (run / "log.jsonl").write_bytes(b"".join([first, middle, *others, end]))
    finished = train(run, "--resume")
    assert finished.status == 0, finished.err
    assert weights(run) == whole
    kept = records(run)
    assert [line for line in log if line not in kept] in ([], log[1:2])  # binary noise takes the line it stands in
    assert all(line in log for line in kept)
    told = [record.getMessage() for record in caplog.records if "damaged lines" in record.getMessage()]
    assert len(told) == (1 if lines else 0)


# -- one process at a time -------------------------------------------------------------------------------

HOLD = """
import sys, time
from pathlib import Path
from desp.locks import sole_use

with sole_use(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_folder_that_another_process_trains_in(desp: Desp, train: Train, run: Path) -> None:
    """Neither is anything written there, nor after that process was killed is anything in the way."""
    held = subprocess.Popen([sys.executable, "-c", HOLD, str(run)], stdout=subprocess.PIPE)
    assert held.stdout is not None
    held.stdout.readline()
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    for told in (
        train(run, "--resume", "--training.steps", 8),
        train(run),
        desp("tune", run),
        desp("tune", run, "--reset"),
    ):
        assert told.status == 2
        assert f"{run} is in use: process {held.pid} on " in told.err
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    held.send_signal(signal.SIGKILL)
    held.communicate()
    assert train(run, "--resume", "--training.steps", 8).status == 0
    assert not (run / ".lock").exists()


def test_a_predictor_is_fitted_in_a_folder_alone(tmp_path: Path) -> None:
    """Not only by the command."""
    import torch

    from desp import SetPredictor, TrainingSettings
    from desp.errors import RunError

    held = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "mine")], stdout=subprocess.PIPE)
    assert held.stdout is not None
    held.stdout.readline()
    try:
        data = [(torch.rand(2), torch.rand(2, 2)) for _ in range(4)]
        with pytest.raises(RunError, match=f"is in use: process {held.pid} on"):
            SetPredictor(device="cpu").fit(data, TrainingSettings(steps=1), folder=tmp_path / "mine")
    finally:
        held.send_signal(signal.SIGKILL)
        held.communicate()


# -- links in a circle -----------------------------------------------------------------------------------


@pytest.fixture
def circle() -> Path:
    os.symlink("two", "one")
    os.symlink("one", "two")
    return Path("one")


def test_links_in_a_circle(desp: Desp, train: Train, circle: Path, write: Write) -> None:
    data = write("data.jsonl", [{"input": [1.0], "set": [[1.0]]}] * 4)
    for finished in (
        train(circle),
        train(circle / "run"),
        desp("train", "custom", "--data", circle, "--run", "run"),
        desp("train", "mnist-desp", "--data-dir", circle, "--run", "run"),
    ):
        assert finished.status == 2
        assert "symbolic links lead in a circle" in finished.err
    for arguments in (
        ("evaluate", circle),
        ("report", circle),
        ("predict", circle, "--input", data, "--output", "out"),
        ("tune", circle),
    ):
        finished = desp(*arguments)
        assert finished.status == 2
        assert finished.err.splitlines()[-1].startswith("error: ")
    assert not Path("run").exists()


def test_a_folder_that_is_no_run_keeps_its_files(tmp_path: Path) -> None:
    kept = tmp_path / ".thesis.draft.tmp"
    kept.write_text("precious")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(SystemExit):
        main(["train", "polygons-desp", "--run", str(tmp_path)])
    assert kept.read_text() == "precious"
