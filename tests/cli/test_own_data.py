"""``desp bench own-data``, end to end on one small problem."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from desp.benchmarks.own_data import problems, run

Desp = Callable[..., Any]
TINY = (
    *("--training.steps", "6", "--training.batch-size", "8", "--method.energy.hidden", "8"),
    *("--method.sampler.steps", "3", "--device", "cpu", "--variant", "tiny"),
)
ASKED = ("bench", "own-data", "--problems", "few", "stars", "--samples", "3", *TINY)


@pytest.fixture(autouse=True)
def _few_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few examples and tests."""
    few = tuple(replace(item, count=40, tests=6) for item in problems.PROBLEMS)
    monkeypatch.setattr(problems, "PROBLEMS", few)


def test_problems_are_run_shown_and_recorded_once(desp: Desp, monkeypatch: pytest.MonkeyPatch) -> None:
    finished = desp(*ASKED, "--record", "kept")
    assert finished.status == 0, finished.err
    for word in ("own data", "own data, held out", "few", "stars", "10-NN", "verdict"):
        assert word in finished.out
    assert "[1/2] few: desp" in finished.err
    record = json.loads(Path("kept/few-tiny.json").read_text())
    assert record["problem"] == "few"
    assert (record["held_out"], record["seed"], record["samples"]) == (False, 0, 3)
    assert record["examples"] == {"training": 32, "validation": 4, "tests": 6}
    assert record["verdict"] in ("clearly better", "tie", "clearly worse")
    assert set(record["systems"]) == {"desp", "knn", "random", "mlp", "oracle"}
    assert record["commit"] == "0" * 40
    assert {"device", "versions", "command", "wall_seconds", "settings", "code"} <= record.keys()
    ours = record["systems"]["desp"]
    assert (ours["steps"], ours["wanted_steps"], len(ours["energy_scores"])) == (6, 6, 6)
    assert ours["energy_score"] == pytest.approx(sum(ours["energy_scores"]) / 6, abs=1e-4)
    assert any("training.steps" in line for line in record["changed_settings"])

    monkeypatch.setattr(run, "run_problem", lambda *_: pytest.fail("it is recorded"))
    again = desp(*ASKED, "--record", "kept", "--json")
    assert again.status == 0, again.err
    assert "few: recorded already" in again.err
    assert json.loads(again.out)[0] == record


@pytest.mark.parametrize(
    "change", [("--seed", "1"), ("--minutes", "2"), ("--again",), ("--method.sampler.steps", "4")]
)
def test_what_is_recorded_otherwise_is_run_again(
    desp: Desp, monkeypatch: pytest.MonkeyPatch, change: tuple[str, ...]
) -> None:
    made: list[str] = []

    def made_up(problem: Any, options: Any, tell: Any) -> dict[str, Any]:
        made.append(problem.name)
        return {"problem": problem.name, **run._conditions(options)}

    monkeypatch.setattr(run, "run_problem", made_up)
    record = (*ASKED, "--record", "kept", "--json")
    assert desp(*record).status == 0
    assert desp(*record).status == 0
    assert made == ["few", "stars"]
    assert desp(*record, *change).status == 0
    assert len(made) == 4


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (("--problems", "fewer"), "There is no problem 'fewer'. There are: events"),
        (("--minutes", "0"), "--minutes must be above 0"),
        (("--samples", "1"), "--samples must be at least 2"),
        (("--training.steps", "5"), "None here; training.steps: None by default, 5 here). Give them a name"),
        (("--variant", "same"), "These settings are the defaults. Leave --variant out."),
        (("--task.held-out", "0.2"), "Leave --task.* out"),
        (("--training.minutes", "2"), "Minutes of training are given by --minutes. Leave --training.minutes out."),
        (("--again",), "Add --record DIR"),
    ],
)
def test_mistakes_are_named(desp: Desp, wrong: tuple[str, ...], told: str) -> None:
    finished = desp("bench", "own-data", *wrong)
    assert finished.status == 2
    assert told in finished.message


def test_steps_shrink_to_the_time_there_is(desp: Desp) -> None:
    finished = desp(*ASKED[:3], "few", *ASKED[5:], "--training.steps", "100000", "--minutes", "0.005", "--json")
    assert finished.status == 0, finished.err
    (record,) = json.loads(finished.out)
    ours = record["systems"]["desp"]
    assert 0 < ours["steps"] < ours["wanted_steps"] == 100_000
