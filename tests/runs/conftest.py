"""Runs that take no time; lets tests here import `tiny_runs`."""

import sys
from pathlib import Path

import pytest

import desp.tasks.polygons
from desp.runs import RunFolder, train_run

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _few_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(desp.tasks.judgement.COMPARED, "cpu", 6)
    monkeypatch.setitem(desp.tasks.judgement.CALIBRATED, "cpu", 50)
    monkeypatch.setattr(desp.tasks.polygons, "TESTS", 20)
    monkeypatch.setattr(desp.tasks.polygons, "ANGLES", 10)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


@pytest.fixture
def trained(folder: RunFolder) -> RunFolder:
    """A run of four steps with seed 5."""
    from tiny_runs import tiny

    train_run(tiny(), 5, folder)
    return folder
