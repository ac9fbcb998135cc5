"""A run trained on generated scenes, scored on images from files."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from desp.errors import SettingsError
from desp.recipes import get_recipe
from desp.runs.folder import RunFolder
from desp.runs.train import train_run
from desp.settings import ClevrSettings
from tiny_clevr import write_tiny_clevr

FOLDER = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))
import scene_transfer  # noqa: E402

sys.path.remove(str(FOLDER))


def _train(folder: Path, task: ClevrSettings) -> Path:
    """A step of a tiny detector, without the pictures that `desp train` adds."""
    recipe = get_recipe("clevr-detector").build()
    training = replace(recipe.training, steps=1, batch_size=2, warmup_steps=0)
    settings = replace(recipe, task=task, method=replace(recipe.method, hidden=8), training=training, device="cpu")
    train_run(settings, 0, RunFolder(folder))
    return folder


def test_generated_run_is_scored_on_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_tiny_clevr(tmp_path / "clevr")
    run = _train(tmp_path / "run", ClevrSettings(data_dir=str(data)))
    saved = json.loads((run / "settings.json").read_text())
    saved["settings"]["task"] |= {"source": "generated", "data_dir": ""}  # to render scenes would take long
    (run / "settings.json").write_text(json.dumps({**saved, "data_fingerprint": None}))
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
    run = _train(tmp_path / "run", ClevrSettings(data_dir=str(data)))
    with pytest.raises(SettingsError, match="not trained on generated scenes"):
        scene_transfer.measure_transfer(RunFolder(run), str(data), 1, "quick")
