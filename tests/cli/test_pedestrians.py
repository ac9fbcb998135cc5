"""Where they will walk, from the command line: simulated walkers, with every recipe made small."""

import json
from pathlib import Path

import pytest

import desp.data.pedestrian_files as files
from desp.cli.main import main
from desp.recipes import all_recipes
from few_tests import score_few
from walkers import write_recordings

SMALL = [
    *("--training.steps", "4", "--training.validate-every", "2", "--training.checkpoint-every", "2"),
    *("--training.batch-size", "4", "--method.network.hidden", "8", "--method.network.layers", "1"),
    *("--method.encoder.hidden", "8", "--method.encoder.out", "8"),
    *("--device", "cpu"),
]
RECIPES = [recipe.name for recipe in all_recipes() if recipe.table == "pedestrians"]


@pytest.fixture(autouse=True)
def _few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    score_few(monkeypatch)
    monkeypatch.setattr("desp.data.simulated_walkers.FRAMES", 160)
    monkeypatch.chdir(tmp_path)


def train(recipe: str, *more: str) -> None:
    main(["train", recipe, "--run", "run", "--task.drawn", "24", *SMALL, *more])


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_trains_and_is_scored(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    train(recipe, "--task.source", "simulated")
    capsys.readouterr()
    main(["evaluate", "run", "--json"])
    rows = {row["metric"]: row for row in json.loads(capsys.readouterr().out)}
    for metric in ("score", "energy_score", "joint_ade", "joint_fde"):
        assert rows[metric]["value"] > 0
        assert (rows[metric]["table"], rows[metric]["direction"]) == ("pedestrians", "lower")
    assert rows["score"]["task"] == recipe.removeprefix("pedestrians-")
    assert {row["data"] for row in rows.values()} == {"simulated walkers"}
    assert rows["score"]["variant"] == "simulated"


def test_pictures_and_predictions(capsys: pytest.CaptureFixture[str]) -> None:
    train("pedestrians-eth", "--task.source", "simulated")
    example = json.loads(Path("run/samples.json").read_text())["examples"][0]
    people = len(example["paths"]["observed"])
    assert len(example["paths"]["samples"]) == len(example["samples"]) == 20
    assert [len(path) for path in example["paths"]["truth"][0]] == [12] * people
    assert example["truth"][0] == [path[-1] for path in example["paths"]["truth"][0]]
    main(["report", "run"])
    page = Path("run/report.html").read_text()
    assert "predicted paths of all people for 5 inputs" in page
    walk = [[[1000 + 0.3 * frame, float(person)] for frame in range(8)] for person in range(2)]
    Path("walks.jsonl").write_text(json.dumps({"input": walk}) + "\n")
    main(["predict", "run", "--input", "walks.jsonl", "--output", "out.jsonl", "--samples", "2"])
    (line,) = Path("out.jsonl").read_text().splitlines()
    samples = json.loads(line)["samples"]
    assert [len(row) for sample in samples for row in sample["set"]] == [24] * 4
    # The next position, in metres; four steps of training do not teach more.
    assert abs(samples[0]["set"][0][0] - 1002.4) < 10
    capsys.readouterr()


def test_recordings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["data", "pedestrians", "--data-dir", "nowhere", "--no-download"])
    assert "desp data pedestrians" in " ".join(capsys.readouterr().err.split())
    monkeypatch.setattr(files, "CHECKSUMS", write_recordings(Path("data/pedestrians")))
    monkeypatch.setattr("desp.data.pedestrians.CHECKSUMS", files.CHECKSUMS)
    main(["data", "pedestrians", "--data-dir", "data", "--no-download"])
    shown = capsys.readouterr().out
    assert "all recordings are there" in shown
    assert "eth: 141 windows of up to 1 people" in shown
    train("pedestrians-hotel", "--data-dir", "data")
    main(["evaluate", "run", "--json", "--data-dir", "data"])
    assert '"data": "ETH/UCY"' in capsys.readouterr().out
