"""Runs that take no time; lets tests here import `tiny_runs`."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from desp.runs.folder import RunFolder
from desp.runs.train import train_run
from desp.tasks import Protocol
from desp.tasks.polygons import PolygonsTask

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _few_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    few = Protocol(
        test_examples=(20,),
        predictions_per_input=10,
        sets_per_collection=6,
        sets_per_collection_hungarian=6,
        calibration_examples=50,
    )
    monkeypatch.setattr(PolygonsTask, "protocols", {"full": replace(few, test_examples=(24,)), "quick": few})


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


@pytest.fixture
def trained(folder: RunFolder) -> RunFolder:
    """A run of four steps with seed 5."""
    from tiny_runs import tiny

    train_run(tiny(), 5, folder)
    return folder
