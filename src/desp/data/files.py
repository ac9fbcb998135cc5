"""A user's own data: JSON lines ``{"input": ..., "set": [[...]]}``, an npz file, or a folder of npy files."""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor
from torch.utils.data import Dataset

from desp.data.arrays import Arrays, Example, load_arrays, map_arrays, rows_of
from desp.data.base import as_input
from desp.data.images import MODES, UnusableImage, read_image
from desp.errors import DataError
from desp.places import read_anything
from desp.sets import SetBatch, as_set
from desp.settings import DataDescription, InputKind

LEAVE_OUT = "Leave it out."


class _Examples(Sequence[Example]):
    """Examples that are read when they are asked for, so that a memory map is never copied as a whole.

    Args:
        read: gives one example.
        places: what it is asked for, in this order.
    """

    def __init__(self, read: Callable[[int], Example], places: Sequence[int]) -> None:
        self.read, self.places = read, places

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self.read(place) for place in self.places[index]]
        return self.read(self.places[index])


class DataFile(Dataset[tuple[Tensor, Tensor]]):
    """The examples of a file. As a dataset, an (input, set) pair for each valid set of each example.

    Args:
        examples: read when they are asked for.
        answer_counts: how many valid sets each of them has.
        input_kind: of the inputs.
        names: what messages call each example of the file; its row if not given.
        notes: what a user should know of how it was read.
    """

    def __init__(
        self,
        examples: _Examples,
        answer_counts: Sequence[int],
        input_kind: InputKind,
        names: Sequence[str] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.notes = notes
        self.examples, self.answer_counts, self.input_kind, self.names = examples, answer_counts, input_kind, names
        self._pairs = [(example, answer) for example, count in enumerate(answer_counts) for answer in range(count)]

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        example, answer = self._pairs[index]
        x, answers = self.examples[example]
        return x, answers[answer]

    def part(self, places: Sequence[int]) -> "DataFile":
        """The examples at these places, with all their valid sets."""
        examples = _Examples(self.examples.read, [self.examples.places[place] for place in places])
        return DataFile(examples, [self.answer_counts[place] for place in places], self.input_kind, self.names)

    def name_of(self, index: int) -> str:
        """What messages call the example of a pair."""
        place = self.examples.places[self._pairs[index][0]]
        return f"row {place}" if self.names is None else self.names[place]


def read_data_file(path: Path, description: DataDescription | None = None, image_size: int = 0) -> DataFile:
    """Read a JSON lines file, an npz file, or a folder of npy files of inputs and sets.

    A line may hold ``answers``, all sets that are valid for its input, in place of ``set``. Arrays are ``inputs``
    (M, ...) and ``sets`` (M, N, D), and for sets of different sizes ``sizes`` (M,) or ``presence`` (M, N); inputs
    that are sets (M, N, D) may have ``input_sizes`` or ``input_presence`` likewise. Those of a folder are memory
    maps: only what is used is read.

    Args:
        path: the file or folder.
        description: what inputs and features are.
        image_size: images named in JSON lines are squeezed to this width and height; 0: they must have one size.

    Raises:
        DataError: missing, empty or broken; the message names the line.
    """
    description = description or DataDescription()
    if image_size and (path.is_dir() or path.suffix.lower() == ".npz"):
        raise DataError(f"{path}: task.image_size is for images named in JSON lines, not for arrays. {LEAVE_OUT}")
    if path.is_dir():
        if not any(path.glob("*.npy")):
            raise DataError(f"There is no data file at {path}, a folder without inputs.npy and sets.npy.")
        return _from_arrays(map_arrays(path), path, description)
    if not path.is_file():
        raise DataError(f"There is no data file at {path}.")
    if path.suffix.lower() == ".npz":
        return _from_arrays(load_arrays(path), path, description)
    return _read_json_lines(path, description, image_size)


def _from_arrays(arrays: Arrays, path: Path, description: DataDescription) -> DataFile:
    rows, notes = rows_of(arrays, path, description), []
    if rows.kind == "vector" and len(shape := arrays["inputs"].shape) > 2 and description.input_kind is None:
        notes.append(
            f"{path}: inputs of shape {shape[1:]} are read as vectors. If they are sets, pass "
            "--task.description.input-kind set; if images, add their channel, (M, 1, height, width)."
        )
    return DataFile(_Examples(rows.read, range(len(rows))), [1] * len(rows), rows.kind, notes=notes)


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON lines file, each with the words that name its line in messages.

    Raises:
        DataError: the file is missing or not text, or a line is not a JSON object.
    """
    if not path.exists() or path.is_dir():
        raise DataError(f"There is no file at {path}.")
    try:
        text = read_anything(path).decode("utf-8-sig")  # some programs begin a file with a BOM
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a text file ({error}). Expected JSON lines, or a .npz file.") from error
    for number, line in enumerate(io.StringIO(text, newline=None).read().split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:  # also a number of thousands of digits, or nested too deep
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


def _read_json_lines(path: Path, description: DataDescription, image_size: int) -> DataFile:
    places, raw_inputs, answers = [], [], []
    features: int | None = None
    for where, record in read_lines(path):
        raw_inputs.append(field_of(record, "input", where))
        valid = _answers(record, where)
        for elements in valid:
            if len(elements):
                features = elements.shape[1] if features is None else features
                if elements.shape[1] != features:
                    raise DataError(
                        f"{where}: elements have {elements.shape[1]} features, but {features} in the lines before."
                    )
            if description.aligned and not isinstance(raw_inputs[-1], list):
                raise DataError(f"{where}: outputs can be aligned with inputs that are sets alone, [[...], ...].")
            if description.aligned and len(elements) != len(raw_inputs[-1]):
                raise DataError(
                    f"{where}: the set has {len(elements)} elements and the input {len(raw_inputs[-1])}. Where "
                    "outputs are aligned with inputs, each element of the input has its own in the set."
                )
        answers.append(valid)
        places.append(where)
    if not answers:
        raise DataError(
            f'{path} holds no examples. Write one JSON object a line: {{"input": ..., "set": [[...]]}}'
        )
    if features is None:
        raise DataError(f"{path}: every set is empty, so there is nothing to learn.")
    inputs, kind = _read_inputs(raw_inputs, path.parent, places, image_size)
    sets = [tuple(item.reshape(0, features) if len(item) == 0 else item for item in valid) for valid in answers]
    pairs = list(zip(inputs, sets, strict=True))
    return DataFile(_Examples(pairs.__getitem__, range(len(pairs))), list(map(len, sets)), kind, places)


def _answers(record: dict[str, Any], where: str) -> list[Tensor]:
    """The valid sets of a line: its ``set``, or all its ``answers``."""
    if "answers" not in record:
        return [as_set(field_of(record, "set", where), where)]
    if "set" in record:
        raise DataError(f"{where}: has 'set' and 'answers'. Write all valid sets as 'answers', or one as 'set'.")
    if not isinstance(record["answers"], list) or not record["answers"]:
        raise DataError(f"{where}: 'answers' must be a list of at least one set.")
    return [as_set(item, f"{where}, answer {index}") for index, item in enumerate(record["answers"])]


def _read_inputs(
    values: list[Any], folder: Path, places: list[str], image_size: int
) -> tuple[list[Tensor], InputKind]:
    # [] may be an empty set or an empty vector; the first input that is not empty decides.
    at = next((index for index, value in enumerate(values) if value != []), 0)
    kind = _kind_of(values[at], places[at])
    if kind == "image":
        return _read_images(values, folder, places, image_size), kind
    if values[at] == []:
        raise DataError(f"{places[at]}: all inputs are empty lists. Write at least one number, such as [0].")
    if image_size:
        raise DataError(f"{places[at]}: task.image_size is for images, but the input is a {kind}. {LEAVE_OUT}")
    shape = tuple(_read_any(values[at], kind, places[at], None).shape)
    if kind == "set":
        shape = (max(len(value) for value in values if isinstance(value, list)), shape[1])
    pairs = zip(values, places, strict=True)
    return [read_input(value, kind, shape, folder, where) for value, where in pairs], kind


def _read_images(values: list[Any], folder: Path, places: list[str], image_size: int) -> list[Tensor]:
    """Images of one size: their own, or the one that is asked for."""
    images: list[Tensor] = []
    for value, where in zip(values, places, strict=True):
        _require_kind(value, "image", where)
        image = _read_image(folder / value, where, (image_size, image_size) if image_size else None)
        if images and image.shape != images[0].shape:
            sizes = " and ".join(f"{item.shape[2]} x {item.shape[1]}" for item in (images[0], image))
            raise DataError(
                f"{where}: images have different sizes ({sizes}). Squeeze all of them to one: "
                "--task.image-size 128, say."
            )
        images.append(image)
    return images


def read_input(value: Any, kind: InputKind, shape: tuple[int, ...], folder: Path, where: str) -> Tensor:
    """An input as it is written in a file, as a tensor.

    Args:
        value: a vector of numbers; a set, as list of lists; or an image, as the path of its file.
        kind: which of them it must be.
        shape: of the tensor. Sets are padded, with presence as last column; images are squeezed to it.
        folder: what paths are relative to.
        where: names the place in messages.

    Raises:
        DataError: it is of another kind or shape.
    """
    if kind == "image":
        _require_kind(value, kind, where)
        channels, height, width = shape
        return _read_image(folder / value, where, (height, width), channels)
    x = _read_any(value, kind, where, shape if kind == "set" else None)
    if tuple(x.shape) != shape:
        raise DataError(f"{where}: expected an input of shape {shape} ({kind}), got {tuple(x.shape)}.")
    return x


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


def _require_kind(value: Any, kind: InputKind, where: str) -> None:
    if (kind == "image" or value != []) and _kind_of(value, where) != kind:
        raise DataError(f"{where}: expected a {kind} as input, like the others, got {str(value)[:60]}.")


def _read_any(value: Any, kind: InputKind, where: str, set_shape: tuple[int, ...] | None) -> Tensor:
    """A vector or a set as a tensor; a set is padded to `set_shape`, which counts the presence column."""
    _require_kind(value, kind, where)
    if kind == "set":
        elements = as_set(value, where)
        size, columns = set_shape or (len(elements), elements.shape[1] + 1)
        features = columns - 1  # the last column is presence
        if len(elements) and elements.shape[1] != features:
            raise DataError(f"{where}: elements have {elements.shape[1]} features, expected {features}.")
        if len(elements) > size:
            raise DataError(f"{where}: the input set has {len(elements)} elements, at most {size} are allowed.")
        return SetBatch.from_ragged([elements], size, features).with_presence()[0]
    try:
        return as_input(value).reshape(-1)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error


def _read_image(path: Path, where: str, size: tuple[int, int] | None, channels: int = 3) -> Tensor:
    """An image as bytes (channels, height, width), of `size` where that is given."""
    if channels not in MODES:
        raise DataError(f"{where}: image files have 1 or 3 channels, and this model's inputs have {channels}.")
    try:
        return torch.from_numpy(read_image(path, size, channels)).contiguous()
    except UnusableImage as error:
        raise DataError(f"{where}: cannot read the image {path}: {error}.") from error
    except DataError as error:
        raise DataError(f"{where}: cannot read the image {path} ({error.__cause__}).") from error
