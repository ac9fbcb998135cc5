"""Tables from file to report: train, inspect, evaluate and predict, with every format alike."""

import json
import random
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from table_files import write_csv, write_long, write_parquet, write_saved_dataset

Desp = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("undrawn")
TINY = [
    *("--training.steps", "6", "--training.batch-size", "8", "--method.energy.hidden", "8"),
    *("--method.sampler.steps", "3", "--device", "cpu"),
]


def rooms(count: int = 14) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rooms with a size and a style, and the furniture in them."""
    numbers = random.Random(2)
    inputs = [
        {"room": f"r{place}", "size": 10 + place, "style": numbers.choice(("old", "new"))}
        for place in range(count)
    ]
    elements = [
        {"room": room["room"], "x": numbers.random(), "y": 5 * numbers.random(), "kind": numbers.choice("cst")}
        for room in inputs
        for _ in range(numbers.randint(0, 3))
    ]
    return inputs, elements


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_tables_of_inputs_and_elements(
    desp: Desp, tmp_path: Path, format_: str, caplog: pytest.LogCaptureFixture
) -> None:
    inputs, elements = rooms()
    folder = write_long(tmp_path / "rooms", format_, inputs, elements)
    told = desp("data", "inspect", folder, "--task.id-column", "room")
    assert told.status == 0, told.err
    assert "columns of the input: size, style=new, style=old" in told.out
    assert "column 2 (kind=c): 0 to 1, a category" in told.out
    refused = desp("data", "inspect", folder, "--task.path", "other.jsonl")
    assert refused.status == 2
    assert "--task.path has no place here" in refused.message
    facts = json.loads(desp("data", "inspect", folder, "--task.id-column", "room", "--json").out)
    assert facts["columns"] == {
        "input": ["size", "style=new", "style=old"],
        "features": ["x", "y", "kind=c", "kind=s", "kind=t"],
    }
    assert facts["categories"] == [[2, 5]]
    trained = desp("train", "custom", "--data", folder, "--run", "run", "--task.id-column", "room", *TINY)
    assert trained.status == 0, trained.err
    assert desp("evaluate", "run").status == 0
    assert desp("report", "run").status == 0
    shown = json.loads(Path("run/samples.json").read_text())
    assert shown["axes"]["names"] == ["x", "y", "kind=c", "kind=s", "kind=t"]

    new = [{"style": "old", "size": 12, "room": "a"}, {"style": "new", "size": 1e6, "room": "b"}]
    path = (write_csv if format_ == "csv" else write_parquet)(tmp_path / f"new.{format_}", new)
    done = desp("predict", "run", "--input", path, "--output", "out.jsonl", "--samples", 2)
    assert done.status == 0, done.err
    where = "line 3" if format_ == "csv" else "row 1"
    assert f"They are: {path}, {where}" in caplog.text
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == ["a", "b"]
    assert lines[0]["input"] == {"size": 12, "style": "old"}
    assert all(sum(element[2:]) == 1 for line in lines for item in line["samples"] for element in item["set"])

    # All inputs that it was trained on.
    assert desp("predict", "run", "--input", folder, "--output", "all.jsonl").status == 0
    assert len(Path("all.jsonl").read_text().splitlines()) == len(inputs)

    # The same inputs as JSON lines and as numbers.
    written = [{"input": line["input"]} for line in lines]
    Path("new.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*written, {"input": [12, 0, 1]}]))
    assert desp("predict", "run", "--input", "new.jsonl", "--output", "again.jsonl", "--samples", 2).status == 0
    again = [json.loads(line) for line in Path("again.jsonl").read_text().splitlines()]
    assert [line["input"] for line in again] == [line["input"] for line in lines] + [[12, 0, 1]]

    write_csv(tmp_path / "bad.csv", [{"style": "odd", "size": 1}])
    refused = desp("predict", "run", "--input", "bad.csv", "--output", "out.jsonl")
    assert refused.status == 2
    assert "bad.csv, line 2: the column 'style' is 'odd', but its known values are: new, old" in refused.message


def test_a_saved_dataset(desp: Desp, tmp_path: Path) -> None:
    numbers = random.Random(1)
    records = [
        {"embedding": [numbers.random()] * 3, "points": [[numbers.random()] for _ in range(2)]} for _ in range(12)
    ]
    folder = write_saved_dataset(tmp_path / "saved", records)
    arguments = ("--data", folder, "--task.set-column", "points", "--run", "run")
    trained = desp("train", "custom", *arguments, *TINY)
    assert trained.status == 0, trained.err
    write_parquet(tmp_path / "new.parquet", [{"embedding": [0.5, 0.5, 0.5]}])
    assert desp("predict", "run", "--input", "new.parquet", "--output", "out.jsonl").status == 0
    np.savez("new.npz", inputs=np.full((2, 3), 0.5))
    assert desp("predict", "run", "--input", "new.npz", "--output", "arrays.jsonl").status == 0
    lines = [json.loads(line) for line in Path("arrays.jsonl").read_text().splitlines()]
    assert [line["input"] for line in lines] == [{"row": 0}, {"row": 1}]

    # Scores are of the same data only.
    write_saved_dataset(tmp_path / "other", records[:11])
    (folder / "data-00000-of-00002.arrow").write_bytes((tmp_path / "other/data-00000-of-00002.arrow").read_bytes())
    refused = desp("evaluate", "run")
    assert refused.status == 2
    assert "has changed since" in refused.message


def test_a_folder_without_inputs(desp: Desp, polygons: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused = desp("predict", polygons, "--input", "empty", "--output", "out.jsonl")
    assert refused.status == 2
    assert "empty is a folder, but has none of: inputs.npy and sets.npy;" in refused.message


def test_inputs_without_names_cannot_be_found_by_name(desp: Desp, polygons: Path, tmp_path: Path) -> None:
    write_csv(tmp_path / "corners.csv", [{"corners": 5}])
    refused = desp("predict", polygons, "--input", "corners.csv", "--output", "out.jsonl")
    assert refused.status == 2
    assert "inputs of this run have no names of columns" in refused.message
    assert "Write a column 'input', or JSON lines." in refused.message
    write_csv(tmp_path / "input.csv", [{"input": 5, "id": "007"}])
    assert desp("predict", polygons, "--input", "input.csv", "--output", "out.jsonl").status == 0
    line = json.loads(Path("out.jsonl").read_text())
    assert (line["id"], line["input"]) == ("007", 5)


@pytest.mark.parametrize(
    ("name", "told"), [(datetime(2020, 1, 2), "2020-01-02 00:00:00"), (b"x", "b'x'"), (float("nan"), None)]
)
def test_any_id_is_told(desp: Desp, polygons: Path, tmp_path: Path, name: Any, told: str | None) -> None:
    write_parquet(tmp_path / "input.parquet", [{"input": 5, "id": name}])
    assert desp("predict", polygons, "--input", "input.parquet", "--output", "out.jsonl").status == 0
    assert json.loads(Path("out.jsonl").read_text()).get("id") == told


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"wrong": np.zeros((2, 1))}, "the array 'inputs' is missing (found: wrong)"),
        ({"inputs": np.array(["a"])}, "'inputs' must hold real numbers"),
        ({"inputs": np.array([[1.0], [np.nan]])}, "in row 1 there is nan"),
        ({"inputs": np.zeros((0, 1))}, "holds no inputs"),
    ],
)
def test_arrays_that_cannot_be_predicted_for(
    desp: Desp, polygons: Path, content: dict[str, Any], message: str
) -> None:
    np.savez("new.npz", **content)
    refused = desp("predict", polygons, "--input", "new.npz", "--output", "out.jsonl")
    assert refused.status == 2
    assert message in refused.message


def test_no_input_sets(desp: Desp, tmp_path: Path) -> None:
    from desp import DataDescription, SetPredictor, TrainingSettings

    x = np.ones((4, 3, 2))  # presence is last
    described = DataDescription(input_kind="set")
    short = TrainingSettings(steps=1, batch_size=4)
    sets = [[[0.0]], [[1.0]], [[0.5]], [[0.25]]]
    SetPredictor(device="cpu").fit(x, sets, short, description=described, folder=tmp_path / "run")
    np.savez("new.npz", inputs=np.zeros((0, 3, 1)), input_sizes=np.zeros(0, dtype=int))
    refused = desp("predict", "run", "--input", "new.npz", "--output", "out.jsonl")
    assert refused.status == 2
    assert "holds no inputs" in refused.message


def test_a_program_s_run_is_used_by_commands(desp: Desp, tmp_path: Path) -> None:
    from desp import SetPredictor, TrainingSettings

    numbers = np.random.default_rng(0)
    x, sets = numbers.random((20, 2)), [numbers.random((2, 2)) for _ in range(20)]
    SetPredictor(device="cpu").fit(
        x,
        sets,
        TrainingSettings(steps=4, batch_size=4),
        validation_data=(x[:8], sets[:8]),
        folder=tmp_path / "run",
    )
    for arguments in (("evaluate", "run"), ("report", "run"), ("tune", "run", "--protocol", "quick")):
        done = desp(*arguments)
        assert done.status == 0, done.err
    refused = desp("train", "custom", "--run", "run", "--resume")
    assert refused.status == 2
    assert "was fitted by a program" in refused.message
    weights = tmp_path / "run" / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    refused = desp("evaluate", "run")
    assert "run was fitted by a program" in refused.message
    assert "desp train" not in refused.message
    (tmp_path / "run" / "model").rename(tmp_path / "model")  # as if it was interrupted
    refused = desp("evaluate", "run")
    assert refused.status == 2
    assert "run has no trained model yet. run was fitted by a program, which has the training" in refused.message
    assert "desp train" not in refused.message
