"""A run trained on generated scenes, scored on images from files."""

import json
import sys
from pathlib import Path

import pytest

from desp.cli.main import main
from desp.errors import SettingsError
from desp.runs.folder import RunFolder
from tiny_clevr import write_tiny_clevr

FOLDER = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))
import scene_transfer  # noqa: E402

sys.path.remove(str(FOLDER))

TINY = ("--method.hidden", "8", "--training.steps", "1", "--training.batch-size", "2")


def _train(folder: Path, *flags: str) -> Path:
    main(["train", "clevr-detector", "--run", str(folder), "--device", "cpu", *TINY, *flags])
    return folder


def test_generated_run_is_scored_on_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_tiny_clevr(tmp_path / "clevr")
    run = _train(tmp_path / "run", "--task.source", "generated", "--task.scenes", "4")
    record = tmp_path / "new" / "transfer.json"
    monkeypatch.setattr(sys, "argv", ["x", str(run), "--data-dir", str(data), "--record", str(record)])
    scene_transfer.main()
    result = json.loads(record.read_text())
    assert result["trained_on"] == "generated scenes"
    assert "generated" not in result["data"]
    assert result["details"]["images"] == 5
    assert {"ap50", "ap90"} <= set(result["scores"]["returned"])
    assert "ap50_exact" not in result["scores"]["returned"]  # files have no exact boxes


def test_run_on_files_is_refused(tmp_path: Path) -> None:
    data = write_tiny_clevr(tmp_path / "clevr")
    run = _train(tmp_path / "run", "--data-dir", str(data))
    with pytest.raises(SettingsError, match="not trained on generated scenes"):
        scene_transfer.measure_transfer(RunFolder(run), str(data), 1, "quick")
