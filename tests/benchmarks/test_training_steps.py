"""benchmarks/training_steps.py times training steps of recipes."""

import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))
import training_steps  # noqa: E402

sys.path.remove(str(FOLDER))


def test_steps_of_recipes_are_timed(
    tiny_mnist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training_steps, "WARM_UP", 1)
    monkeypatch.setattr(training_steps, "BLOCK", 1)
    record = tmp_path / "steps.json"
    given = ["--recipes", "mnist-tspn", "polygons-risk-chamfer", "--kernels", "--record", str(record)]
    monkeypatch.setenv("DESP_DATA", str(tiny_mnist))
    monkeypatch.setattr(sys, "argv", ["training_steps.py", *given])
    training_steps.main()
    rows = json.loads(record.read_text())["rows"]
    assert [row["recipe"] for row in rows] == ["mnist-tspn", "polygons-risk-chamfer"]
    assert all(row["ms"] > 0 for row in rows)
    assert "polygons-risk-chamfer: " in capsys.readouterr().out
