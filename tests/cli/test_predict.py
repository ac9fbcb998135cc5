"""Predicting when something is missing, fails, or is written in another way."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from desp.errors import DataError

Desp = Callable[..., Any]
Write = Callable[..., Path]

SHORT = [
    *("--training.steps", "6", "--training.batch-size", "8", "--method.energy.hidden", "8"),
    *("--method.sampler.steps", "3", "--device", "cpu"),
]


def test_pictures_need_no_training_data(desp: Desp, vectors: Path) -> None:
    trained = desp("train", "custom", "--data", vectors, "--run", "run", *SHORT)
    assert trained.status == 0, trained.err
    vectors.rename("new.jsonl")
    finished = desp("predict", "run", "--input", "new.jsonl", "--output", "out.jsonl", "--draw", "pictures")
    assert finished.status == 0, finished.err
    assert len(list(Path("pictures").iterdir())) == len(Path("out.jsonl").read_text().splitlines()) == 12


def test_a_picture_that_fails_loses_no_predictions(
    desp: Desp, polygons: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise DataError("no picture")

    monkeypatch.setattr("desp.report.predictions.draw_prediction", fails)
    arguments = ("--input", write("in.jsonl", [{"input": 4}]), "--output", "out.jsonl", "--draw", "pictures")
    finished = desp("predict", polygons, *arguments)
    assert finished.status == 2
    assert "no picture" in finished.message
    assert json.loads(Path("out.jsonl").read_text())["input"] == 4
