"""The command that chooses a sampler."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from desp.cli.tune import _changes

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
