"""A user's own data: JSON lines ``{"input": ..., "set": [[...]]}``, or an npz file."""

import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from desp.data.base import as_input
from desp.errors import DataError
from desp.extras import require
from desp.sets import PresencePadding, SetBatch, as_set
from desp.settings import InputKind


@dataclass(frozen=True)
class InputFormat:
    """How an input is written in a file, and the shape it has as a tensor.

    Attributes:
        kind: a vector of numbers; a set, as list of lists; or an image, as the path of its file.
        shape: of one input as a tensor. Sets are padded, with presence as last column.
    """

    kind: InputKind
    shape: tuple[int, ...]

    def read(self, value: Any, folder: Path, where: str) -> Tensor:
        """Turn what a file holds into a tensor of `shape`.

        Raises:
            DataError: it does not look like the inputs seen before.
        """
        x = _read_input(value, self.kind, folder, where, self.shape if self.kind == "set" else None)
        if tuple(x.shape) != self.shape:
            raise DataError(
                f"{where}: expected an input of shape {self.shape} ({self.kind}), got {tuple(x.shape)}."
            )
        return x


class DataFile(Dataset[tuple[Tensor, Tensor]]):
    """All (input, set) pairs of a file, in memory."""

    def __init__(self, inputs: Tensor, sets: Sequence[Tensor], input_format: InputFormat) -> None:
        self.inputs, self.sets, self.input_format = inputs, list(sets), input_format

    def __len__(self) -> int:
        return len(self.sets)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.sets[index]

    def part(self, indices: Sequence[int]) -> "DataFile":
        """The examples at `indices`."""
        return DataFile(self.inputs[list(indices)], [self.sets[i] for i in indices], self.input_format)


def read_data_file(path: Path) -> DataFile:
    """Read a JSON lines or npz file of inputs and sets.

    An npz file holds ``inputs`` (M, ...) and ``sets`` (M, N, D), and for sets of different sizes ``sizes`` (M,)
    or ``presence`` (M, N).

    Raises:
        DataError: missing, empty or broken; the message names the line.
    """
    if not path.is_file():
        raise DataError(f"There is no data file at {path}.")
    if path.suffix == ".npz":
        return _read_npz(path)
    return _read_json_lines(path)


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON lines file, each with the words that name its line in messages.

    Raises:
        DataError: the file is missing or not text, or a line is not a JSON object.
    """
    if not path.is_file():
        raise DataError(f"There is no file at {path}.")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a text file ({error}). Expected JSON lines, or a .npz file.") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(
                f"{where}: not valid JSON ({error}). Each line must be one JSON object; other formats, such "
                "as CSV, must be converted first."
            ) from error
        if not isinstance(record, dict):
            raise DataError(f'{where}: expected a JSON object like {{"input": ...}}, got {line.strip()[:60]}')
        yield where, record


def field_of(record: dict[str, Any], name: str, where: str) -> Any:
    """A field of a line, or an error that lists what is there."""
    if name not in record:
        present = ", ".join(sorted(record)) or "nothing"
        raise DataError(f"{where}: the field '{name}' is missing (found: {present}).")
    return record[name]


def _read_json_lines(path: Path) -> DataFile:
    places, raw_inputs, sets = [], [], []
    features: int | None = None
    for where, record in read_lines(path):
        raw_inputs.append(field_of(record, "input", where))
        elements = as_set(field_of(record, "set", where), where)
        if len(elements):
            features = elements.shape[1] if features is None else features
            if elements.shape[1] != features:
                raise DataError(
                    f"{where}: elements have {elements.shape[1]} features, but {features} in the lines before."
                )
        sets.append(elements)
        places.append(where)
    if not sets:
        raise DataError(
            f'{path} holds no examples. Write one JSON object a line: {{"input": ..., "set": [[...]]}}'
        )
    if features is None:
        raise DataError(f"{path}: every set is empty, so there is nothing to learn.")
    sets = [item.reshape(0, features) if len(item) == 0 else item for item in sets]
    inputs, input_format = _read_inputs(raw_inputs, path.parent, places)
    return DataFile(inputs, sets, input_format)


def _read_inputs(values: list[Any], folder: Path, places: list[str]) -> tuple[Tensor, InputFormat]:
    # [] may be an empty set or an empty vector; the first input that is not empty decides.
    at = next((index for index, value in enumerate(values) if value != []), 0)
    kind = _kind_of(values[at], places[at])
    shape = tuple(_read_input(values[at], kind, folder, places[at], None).shape)
    if kind == "set":
        shape = (max(len(value) for value in values if isinstance(value, list)), shape[1])
    input_format = InputFormat(kind, shape)
    rows = [input_format.read(value, folder, where) for value, where in zip(values, places, strict=True)]
    return torch.stack(rows), input_format


def _kind_of(value: Any, where: str) -> InputKind:
    if isinstance(value, str):
        return "image"
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "set"
    if isinstance(value, int | float | list):
        return "vector"
    raise DataError(
        f"{where}: an input must be a number, a list of numbers, a set as list of lists, or the path of an "
        f"image; got {type(value).__name__}."
    )


def _read_input(
    value: Any, kind: InputKind, folder: Path, where: str, set_shape: tuple[int, ...] | None
) -> Tensor:
    """An input as a tensor; a set is padded to `set_shape`, which counts the presence column."""
    if value != [] and _kind_of(value, where) != kind:
        raise DataError(f"{where}: expected a {kind} as input, like the others, got {str(value)[:60]}.")
    if kind == "image":
        return _read_image(folder / value, where)
    if kind == "set":
        elements = as_set(value, where)
        size, columns = set_shape or (len(elements), elements.shape[1] + 1)
        features = columns - 1  # the last column is presence
        if len(elements) and elements.shape[1] != features:
            raise DataError(f"{where}: elements have {elements.shape[1]} features, expected {features}.")
        if len(elements) > size:
            raise DataError(f"{where}: the input set has {len(elements)} elements, at most {size} are allowed.")
        return PresencePadding().encode(SetBatch.from_ragged([elements], size, features))[0]
    return _as_input(value, where).reshape(-1)


def _as_input(value: Any, where: str) -> Tensor:
    try:
        return as_input(value)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error


def _read_image(path: Path, where: str) -> Tensor:
    """An image as (3, height, width) in [0, 1]."""
    image_module = require("PIL.Image", "viz", "read images")
    try:
        with image_module.open(path) as image:
            pixels = np.asarray(image.convert("RGB"), dtype=np.float32) / 255
    except OSError as error:
        raise DataError(f"{where}: cannot read the image {path} ({error}).") from error
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def _read_npz(path: Path) -> DataFile:
    arrays = _load_arrays(path)
    for name in ("inputs", "sets"):
        if name not in arrays:
            raise DataError(f"{path}: the array '{name}' is missing (found: {', '.join(arrays) or 'nothing'}).")
    for name, array in arrays.items():
        if array.dtype.kind not in "buif":
            raise DataError(f"{path}: '{name}' must hold real numbers, but its type is {array.dtype}.")
    inputs, padded = _as_input(arrays["inputs"], str(path)).float(), torch.as_tensor(arrays["sets"]).float()
    if padded.dim() != 3 or inputs.dim() == 0 or len(padded) != len(inputs) or len(padded) == 0:
        raise DataError(
            f"{path}: expected 'inputs' of shape (M, ...) and 'sets' of shape (M, N, D), M > 0, "
            f"got {tuple(inputs.shape)} and {tuple(padded.shape)}."
        )
    presence = _presence(arrays, padded, path)
    if not presence.any():
        raise DataError(f"{path}: every set is empty, so there is nothing to learn.")
    rows = zip(padded, presence, strict=True)
    sets = [as_set(item[mask], f"{path}, set {index}") for index, (item, mask) in enumerate(rows)]
    kind: InputKind = "image" if inputs.dim() == 4 else "vector"
    inputs = inputs if kind == "image" else inputs.reshape(len(inputs), -1)
    return DataFile(inputs, sets, InputFormat(kind, tuple(inputs.shape[1:])))


def _load_arrays(path: Path) -> "dict[str, np.ndarray]":
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


def _presence(arrays: "dict[str, np.ndarray]", padded: Tensor, path: Path) -> Tensor:
    count, size = padded.shape[:2]
    if "presence" in arrays:
        presence = torch.as_tensor(arrays["presence"]) > 0.5
    elif "sizes" in arrays:
        sizes = torch.as_tensor(arrays["sizes"]).reshape(-1, 1)
        if sizes.numel() and (sizes.min() < 0 or sizes.max() > size):
            raise DataError(f"{path}: 'sizes' must lie between 0 and {size}, the rows of 'sets'.")
        presence = torch.arange(size) < sizes
    else:
        presence = torch.ones(count, size, dtype=torch.bool)
    if presence.shape != padded.shape[:2]:
        raise DataError(
            f"{path}: 'presence' must have shape {(count, size)} and 'sizes' shape {(count,)}, "
            f"got {tuple(presence.shape)} from them."
        )
    return presence
