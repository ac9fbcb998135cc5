"""The command line in this process, on runs of a second."""

import contextlib
import io
import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from desp.cli import main
from few_tests import score_few

# Every setting that makes a run long, made short.
TINY = [
    *("--training.steps", "6"),
    *("--training.batch-size", "8"),
    *("--method.energy.hidden", "8"),
    *("--method.training_sampler.steps", "3"),
    *("--method.training_sampler.stochastic-steps", "3"),
    *("--method.sampler.steps", "3"),
    *("--method.sampler.stochastic-steps", "2"),
    *("--device", "cpu"),
]


@dataclass(frozen=True)
class Finished:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """Both outputs in one line, whatever the width of the terminal."""
        return " ".join((self.out + self.err).split())


def call(*arguments: object) -> Finished:
    """Run a command as a user would."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(item) for item in arguments])
        except SystemExit as end:
            status = int(end.code or 0)
    return Finished(status, out.getvalue(), err.getvalue())


Desp = Callable[..., Finished]
Write = Callable[[str, Sequence[Any]], Path]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder of its own for every test, few test sets, and a commit also where there is no repository."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DESP_COMMIT", "0" * 40)
    score_few(monkeypatch)


@pytest.fixture(name="desp")
def _desp() -> Desp:
    """Runs a command: status, output, errors."""
    return call


@pytest.fixture
def tiny() -> list[str]:
    """Arguments that make training short."""
    return list(TINY)


@pytest.fixture(scope="session")
def trained_runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Tiny runs by recipe, trained when first asked for."""
    folder = tmp_path_factory.mktemp("trained")

    def get(recipe: str) -> Path:
        path = folder / recipe
        if not path.exists():
            finished = call("train", recipe, "--run", path, *TINY)
            assert finished.status == 0, finished.err
        return path

    return get


@pytest.fixture
def polygons(trained_runs: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy of a trained run of polygons."""
    return Path(shutil.copytree(trained_runs("polygons-desp"), tmp_path / "polygons"))


@pytest.fixture
def digits(trained_runs: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy of a trained run of digits."""
    return Path(shutil.copytree(trained_runs("digits-desp-paper"), tmp_path / "digits"))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes JSON lines."""

    def lines(name: str, records: Sequence[Any]) -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        return path

    return lines


def sets_in_metres(random_: random.Random, largest: int = 3) -> list[list[float]]:
    """A set whose features are in the thousands and negative."""
    count = random_.randint(1, largest)
    return [[2000 + 1000 * random_.random(), -5 * random_.random()] for _ in range(count)]


@pytest.fixture
def vectors(write: Write) -> Path:
    """A data file with vectors as inputs."""
    numbers = random.Random(0)
    return write(
        "vectors.jsonl",
        [{"input": [numbers.random(), 50 * numbers.random()], "set": sets_in_metres(numbers)} for _ in range(12)],
    )
