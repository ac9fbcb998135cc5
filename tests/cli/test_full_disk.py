"""A disk that is full or read-only at any write of any command: one line is told, and nothing is lost."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from desp.runs.folder import RunFolder

Desp = Callable[..., Any]
Write = Callable[..., Path]

# What writes go through, all in desp.storage and desp.locks.
FUNCTIONS = ("fsync", "replace", "write", "pwrite")


class Disk:
    """Fails at one write, and at all that follow."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        self.done, self.fails_at, self.number = 0, -1, number
        for name in FUNCTIONS:
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.done += 1
            if 0 <= self.fails_at < self.done:
                raise OSError(self.number, os.strerror(self.number))
            return function(*arguments, **named)

        return call

    def reset(self, fails_at: int) -> None:
        self.done, self.fails_at = 0, fails_at


def content(folder: Path) -> dict[str, str]:
    """All files, by their checksums."""
    return {
        str(path.relative_to(folder)): hashlib.blake2b(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


COMMANDS = {
    "tune": ("tune", "RUN", "--protocol", "quick"),
    "reset": ("tune", "RUN", "--reset"),
    "predict": ("predict", "RUN", "--input", "in.jsonl", "--output", "RUN/out.jsonl"),
    "evaluate": ("evaluate", "RUN", "--record", "RUN/results", "--variant", "tiny"),
    "report": ("report", "RUN"),
    "ablate": ("ablate", "RUN", "--ratios", "0", "1"),
}


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Disk:
    return Disk(monkeypatch, getattr(request, "param", errno.ENOSPC))


def assert_told(finished: Any, number: int) -> None:
    assert finished.status == 2
    lines = [line for line in finished.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, finished.err
    assert f" could not be written: {os.strerror(number)}. " in lines[0]
    assert "Traceback" not in finished.err


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("disk", [errno.ENOSPC, errno.EROFS], indirect=True, ids=["full", "read-only"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_write_of_a_command_may_fail(
    command: str, desp: Desp, digits: Path, disk: Disk, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a run held is there as it was, or as the command leaves it; a second attempt then does it all."""
    write("in.jsonl", [{"input": 1}])
    # Which sampler is best is told by what has been measured: that takes most of the time.
    monkeypatch.setattr("desp.tasks.base.Task.validation_score", lambda *_: 1.0)
    arguments = [item.replace("RUN", str(digits)) for item in COMMANDS[command]]
    before = Path(shutil.copytree(digits, "before"))
    disk.reset(-1)
    assert desp(*arguments).status == 0
    writes, after = disk.done, set(content(digits))
    assert writes >= 3
    old = content(before)
    for fails_at in range(writes):
        shutil.rmtree(digits)
        shutil.copytree(before, digits)
        disk.reset(fails_at)
        assert_told(desp(*arguments), disk.number)
        disk.reset(-1)
        left = content(digits)
        assert set(left) <= set(old) | after
        assert {name for name in old if name.startswith(("model", "checkpoints", "settings"))} <= set(left)
        assert RunFolder(digits).open().predictor.shape.features == 2  # it is whole
        for name in ("tuning.json", "evaluation.json", "samples.json"):  # whole, if there
            if name in left:
                json.loads((digits / name).read_text())
    assert desp(*arguments).status == 0
    assert set(content(digits)) == after


@pytest.mark.parametrize("disk", [errno.ENOSPC, errno.EROFS], indirect=True, ids=["full", "read-only"])
def test_every_write_of_training_may_fail_and_it_goes_on(
    desp: Desp, tiny: list[str], disk: Disk, tmp_path: Path
) -> None:
    """Resumed, or begun again where nothing was saved yet, it ends with the same weights as ever."""
    arguments = [
        "train",
        "digits-desp-paper",
        *tiny,
        "--training.checkpoint-every",
        "3",
        "--training.log-every",
        "2",
    ]
    assert desp(*arguments, "--run", "whole").status == 0
    writes = disk.done
    weights = checksum(tmp_path / "whole")
    log = without_times(Path("whole/log.jsonl"))
    for fails_at in range(0, writes, 1 if disk.number == errno.ENOSPC else 5):
        run = tmp_path / f"run-{fails_at}"
        disk.reset(fails_at)
        assert_told(desp(*arguments, "--run", run), disk.number)
        disk.reset(-1)
        begun = ["--resume"] if (run / "settings.json").exists() else []
        finished = desp(*arguments, "--run", run, *begun)
        assert finished.status == 0, (fails_at, finished.err)
        assert checksum(run) == weights
        assert without_times(run / "log.jsonl") == log
        assert not list(run.rglob(".*"))  # neither locks nor halves of files


def checksum(run: Path) -> str:
    """Of the weights: tensors lie in a file in any order."""
    with safe_open(run / "model" / "model.safetensors", framework="pt") as file:
        return str(file.metadata()["digest"])


def without_times(log: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in log.read_text().splitlines()]
    return [{name: value for name, value in record.items() if name != "seconds"} for record in records]


def test_a_checkpoint_on_a_full_disk_is_told_as_any_file(
    desp: Desp, tiny: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if "safetensors" not in path.name:
            return write(path, content)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    finished = desp("train", "digits-desp-paper", *tiny, "--run", "run")
    assert_told(finished, errno.ENOSPC)
    assert "step-00000006.safetensors could not be written" in finished.err
