"""Pedestrians at scenes that were not trained on."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from desp.cli.main import main
from desp.runs.folder import RunFolder
from desp.settings import PedestriansSettings
from desp.tasks.pedestrians import PedestriansTask

FOLDER = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))
import pedestrian_choices  # noqa: E402

sys.path.remove(str(FOLDER))
SMALL = [
    *("--task.source", "simulated", "--device", "cpu", "--training.steps", "1", "--training.validate-every", "0"),
    *("--training.batch-size", "2", "--training.warmup-steps", "1", "--method.network.hidden", "4"),
    *("--method.network.layers", "1", "--method.encoder.hidden", "4", "--method.encoder.out", "4"),
]


def test_both_scenes_are_scored_each_for_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, record = tmp_path / "run", tmp_path / "choices.json"
    main(["train", "pedestrians-eth", "--task.validation-scene", "hotel", "--run", str(run), *SMALL])
    monkeypatch.setattr("desp.tasks.pedestrians.PREDICTIONS", 2)
    monkeypatch.setattr(sys, "argv", ["choices", str(run), "--record", str(record)])
    pedestrian_choices.main()
    rows = json.loads(record.read_text())["rows"]
    assert [(row["scored"], row["chosen_for"]) for row in rows] == [("hotel", "eth"), ("eth", "hotel")]
    for row in rows:
        assert row["scores"]["energy_score"] > 0
        assert row["baselines"]["constant-velocity"]["energy_score"] > 0
    assert "hotel for eth" in capsys.readouterr().out


def test_a_run_that_leaves_out_one_scene_has_nothing_to_choose_by(monkeypatch: pytest.MonkeyPatch) -> None:
    task = PedestriansTask(PedestriansSettings(source="simulated"))
    monkeypatch.setattr(RunFolder, "open", lambda _: SimpleNamespace(task=task))
    with pytest.raises(SystemExit, match=r"is not a run on pedestrians with --task\.validation-scene"):
        pedestrian_choices.scores_of_scenes(Path("run"))
