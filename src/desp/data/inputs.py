"""Inputs as they are written in files, as tensors: one at a time, or all inputs of a file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from desp.data.base import as_input
from desp.data.images import MODES, UnusableImage, read_image
from desp.data.scratch import GrowingArray
from desp.errors import DataError
from desp.sets import SetBatch, as_set
from desp.settings import InputKind

LEAVE_OUT = "Leave it out."


def read_input(value: Any, kind: InputKind, shape: tuple[int, ...], folder: Path, where: str) -> Tensor:
    """An input as it is written in a file, as a tensor.

    Args:
        value: a vector of numbers; a set, as list of lists; or an image, as the path of its file.
        kind: which of these it must be.
        shape: of the tensor. Sets are padded, with presence as last column; images are resized.
        folder: what paths are relative to.
        where: names the place in messages.

    Raises:
        DataError: it is of another kind or shape.
    """
    _require_kind(value, kind, where)
    if kind == "image":
        channels, height, width = shape
        return _read_image(folder / value, where, (height, width), channels)
    if kind == "vector":
        return _read_vector(value, shape, where)
    size, columns = shape
    elements = _read_set(value, columns - 1, where)  # the last column is presence
    if len(elements) > size:
        raise DataError(f"{where}: the input set has {len(elements)} elements, at most {size} are allowed.")
    return _padded(elements, size, columns - 1)


class GatheredInputs:
    """The inputs of a file, added one by one: all of one kind, and vectors and images of one shape.

    Args:
        folder: what paths of images are relative to.
        image_size: width and height to resize images to; 0: all must have the same size.
    """

    def __init__(self, folder: Path, image_size: int = 0) -> None:
        self.folder, self.image_size = folder, image_size
        self.kind: InputKind | None = None
        self.shape: tuple[int, ...] = ()
        self._empty: list[str] = []  # [] may be an empty set or an empty vector: the first other input decides
        self._numbers = GrowingArray(np.float32)
        self._sizes = GrowingArray(np.int64)

    def add(self, value: Any, where: str) -> None:
        """Add the next input, as it is written.

        Raises:
            DataError: it cannot be used, or has another kind or shape than the inputs before.
        """
        if self.kind is None and value == []:
            self._empty.append(where)
            return
        if self.kind is None:
            self._begin(kind_of(value, where), where)
        kind = self.kind or "vector"
        _require_kind(value, kind, where)
        if kind == "set":
            elements = _read_set(value, self.shape[0] if self.shape else None, where)
            self.shape = self.shape or elements.shape[1:]
            self._sizes.add([len(elements)])
            self._numbers.add(elements)
            return
        x = self._image(value, where) if kind == "image" else _read_vector(value, self.shape or None, where)
        self.shape = tuple(x.shape)
        self._numbers.add(x)

    def _begin(self, kind: InputKind, where: str) -> None:
        if self.image_size and kind != "image":
            raise DataError(f"{where}: task.image_size is for images, but the input is a {kind}. {LEAVE_OUT}")
        if self._empty and kind != "set":
            raise DataError(f"{self._empty[0]}: expected an input of kind '{kind}', like the others, got [].")
        self.kind = kind
        if kind == "image":
            self._numbers = GrowingArray(np.uint8)
        self._sizes.add([0] * len(self._empty))

    def _image(self, value: str, where: str) -> Tensor:
        """An image, resized if a size is asked for, else checked to have the same size as the images before."""
        size = (self.image_size, self.image_size) if self.image_size else None
        image = _read_image(self.folder / value, where, size)
        if self.shape and tuple(image.shape) != self.shape:
            sizes = " and ".join(f"{shape[2]} x {shape[1]}" for shape in (self.shape, image.shape))
            raise DataError(
                f"{where}: images have different sizes ({sizes}). Resize all of them to one: "
                "--task.image-size 128, say."
            )
        return image

    def reader(self) -> Callable[[int], Tensor]:
        """A function from the number of an input to the input; sets are padded to the largest of them.

        Raises:
            DataError: all are empty lists.
        """
        if self.kind is None:
            where = self._empty[0] if self._empty else "The file"
            raise DataError(f"{where}: all inputs are empty lists. Write at least one number, such as [0].")
        numbers, shape = self._numbers.done(), self.shape
        if self.kind != "set":
            rows = numbers.reshape(-1, *shape)
            return lambda index: torch.from_numpy(np.array(rows[index]))
        sizes = self._sizes.done()
        ends, largest = sizes.cumsum(), int(sizes.max())
        elements = numbers.reshape(-1, *shape)
        return lambda index: _padded(
            torch.from_numpy(np.array(elements[ends[index] - sizes[index] : ends[index]])), largest, shape[0]
        )


def _padded(elements: Tensor, size: int, features: int) -> Tensor:
    """A set (n, D) as an input (N, D + 1) with presence."""
    return SetBatch.from_ragged([elements], size, features).with_presence()[0]


def kind_of(value: Any, where: str) -> InputKind:
    """The kind of an input, by how it is written.

    Raises:
        DataError: it is of no known kind.
    """
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
    if (kind == "image" or value != []) and kind_of(value, where) != kind:
        got = f"the text {value[:60]!r}" if isinstance(value, str) else str(value)[:60]
        hint = " Write lists in JSON lines, without quotes." if got.startswith("the text '[") else ""
        raise DataError(f"{where}: expected an input of kind '{kind}', like the others, got {got}.{hint}")


def _read_vector(value: Any, shape: tuple[int, ...] | None, where: str) -> Tensor:
    try:
        x = as_input(value).reshape(-1)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    if shape is not None and tuple(x.shape) != shape:
        raise DataError(f"{where}: expected an input of shape {shape} (vector), got {tuple(x.shape)}.")
    return x


def _read_set(value: Any, features: int | None, where: str) -> Tensor:
    elements = as_set(value, where)
    if len(elements) and features is not None and elements.shape[1] != features:
        raise DataError(f"{where}: elements have {elements.shape[1]} features, expected {features}.")
    return elements


def _read_image(path: Path, where: str, size: tuple[int, int] | None, channels: int = 3) -> Tensor:
    """An image as bytes (channels, height, width), resized to `size` if it is given."""
    if channels not in MODES:
        raise DataError(f"{where}: image files have 1 or 3 channels, and this model's inputs have {channels}.")
    try:
        return torch.from_numpy(read_image(path, size, channels)).contiguous()
    except UnusableImage as error:
        raise DataError(f"{where}: cannot read the image {path}: {error}.") from error
    except DataError as error:
        raise DataError(f"{where}: cannot read the image {path} ({error.__cause__}).") from error
