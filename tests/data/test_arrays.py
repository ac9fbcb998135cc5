"""Arrays as data: npz files, and folders of npy files that are read row by row."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from desp.data.arrays import _ArrayRows
from desp.data.files import read_data_file
from desp.errors import DataError
from desp.settings import DataDescription

SETS = np.arange(12, dtype=np.float64).reshape(2, 3, 2)
ALIGNED = DataDescription(aligned=True)
WriteFolder = Callable[..., Path]


@pytest.fixture
def write_folder(tmp_path: Path) -> WriteFolder:
    def write(**arrays: Any) -> Path:
        for name, array in arrays.items():
            np.save(tmp_path / f"{name}.npy", array)
        return tmp_path

    return write


def as_lists(item: tuple[Tensor, tuple[Tensor, ...]]) -> tuple[Any, Any]:
    return item[0].tolist(), [each.tolist() for each in item[1]]


def test_a_folder_holds_what_an_npz_file_holds(write_folder: WriteFolder, tmp_path: Path) -> None:
    arrays = {"inputs": np.array([[1, 2], [3, 4]]), "sets": SETS, "sizes": np.array([2, 3])}
    np.savez(tmp_path / "data.npz", **arrays)
    of_folder, of_file = read_data_file(write_folder(**arrays)), read_data_file(tmp_path / "data.npz")
    assert list(map(as_lists, of_folder.examples)) == list(map(as_lists, of_file.examples))
    assert as_lists(of_folder.examples[0]) == ([1, 2], [[[0, 1], [2, 3]]])


def test_a_folder_is_never_copied_as_a_whole(write_folder: WriteFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read when they are asked for, and parts hold no data."""
    images = np.zeros((40, 3, 4, 4), dtype=np.uint8)
    images[7] = 9
    data = read_data_file(write_folder(inputs=images, sets=np.ones((40, 2, 1))))
    read: list[int] = []
    once = _ArrayRows.input

    def noted(self: _ArrayRows, index: int) -> Tensor:
        assert isinstance(self.inputs.values, np.memmap)
        read.append(index)
        return once(self, index)

    monkeypatch.setattr(_ArrayRows, "input", noted)
    part = data.part([3, 7])
    assert len(read) < 10  # type checks in tests look at some
    x, _ = part[1]
    assert read[-1] == 7
    assert (x.dtype, int(x.max())) == (torch.uint8, 9)


def test_input_sets_have_their_own_sizes(write_folder: WriteFolder) -> None:
    arrays = {"inputs": SETS, "sets": SETS[..., :1], "sizes": np.array([1, 3]), "input_sizes": np.array([1, 3])}
    data = read_data_file(write_folder(**arrays), ALIGNED)
    assert (data.input_kind, data[0][0].shape) == ("set", (3, 3))
    assert data[0][0].tolist() == [[0, 1, 1], [0, 0, 0], [0, 0, 0]]
    masks = {"input_presence": np.array([[1, 0, 0], [1, 1, 1]]), "presence": np.array([[1, 0, 0], [1, 1, 1]])}
    again = read_data_file(write_folder(**arrays, **masks), ALIGNED)
    assert torch.equal(again[0][0], data[0][0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"input_sizes": np.array([2, 3])},
            "set 0: its elements must be in the same rows as the elements of its input",
        ),
        ({"input_sizes": np.array([2])}, r"'input_sizes' shape \(2,\), got \(1,\)"),
        ({"input_sizes": np.array([2, 4])}, "'input_sizes' must lie between 0 and 3, the rows of 'inputs'"),
        ({"inputs": np.zeros((2, 3))}, r"input sets must have shape \(M, N, D\), got \(2, 3\)"),
    ],
)
def test_arrays_that_are_not_aligned(write_folder: WriteFolder, change: dict[str, Any], message: str) -> None:
    arrays = {"inputs": SETS, "sets": SETS[..., :1], "sizes": np.array([1, 3]), "input_sizes": np.array([1, 3])}
    with pytest.raises(DataError, match=message):
        read_data_file(write_folder(**(arrays | change)), ALIGNED)


def test_a_folder_without_arrays(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is a folder, but has none of: inputs\.npy and sets\.npy"):
        read_data_file(tmp_path)
    (tmp_path / "inputs.npy").write_bytes(b"nothing")
    with pytest.raises(DataError, match="cannot be read"):
        read_data_file(tmp_path)


def test_input_sets_have_a_presence_of_their_own(write_folder: WriteFolder) -> None:
    arrays = {"inputs": SETS, "sets": SETS[..., :1], "sizes": np.array([1, 3]), "input_sizes": np.array([2, 1])}
    data = read_data_file(write_folder(**arrays), DataDescription(input_kind="set"))
    assert [x[:, -1].tolist() for x, _ in data.examples] == [[1, 1, 0], [1, 0, 0]]
    assert [len(answers[0]) for _, answers in data.examples] == [1, 3]


def test_all_inputs_are_looked_at_some_at_a_time(
    write_folder: WriteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("desp.data.arrays.ROWS_AT_ONCE", 2)
    inputs = np.array([[1.0], [2.0], [3.0], [4.0], [np.nan]])
    with pytest.raises(DataError, match=r"'inputs' must hold finite numbers.* in row 4 there is nan"):
        read_data_file(write_folder(inputs=inputs, sets=np.ones((5, 3, 2))))
