"""Runs that take no time; lets tests here import `tiny_runs`."""

import sys
from pathlib import Path

import pytest

from desp.runs.folder import RunFolder
from desp.runs.train import train_run
from few_tests import score_few

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _few_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    score_few(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


@pytest.fixture
def trained(folder: RunFolder) -> RunFolder:
    """A run of four steps with seed 5."""
    from tiny_runs import tiny

    train_run(tiny(), 5, folder)
    return folder
