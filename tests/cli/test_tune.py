"""The command that chooses a sampler."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from desp.cli.tune import _changes, _gain_words
from desp.runs import tune as tuning
from desp.tasks import EvaluationSetup, base

Desp = Callable[..., Any]


def test_tune_shows_what_it_tried_and_chose(desp: Desp, polygons: Path) -> None:
    finished = desp("tune", polygons)
    assert finished.status == 0, finished.err
    for text in ("samplers on 50 examples, best first", "as the run was begun", "stochastic_steps", "chosen: "):
        assert text in finished.out
    assert "trying samplers; on a CPU this may take minutes ..." in finished.err
    assert "\nsamplers tried: 2, best score " in finished.err
    assert (polygons / "tuning.json").exists()


def test_no_value_is_shown_as_a_flag_takes_it() -> None:
    before = {"kind": "labels", "min_probability": 0.03}
    assert _changes(before, {"kind": "labels", "min_probability": None}) == "min_probability None"
    assert _changes(before, before) == ""


def longer_is_better(_: base.Task, setup: EvaluationSetup, __: object) -> float:
    return -float(getattr(setup.sampler, "steps"))  # noqa: B009 - samplers of other kinds have none


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_what_was_of_the_old_sampler_goes_and_is_named(
    desp: Desp, polygons: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    for command in (["evaluate", polygons], ["ablate", polygons, "--ratios", 0], ["report", polygons]):
        assert desp(*command).status == 0
    monkeypatch.setattr(base.Task, "validation_score", longer_is_better)
    finished = desp("tune", polygons, *flags)
    assert finished.status == 0, finished.err
    gone = ("evaluation.json", "ablation.json", "ablation.png", "samples.json", "report.html")
    again = "".join(f"\n  desp {name} {shlex.quote(str(polygons))}" for name in ("evaluate", "ablate", "report"))
    told = f"sampler before: {', '.join(gone)}. To make them again:{again}\n"
    assert (finished.err if flags else finished.out).endswith(told)
    assert not any((polygons / name).exists() for name in gone)
    assert "removed" not in desp("tune", polygons).message  # it is the same sampler again, and nothing is there
    assert desp("evaluate", polygons).status == 0
    assert "removed, as they were of the sampler before: evaluation.json" in desp("tune", polygons, "--reset").out


def test_scores_of_a_sampler_that_stays_stay(desp: Desp, polygons: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert desp("evaluate", polygons).status == 0
    monkeypatch.setattr(base.Task, "validation_score", lambda *_: 1.0)
    finished = desp("tune", polygons)
    assert "removed" not in finished.message
    assert (polygons / "evaluation.json").exists()
    assert (polygons / "samples.json").exists()


def test_a_method_without_sampler_is_refused_before_anything_takes_long(
    desp: Desp, polygons: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "_CHANGES", {})
    refused = desp("tune", polygons)
    assert refused.status == 2
    assert refused.err.startswith("error: The method 'contrastive' has no sampler that can be tuned")


def test_the_gain_is_told() -> None:
    assert _gain_words({}, changed=True) == ""
    found = {"gain": 0.0005, "gain_se": 0.003}
    assert _gain_words(found, changed=True) == "; better by 0.0005, standard error 0.003"
    kept = "; the best is better by 0.0005, not more than the standard error of the difference, 0.003"
    assert _gain_words(found, changed=False) == kept
    single = "; the best is better by 0.0005 on one example, which does not tell the noise"
    assert _gain_words({"gain": 0.0005, "gain_se": None}, changed=False) == single


def test_tune_prints_json(desp: Desp, polygons: Path) -> None:
    finished = desp("tune", polygons, "--json")
    assert finished.status == 0, finished.err
    result = json.loads(finished.out)
    assert result["sampler"] in [candidate["sampler"] for candidate in result["candidates"]]


def test_tune_goes_back(desp: Desp, polygons: Path) -> None:
    assert desp("tune", polygons).status == 0
    finished = desp("tune", polygons, "--reset")
    assert finished.status == 0, finished.err
    assert "the sampler is that of the beginning again: kind langevin, steps 3, stochastic_steps" in finished.out
    assert not (polygons / "tuning.json").exists()
