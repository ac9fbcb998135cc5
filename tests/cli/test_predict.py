"""Predicting when something is missing, fails, or is written in another way."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from desp.errors import DataError

Desp = Callable[..., Any]
Write = Callable[..., Path]

SHORT = [
    *("--training.steps", "6", "--training.batch-size", "8", "--method.energy.hidden", "8"),
    *("--method.sampler.steps", "3", "--device", "cpu"),
]
WALKERS = [
    *("--task.source", "simulated", "--task.drawn", "24", "--training.steps", "2", "--training.batch-size", "4"),
    *("--training.validate-every", "0", "--method.network.hidden", "8", "--method.network.layers", "1"),
    *("--method.encoder.hidden", "8", "--method.encoder.out", "8", "--device", "cpu"),
]


def lines_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


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


def test_arrays_hold_inputs_as_the_task_reads_them(desp: Desp, polygons: Path) -> None:
    np.savez("corners.npz", inputs=np.array([4, 5]))
    Path("corners.jsonl").write_text('{"input": 4}\n{"input": 5}\n')
    for name in ("corners.npz", "corners.jsonl"):
        finished = desp("predict", polygons, "--input", name, "--output", f"{name}.out")
        assert finished.status == 0, finished.err
    of_arrays, of_lines = (lines_of(f"corners.{ending}.out") for ending in ("npz", "jsonl"))
    assert [line["input"] for line in of_arrays] == [{"row": 0}, {"row": 1}]
    assert [line["samples"] for line in of_arrays] == [line["samples"] for line in of_lines]

    np.savez("codes.npz", inputs=np.eye(3))
    refused = desp("predict", polygons, "--input", "codes.npz", "--output", "out.jsonl")
    assert refused.status == 2
    assert "codes.npz, row 0: expected one of" in refused.message


def test_arrays_of_paths(desp: Desp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desp.data.simulated_walkers.FRAMES", 160)
    trained = desp("train", "pedestrians-eth", "--run", "run", *WALKERS)
    assert trained.status == 0, trained.err
    walks = np.zeros((2, 3, 8, 2))
    walks[..., 0] = 1000 + 0.3 * np.arange(8)
    walks[..., 1] = np.arange(3).reshape(3, 1)
    sizes = np.array([2, 3])
    np.savez("walks.npz", inputs=walks, input_sizes=sizes)
    pairs = zip(walks, sizes, strict=True)
    lines = [json.dumps({"input": walk[:size].tolist()}) for walk, size in pairs]
    Path("walks.jsonl").write_text("\n".join(lines))
    for name in ("walks.npz", "walks.jsonl"):
        finished = desp("predict", "run", "--input", name, "--output", f"{name}.out")
        assert finished.status == 0, finished.err
    of_arrays, of_lines = ([line["samples"] for line in lines_of(f"walks.{end}.out")] for end in ("npz", "jsonl"))
    assert of_arrays == of_lines

    np.savez("features.npz", inputs=np.zeros((2, 3, 19)))
    refused = desp("predict", "run", "--input", "features.npz", "--output", "out.jsonl")
    assert refused.status == 2
    assert "features.npz, row 0: expected 8 positions [x, y] of each person" in refused.message
