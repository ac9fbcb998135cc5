"""Own data beside baselines, on the command line: tables, a sentence, JSON."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from desp.cli import common
from desp.runs import judge

Desp = Callable[..., Any]
Write = Callable[..., Path]

SHORT = [
    *("--training.steps", "4"),
    *("--training.validate-every", "2"),
    *("--training.batch-size", "8"),
    *("--method.energy.hidden", "8"),
    *("--method.sampler.steps", "3"),
    *("--device", "cpu"),
]
NAMED = [
    *("--task.description.categories", "1", "3"),
    *("--task.description.feature-columns", "amount", "kind=apple", "kind=pear"),
    *("--task.description.feature-units", "kg", "", ""),
    *("--task.description.input-columns", "width", "depth"),
]


@pytest.fixture
def trained(desp: Desp, write: Write, undrawn: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run that has learned nothing, on amounts of two kinds."""
    monkeypatch.setattr(judge, "MLP_STEPS", 5)
    numbers = random.Random(3)
    lines = []
    for _ in range(80):
        x = [numbers.random(), numbers.random()]
        kinds = [[1, 0], [0, 1]]
        found = [[100 * x[0] + 10 * place, *kinds[place]] for place in range(numbers.randint(1, 2))]
        lines.append({"input": x, "set": found})
    finished = desp("train", "custom", "--data", write("data.jsonl", lines), "--run", "run", *SHORT, *NAMED)
    assert finished.status == 0
    return finished


def test_training_ends_with_a_verdict(trained: Any) -> None:
    assert "verdict: " in trained.out
    assert "than nearest neighbours (energy score" in trained.message
    title = "Compared on 8 held-out examples, 10 predictions for each: lower is better, of sizes right higher"
    assert title in trained.message
    for word in ("random training sets", "amount (kg)", "kind"):
        assert word in trained.message
    for told in ("looking for nearest neighbours", "scoring random training sets"):
        assert told in trained.err


def test_scores_of_own_data_fit_a_narrow_terminal(
    trained: Any, desp: Desp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No column without a number, no count that means nothing here, a line for each metric."""
    monkeypatch.setattr(common, "console", lambda: Console(width=80))
    lines = desp("evaluate", "run").out.splitlines()
    scores = lines[: next(place for place, line in enumerate(lines) if line.startswith("Compared on"))]
    assert max(map(len, scores)) <= 80
    assert [cell.strip() for cell in scores[2].strip("┃").split("┃")] == ["metric", "better", "returned"]
    assert sum(line.startswith("│") for line in scores) == 4
    for text in ("paper", "raw", "real data", "unknown", "sets_per_collection", "validation_examples"):
        assert not any(text in line for line in scores)
    assert "protocol quick: test_examples all" in scores  # too few held-out examples for calibration
    assert any(line.startswith("steps of training: 4") for line in scores)


def test_json_has_baselines_and_the_verdict(trained: Any, desp: Desp) -> None:
    rows = json.loads(desp("evaluate", "run", "--json").out)
    own, *others = [row for row in rows if row["metric"] == "energy_score"]
    assert own["verdict"].startswith("Clearly worse than nearest neighbours (energy score ")
    assert own["error"] > 0
    assert {row["system"] for row in others} >= {"nearest neighbours", "random training sets"}
    for row in others:
        assert row["difference"] == pytest.approx(own["value"] - row["value"], abs=1e-6)
        assert row["difference_error"] > 0
    assert others[0]["verdict"] == "clearly worse"
    shown = desp("evaluate", "run")
    assert "energy_score" not in shown.out  # it has a table of its own


def test_a_recorded_result_shows_its_comparison_in_tables(trained: Any, desp: Desp) -> None:
    assert desp("evaluate", "run", "--record", "kept", "--variant", "short").status == 0
    (path,) = Path("kept").glob("*.json")
    result = json.loads(path.read_text())
    assert result["comparison"]["systems"]["knn"]["verdict"] == "clearly worse"
    shown = desp("tables", "--results", "kept")
    assert "Own data beside baselines" in shown.message
    assert "custom data short" in shown.message
    rows = json.loads(desp("tables", "--results", "kept", "--json").out)
    assert any(row.get("baseline") == "nearest neighbours" for row in rows)


def test_the_best_median_and_worst_examples_are_kept(trained: Any) -> None:
    kept = json.loads(Path("run/evaluation.json").read_text())
    groups = [item["group"] for item in kept["examples"]]
    assert groups == ["best", "best", "median", "median", "worst", "worst"]
    scores = [item["energy_score"] for item in kept["examples"]]
    assert scores == sorted(scores)
    assert [item["name"] for item in kept["axes"]["features"]] == ["amount", "kind"]
    assert kept["axes"]["input_names"] == ["width", "depth"]
    page = Path("run/report.html").read_text()
    assert "Compared with baselines" in page
    assert "amount (kg)" in page


def test_one_prediction_is_not_compared(trained: Any, desp: Desp) -> None:
    finished = desp("evaluate", "run", "--samples", 1)
    assert "Use --samples 2 or more" in finished.message
    rows = json.loads(desp("evaluate", "run", "--samples", 1, "--json").out)
    assert "energy_score" not in {row["metric"] for row in rows}
