"""Constant velocity as a record, and in the tables beside recipes."""

import json
import sys
from pathlib import Path

import pytest

from desp.cli.main import main
from desp.paper.tables import table_rows
from desp.results import read_baselines, read_results
from few_tests import score_few
from made_up_results import made_up

FOLDER = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))
import pedestrian_baselines  # noqa: E402

sys.path.remove(str(FOLDER))


def test_baselines_stand_beside_recipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    score_few(monkeypatch)
    monkeypatch.setattr("desp.data.simulated_walkers.FRAMES", 120)
    monkeypatch.setattr(sys, "argv", ["pedestrian_baselines.py", "--simulated", "--record", str(tmp_path)])
    pedestrian_baselines.main()
    files = sorted((tmp_path / "baselines").iterdir())
    assert len(files) == 10
    recorded = json.loads((tmp_path / "baselines" / "pedestrians-eth-constant-velocity.json").read_text())
    assert recorded["data"] == "simulated walkers"
    assert recorded["metrics"]["collisions"]["unit"] == 0.01
    ours = made_up("pedestrians-eth", 0, 0.5, 0.4)
    ours["scores"]["returned"]["energy_score"] = 0.4
    (tmp_path / "pedestrians-eth-seed0.json").write_text(json.dumps(ours))
    rows = table_rows(read_results(tmp_path), read_baselines(tmp_path))
    cells = {
        (row["task"], row["system"]): row["value"]
        for row in rows
        if (row["table"], row["metric"]) == ("pedestrians", "energy_score")
    }
    assert cells["eth", "constant-velocity"] == recorded["scores"]["energy_score"]
    assert cells["eth", "engression"] == 0.4
    assert len(cells) == 11
    capsys.readouterr()
    main(["tables", "--results", str(tmp_path)])
    shown = capsys.readouterr().out
    assert "Pedestrians, in metres" in shown
    assert shown.count("constant-velocity-turned") >= 5
    main(["tables", "--results", str(tmp_path), "--markdown"])
    assert "| eth | constant-velocity | energy_score |" in capsys.readouterr().out
