"""Ctrl-C once or more often, and SIGTERM, at any moment: no traceback, and what was saved can be resumed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

Desp = Callable[..., Any]

# Says when Python itself is there: before that, for milliseconds, it tells of an interruption itself.
START = """
import os, sys
from desp.cli import main
os.write(1, b"started\\n")
{before}
sys.argv = ["desp", *sys.argv[1:]]
main()
"""
# Stops where torch is loaded, and waits there for a signal.
IN_AN_IMPORT = """
import time
class Wait:
    def find_spec(self, name, *_):
        if name == "torch":
            os.write(1, b"importing torch\\n")
            time.sleep(60)
sys.meta_path.insert(0, Wait())
"""
# Says when the process is about to end.
AT_EXIT = """
import atexit, time
def wait():
    os.write(1, b"ending\\n")
    time.sleep(60)
atexit.register(wait)
"""


class Process:
    """A command in a process of its own."""

    def __init__(self, arguments: Sequence[object], before: str = "") -> None:
        command = [sys.executable, "-c", START.format(before=before), *(str(item) for item in arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_for("started")

    def wait_for(self, words: str) -> None:
        assert self.process.stdout is not None
        while words not in (line := self.process.stdout.readline()):
            assert line, self.process.communicate()[1]

    def end(self, *signals: int, pause: float = 0.0) -> tuple[int, str]:
        """Send signals; the status and what was told."""
        for number in signals:
            self.process.send_signal(number)
            time.sleep(pause)
        try:
            out, err = self.process.communicate(timeout=100)
        finally:
            self.process.kill()
        assert "Traceback" not in out + err, err
        assert "Exception ignored" not in err, err
        return self.process.returncode, err


def wait_until(there: Callable[[], object]) -> None:
    until = time.monotonic() + 100
    while not there():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture
def long_run(tiny: list[str]) -> list[object]:
    """A run that goes on until it is stopped."""
    more = ["--training.checkpoint-every", "20", "--training.log-every", "5"]
    return ["train", "digits-desp-paper", "--run", "run", *tiny, *more, "--training.steps", "100000"]


@pytest.mark.parametrize("signals", [1, 3])
def test_while_torch_is_imported(long_run: list[object], signals: int) -> None:
    started = Process(long_run, IN_AN_IMPORT)
    started.wait_for("importing torch")
    status, told = started.end(*[signal.SIGINT] * signals)
    assert (status, told) == (130, "\ninterrupted\n")
    assert not Path("run").exists()


@pytest.mark.parametrize("moment", [0.05, 0.4, 2.5])
def test_in_the_first_moments(long_run: list[object], moment: float) -> None:
    started = Process(long_run)
    time.sleep(moment)
    status, _ = started.end(signal.SIGINT)
    assert status == 130


@pytest.mark.parametrize(
    ("signals", "pause"),
    [
        ([signal.SIGINT], 0.0),
        ([signal.SIGTERM], 0.0),
        ([signal.SIGINT] * 3, 0.05),
        pytest.param([signal.SIGINT, signal.SIGINT], 0.0, marks=pytest.mark.long),
        pytest.param([signal.SIGINT] * 10, 0.01, marks=pytest.mark.long),
    ],
    ids=["once", "SIGTERM", "three times", "twice", "impatiently"],
)
def test_while_training(desp: Desp, long_run: list[object], signals: list[int], pause: float) -> None:
    """What is saved is whole, and the run goes on from there."""
    started, checkpoints = Process(long_run), Path("run/checkpoints")
    wait_until(lambda: list(checkpoints.glob("step-*.safetensors")))
    status, told = started.end(*signals, pause=pause)
    # A signal that comes after Python took its handlers away ends the process itself: 130 in a shell as well.
    assert status == 130 or (len(signals) > 2 and status == -signal.SIGINT)
    if len(signals) == 1:
        assert "The command: desp train digits-desp-paper --run run --resume" in told
    newest = max(int(path.stem.removeprefix("step-")) for path in checkpoints.glob("step-*.safetensors"))
    finished = desp("train", "digits-desp-paper", "--run", "run", "--resume", "--training.steps", newest + 3)
    assert finished.status == 0, finished.err
    assert not list(Path("run").rglob(".*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_while_the_process_ends(number: int) -> None:
    started = Process(["recipes"], AT_EXIT)
    started.wait_for("ending")
    status, _ = started.end(number)
    assert status == (130 if number == signal.SIGINT else -signal.SIGTERM)


def test_an_ignored_signal_stays_ignored() -> None:
    """As of a job that a shell runs in the background."""
    ignored = f"{START.format(before=AT_EXIT)}"
    command = [sys.executable, "-c", f"import signal; signal.signal(2, signal.SIG_IGN)\n{ignored}", "recipes"]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert started.stdout is not None
    while b"ending" not in started.stdout.readline():
        pass
    os.kill(started.pid, signal.SIGINT)
    time.sleep(0.1)
    assert started.poll() is None
    started.kill()
    started.communicate()


def test_a_full_standard_output_is_told_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "desp", "recipes"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: [Errno 28] No space left on device")
    assert done.stderr.count("\n") == 1
