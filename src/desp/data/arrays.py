"""Examples as rows of arrays: an npz file, or a folder of npy files that are memory maps."""

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from desp.data.base import as_input
from desp.errors import DataError
from desp.sets import SetBatch, as_set
from desp.settings import DataDescription, InputKind
from desp.tensors import LARGEST

Arrays = dict[str, npt.NDArray[Any]]

Example = tuple[Tensor, tuple[Tensor, ...]]
"""An input, and all sets that are valid for it."""

# Rows of a memory map that are looked at together.
ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class _Rows:
    """M padded sets and their masks.

    Attributes:
        values: (M, N, ...) the rows of all sets.
        sizes: (M,) how many rows of each set are elements, the first ones; used where `presence` is None.
        presence: (M, N) which rows are elements. Where both are None, all rows are.
    """

    values: npt.NDArray[Any]
    sizes: npt.NDArray[Any] | None = None
    presence: npt.NDArray[Any] | None = None

    @classmethod
    def of(cls, arrays: Arrays, name: str, prefix: str, path: Path) -> "_Rows":
        """The array `name` with its sizes and presence, which are named `prefix` + "sizes" and "presence".

        Raises:
            DataError: they do not fit.
        """
        values, sizes, presence = (arrays.get(key) for key in (name, f"{prefix}sizes", f"{prefix}presence"))
        shape = values.shape[:2]  # type: ignore[union-attr]  # `name` was checked to be there
        wrong = presence is not None and presence.shape != shape
        if wrong or (presence is None and sizes is not None and sizes.size != shape[0]):
            got = (presence if wrong else sizes).shape  # type: ignore[union-attr]
            raise DataError(
                f"{path}: '{prefix}presence' must have shape {shape} and '{prefix}sizes' shape {shape[:1]}, "
                f"got {got}."
            )
        _check_values(
            presence, f"{path}: '{prefix}presence' must be 0 or 1", lambda some: (some == 0) | (some == 1)
        )
        _check_values(sizes, f"{path}: '{prefix}sizes' must be whole numbers", lambda some: some == np.floor(some))
        between = sizes is None or (sizes.min(initial=0) >= 0 and sizes.max(initial=0) <= shape[1])
        if presence is None and not between:
            raise DataError(f"{path}: '{prefix}sizes' must lie between 0 and {shape[1]}, the rows of '{name}'.")
        return cls(values, None if sizes is None else sizes.reshape(-1), presence)  # type: ignore[arg-type]

    def mask(self, index: int) -> npt.NDArray[np.bool_]:
        """Which rows (N,) of a set are elements."""
        size = self.values.shape[1]
        if self.presence is not None:
            return np.array(self.presence[index]) > 0.5
        return np.arange(size) < (size if self.sizes is None else self.sizes[index])


def _check_values(
    array: npt.NDArray[Any] | None, wanted: str, valid: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]
) -> None:
    """Check all values of an array, some rows at a time; NaN is never valid.

    Raises:
        DataError: a value is not valid; the message has `wanted`, its row and the value.
    """
    for first in range(0, 0 if array is None else len(array), ROWS_AT_ONCE):
        some = np.asarray(array[first : first + ROWS_AT_ONCE])  # type: ignore[index]  # None has no rows
        if len(wrong := np.argwhere(~valid(some))):
            raise DataError(f"{wanted}, but in row {first + wrong[0][0]} there is {some[tuple(wrong[0])]!s}.")


class _ArrayRows:
    """Arrays whose rows become tensors one at a time.

    Args:
        inputs: (M, ...).
        sets: (M, N, D).
        kind: what inputs are.
    """

    def __init__(self, inputs: _Rows, sets: _Rows, kind: InputKind) -> None:
        self.inputs, self.sets, self.kind = inputs, sets, kind

    def __len__(self) -> int:
        return len(self.sets.values)

    def read(self, index: int) -> Example:
        """One input with its set."""
        elements = np.array(self.sets.values[index], dtype=np.float32)[self.sets.mask(index)]
        return self.input(index), (torch.from_numpy(elements),)

    def input(self, index: int) -> Tensor:
        """One input; a set with presence as last feature."""
        row = np.array(self.inputs.values[index])
        if self.kind == "image" and row.dtype == np.uint8:
            return as_input(row)
        x = torch.from_numpy(row.astype(np.float32))
        if self.kind == "set":
            presence = torch.from_numpy(self.inputs.mask(index))
            return SetBatch(x.unsqueeze(0), presence.unsqueeze(0)).with_presence()[0]
        return x if self.kind == "image" else x.reshape(-1)


def rows_of(
    arrays: Arrays, path: Path, description: DataDescription, *, all_may_be_empty: bool = False
) -> _ArrayRows:
    """The examples of the arrays in `path`; all of them are checked once, some at a time.

    Raises:
        DataError: arrays are missing, of wrong shapes or types, or hold NaN; or sets are not aligned with inputs.
    """
    for name in ("inputs", "sets"):
        if name not in arrays:
            raise DataError(f"{path}: the array '{name}' is missing (found: {', '.join(arrays) or 'nothing'}).")
    for name, array in arrays.items():
        if array.dtype.kind not in "buif":
            raise DataError(f"{path}: '{name}' must hold real numbers, but its type is {array.dtype}.")
    inputs, padded = arrays["inputs"], arrays["sets"]
    if padded.ndim != 3 or inputs.ndim == 0 or len(padded) != len(inputs) or len(padded) == 0:
        raise DataError(
            f"{path}: expected 'inputs' of shape (M, ...) and 'sets' of shape (M, N, D), M > 0, "
            f"got {tuple(inputs.shape)} and {tuple(padded.shape)}."
        )
    kind: InputKind = "set" if description.aligned else "image" if inputs.ndim == 4 else "vector"
    kind = description.input_kind or kind
    if kind == "set" and inputs.ndim != 3:
        raise DataError(f"{path}: input sets must have shape (M, N, D), got {tuple(inputs.shape)}.")
    of_inputs = _Rows.of(arrays, "inputs", "input_", path) if kind == "set" else _Rows(inputs)
    rows = _ArrayRows(of_inputs, _Rows.of(arrays, "sets", "", path), kind)
    elements = _check(rows, path, description.aligned)
    if elements == 0 and not all_may_be_empty:
        raise DataError(f"{path}: every set is empty, so there is nothing to learn.")
    return rows


def inputs_of(arrays: Arrays, path: Path, kind: InputKind) -> list[Tensor]:
    """The inputs of arrays to predict for, which need no sets.

    Raises:
        DataError: there are none, or they hold no finite numbers.
    """
    values = _inputs_alone(arrays, path, of_sets=kind == "set")
    rows = _Rows.of(arrays, "inputs", "input_", path) if kind == "set" else _Rows(values)
    reader = _ArrayRows(rows, rows, kind)
    return [reader.input(index) for index in range(len(values))]


def written_inputs(arrays: Arrays, path: Path) -> list[Any]:
    """The inputs of arrays to predict for, as numbers and lists, as in JSON lines. Padding is left out where
    `input_sizes` or `input_presence` tells it.

    Raises:
        DataError: there are none, or they hold no finite numbers.
    """
    values = _inputs_alone(arrays, path, of_sets=False)
    if values.ndim == 1:
        return list(values.tolist())
    rows = _Rows.of(arrays, "inputs", "input_", path)
    return [np.array(values[index])[rows.mask(index)].tolist() for index in range(len(values))]


def _inputs_alone(arrays: Arrays, path: Path, *, of_sets: bool) -> npt.NDArray[Any]:
    if "inputs" not in arrays:
        raise DataError(f"{path}: the array 'inputs' is missing (found: {', '.join(arrays) or 'nothing'}).")
    values = arrays["inputs"]
    if values.dtype.kind not in "buif" or values.ndim == 0 or (of_sets and values.ndim != 3):
        raise DataError(
            f"{path}: 'inputs' must hold real numbers of shape (M, ...), sets of shape (M, N, D); got "
            f"{values.dtype} of shape {values.shape}."
        )
    _check_inputs(values, path)
    return values


def _check_inputs(values: npt.NDArray[Any], path: Path) -> None:
    wanted = f"{path}: 'inputs' must hold finite numbers, at most {LARGEST:.1e}"
    _check_values(values, wanted, lambda some: np.abs(some.astype(np.float64)) <= LARGEST)


def _check(rows: _ArrayRows, path: Path, aligned: bool) -> int:
    """Check all rows, and count the elements of all sets."""
    inputs, sets = rows.inputs, rows.sets
    _check_inputs(inputs.values, path)
    elements = 0
    for index in range(len(rows)):
        mask = sets.mask(index)
        elements += int(mask.sum())
        as_set(np.array(sets.values[index])[mask], f"{path}, set {index}")
        if aligned and not np.array_equal(mask, inputs.mask(index)):
            raise DataError(
                f"{path}, set {index}: its elements must be in the same rows as the elements of its input, as "
                "outputs are aligned with inputs."
            )
    return elements


def map_arrays(folder: Path) -> Arrays:
    """The npy files of a folder as memory maps, by their names."""
    try:
        return {
            file.stem: np.load(file, mmap_mode="r", allow_pickle=False) for file in sorted(folder.glob("*.npy"))
        }
    except (EOFError, OSError, ValueError) as error:
        raise DataError(f"{folder} cannot be read ({error}). Arrays of objects are not accepted.") from error


def load_arrays(path: Path) -> Arrays:
    """The arrays of an npz file, in memory."""
    try:
        # Opened here, as numpy leaves a damaged file open.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise DataError(f"{path} cannot be read: a single array, not an npz file. Use numpy.savez.")
            return {name: archive[name] for name in archive.files}
    except (EOFError, OSError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} cannot be read ({error}). Arrays of objects are not accepted.") from error
