"""Which items do not belong, from the command line: simulated items, with every recipe made small."""

import json
import re
from pathlib import Path

import pytest

from desp.cli.main import main
from few_tests import score_few

SMALL = ["--method.encoder.hidden", "8", "--method.encoder.out", "6", "--training.batch-size", "8"]
OF_RECIPES = {
    "celeba-desp-paper": ["--method.energy.hidden", "8"],
    "celeba-tagger": ["--method.hidden", "8"],
    "celeba-likelihood": ["--method.energy.hidden", "8"],
}


@pytest.fixture(autouse=True)
def _few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    score_few(monkeypatch)
    monkeypatch.setattr("desp.tasks.celeba.SIMULATED", {"training": 600, "validation": 500, "test": 500})
    monkeypatch.chdir(tmp_path)


def train(recipe: str) -> None:
    steps = ["--training.steps", "4", "--training.validate-every", "2", "--training.checkpoint-every", "2"]
    where = ["--task.source", "simulated", "--run", "run", "--device", "cpu"]
    main(["train", recipe, *where, *steps, *SMALL, *OF_RECIPES[recipe]])


@pytest.mark.parametrize("recipe", OF_RECIPES)
def test_every_recipe_trains_and_is_scored(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    train(recipe)
    capsys.readouterr()
    main(["evaluate", "run", "--json"])
    rows = json.loads(capsys.readouterr().out)
    found = {(row["task"], row["metric"]): row for row in rows}
    for task in ("all", "ambiguous"):
        for metric in ("precision", "recall", "f1"):
            assert 0 <= found[task, metric]["value"] <= 1
            assert (found[task, metric]["table"], found[task, metric]["direction"]) == ("celeba", "higher")
    assert {row["data"] for row in rows} == {"simulated items"}
    log = [json.loads(line) for line in Path("run/log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in log if "validation_score" in row] == [2, 4]


def test_ablation_and_report(capsys: pytest.CaptureFixture[str]) -> None:
    train("celeba-desp-paper")
    main(["ablate", "run", "--ratios", "0", "0.8"])
    rows = json.loads(Path("run/ablation.json").read_text())["rows"]
    assert [row["stochastic_steps"] for row in rows] == [0, 40]
    for row in rows:
        assert {"precision", "recall", "f1"} <= row.keys()
        assert row["score"] == row["f1"]
    assert rows[0]["recall"] <= rows[0]["precision"]  # ten times the same answer
    assert rows[1]["recall"] > rows[0]["recall"]
    main(["report", "run"])
    page = Path("run/report.html").read_text()
    assert "1: ambiguous set" in page
    assert "5: set with one answer" in page
    rows = re.findall(r"<tr class='(missed|)'><th scope='row'>(.*?)</th>(.*?)<td>([^<]*)</td></tr>", page)
    examples = json.loads(Path("run/samples.json").read_text())["examples"]
    for example in examples:
        shown = {tuple(sample["set"][i][0] > 0 for i in range(5)) for sample in example["samples"]}
        known = {tuple(rows[i][0] > 0 for i in range(5)) for rows in example["truth"]}
        assert len(example["reasons"]) == len(example["truth"])
        assert all(reason.count(",") >= 1 for reason in example["reasons"])  # two attributes or more
        example["count"], example["missed"] = len(shown), len(known - shown)
    assert sum(kind == "missed" for kind, *_ in rows) == sum(example["missed"] for example in examples)
    assert sum(kind == "" for kind, *_ in rows) == sum(example["count"] for example in examples)
    for kind, count, cells, verdict in rows:
        assert cells.count("class='item ") == 5
        assert cells.count("class='item out'") == cells.count("does not belong'") <= (2 if kind else 5)
        assert (count == "missed") == (kind == "missed")
        assert verdict == "no valid answer" or "share " in verdict
    capsys.readouterr()


def test_the_report_of_a_deterministic_method_shows_its_one_answer(capsys: pytest.CaptureFixture[str]) -> None:
    train("celeba-tagger")
    main(["report", "run"])
    page = Path("run/report.html").read_text()
    assert page.count("<th scope='row'>1 of 1</th>") == 5
    assert "<th scope='row'>missed</th>" in page
    capsys.readouterr()


def test_results_of_simulated_items_have_their_name(capsys: pytest.CaptureFixture[str]) -> None:
    train("celeba-tagger")
    main(["evaluate", "run", "--record", "results", "--variant", "small"])
    (path,) = Path("results").glob("*.json")
    assert path.name == "celeba-tagger-simulated-small-seed0.json"
    capsys.readouterr()
