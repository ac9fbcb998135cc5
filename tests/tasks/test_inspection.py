"""What `desp data inspect` tells of a file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from desp.cli.main import main
from desp.errors import DataError
from desp.settings import DataDescription, FilesSettings
from desp.tasks.inspection import inspect_file, one_hot_columns


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Sixty sets of none to two elements, each input twice, with one value that is far from all others."""
    path = tmp_path / "data.jsonl"
    lines = []
    for index in range(60):
        far = 1e9 if index == 4 else 0.01 * index
        elements = [[0.02 * index, far, 1, 0, 7], [0.5, 0.4, 0, 1, 7]][: index % 3]
        lines.append(json.dumps({"input": [index // 2, 1], "set": elements}))
    path.write_text("\n".join(lines))
    return path


def test_what_would_be_used_is_told(data: Path) -> None:
    facts = inspect_file(FilesSettings(path=str(data)))
    assert (facts["examples"], facts["sets"], facts["empty_sets"], facts["different_inputs"]) == (60, 60, 20, 30)
    assert facts["input"] == {"kind": "vector", "shape": [2]}
    assert facts["set_sizes"] == {"least": 0, "most": 2, "mean": 1.0}
    assert facts["features"][1:3] == [{"low": pytest.approx(0.01), "high": 1e9}, {"low": 0.0, "high": 1.0}]
    assert facts["split"] == {"test": 6, "validation": 6, "training": 48}
    far, one_hot, constant, constant_input = facts["findings"]
    assert far.startswith(f"{data}, line 5: column 1 of an element is 1e+09")
    assert one_hot.endswith("--task.description.categories 2 4")
    assert constant == "Column 4 is 7 in all elements."
    assert constant_input == "Column 1 of the input is 1 in all examples."


def test_categories_that_are_named_are_no_finding(data: Path) -> None:
    facts = inspect_file(FilesSettings(path=str(data), description=DataDescription(categories=((2, 4),))))
    assert facts["categories"] == [[2, 4]]
    assert len(facts["findings"]) == 3


def test_answers_and_arrays(tmp_path: Path) -> None:
    lines = [json.dumps({"input": index, "answers": [[[1.0 * index]], [[2.0], [3.0]]]}) for index in range(12)]
    (tmp_path / "data.jsonl").write_text("\n".join(lines))
    facts = inspect_file(FilesSettings(path=str(tmp_path / "data.jsonl")))
    assert (facts["examples"], facts["sets"], facts["findings"]) == (12, 24, [])
    np.savez(tmp_path / "data.npz", inputs=np.zeros((20, 3, 4, 4), np.uint8), sets=np.random.rand(20, 2, 3))
    facts = inspect_file(FilesSettings(path=str(tmp_path / "data.npz")))
    assert facts["input"] == {"kind": "image", "shape": [3, 4, 4]}
    assert facts["different_inputs"] == 1
    assert facts["findings"] == ["All 20 inputs are equal, so they tell nothing about the sets."]


def findings(path: Path, inputs: list[Any], **more: Any) -> list[str]:
    records = [{"input": x, "set": [[0.1 * index]], **more} for index, x in enumerate(inputs)]
    path.write_text("\n".join(map(json.dumps, records)))
    found: list[str] = inspect_file(FilesSettings(path=str(path)))["findings"]
    return found


def test_what_is_the_same_in_all_inputs(tmp_path: Path) -> None:
    path, numbers = tmp_path / "data.jsonl", range(12)
    equal = "All 12 {} are equal, so"
    assert findings(path, [[1, 2]] * 12) == [f"{equal.format('inputs')} they tell nothing about the sets."]
    assert findings(path, [[1, 2]] * 12, set=[[2.0], [3.0]])[0].startswith(equal.format("examples"))
    assert equal.format("inputs") not in " ".join(findings(path, [[1, 2]] * 12, set=[[2.0], [3.0]]))
    named = [{"size": index, "floor": 0.1} for index in numbers]
    assert findings(path, named) == ["Column 1 (floor) of the input is 0.1 in all examples."]
    sets = [[[index, 3.5]] * (1 + index % 2) for index in numbers]
    assert findings(path, sets) == ["Column 1 of input elements is 3.5 in all examples."]
    assert findings(path, [[index, *[0] * 7] for index in numbers]) == [
        "7 columns of the input are the same in all examples: 1, 2, 3, 4, 5, ..."
    ]
    assert findings(path, [[index, -index] for index in numbers]) == []


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([[0.5, 1, 0], [0.1, 0, 1]], ((1, 3),)),
        ([[1, 0, 0.5, 0, 1], [0, 1, 0.5, 0, 1]], ((0, 2), (3, 5))),
        ([[1, 1], [0, 1]], ()),
        ([[1.0], [0.0]], ()),
        ([[0.3, 0.7]], ()),
    ],
)
def test_one_hot_columns(rows: Any, found: Any) -> None:
    assert one_hot_columns([torch.tensor(rows)]) == found
    assert one_hot_columns([torch.tensor([row]) for row in rows]) == found


def test_the_command(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["data", "inspect", str(data)])
    told = capsys.readouterr().out
    for line in (
        "60 examples, 60 sets",
        "input: vector, shape (2,)",
        "sets: 0 to 2 elements, 1.0 on average",
        "inputs: 30 different, so 30 examples repeat one",
        "split: 48 to train on, 6 for validation, 6 for tests",
        "looks wrong: 4",
    ):
        assert line in told
    main(["data", "inspect", str(data), "--json", "--task.description.categories", "2", "4"])
    assert json.loads(capsys.readouterr().out)["categories"] == [[2, 4]]
    main(["data", "inspect", str(data), "--task.description.categories", "2", "4"])
    assert "column 2: 0 to 1, a category" in capsys.readouterr().out


def test_a_file_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["data", "inspect", str(tmp_path / "none.jsonl")])
    assert "There is no data file" in capsys.readouterr().err


def test_images_with_channels_last(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", inputs=np.zeros((20, 8, 9, 3), np.uint8), sets=np.random.rand(20, 2, 3))
    with pytest.raises(DataError, match="looks like"):
        inspect_file(FilesSettings(path=str(tmp_path / "data.npz")))


def test_inputs_of_two_dimensions_may_not_be_vectors(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", inputs=np.random.rand(20, 8, 9), sets=np.random.rand(20, 2, 3))
    settings = FilesSettings(path=str(tmp_path / "data.npz"))
    (finding,) = inspect_file(settings)["findings"]
    assert "inputs of shape (8, 9) are read as vectors" in finding
    described = FilesSettings(path=settings.path, description=DataDescription(input_kind="vector"))
    assert inspect_file(described)["findings"] == []


@pytest.mark.parametrize("dtype", [">f8", ">f4", np.longdouble])
def test_floats_of_other_machines_are_read(tmp_path: Path, dtype: Any) -> None:
    np.savez(tmp_path / "data.npz", inputs=np.random.rand(20, 2).astype(dtype), sets=np.ones((20, 2, 3), dtype))
    assert inspect_file(FilesSettings(path=str(tmp_path / "data.npz")))["examples"] == 20
