"""CelebA's lists: attributes of every image, and the official split. Hundreds of thousands of rows in a second."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from desp.data.skips import NAMED
from desp.errors import DataError

Part = Literal["training", "validation", "test"]
PARTS: tuple[Part, ...] = ("training", "validation", "test")
"""In the order of the numbers that the official split gives them."""

USED = (
    *("Bald", "Bangs", "Blond_Hair", "Double_Chin", "Eyeglasses", "Goatee", "Gray_Hair", "Male", "No_Beard"),
    *("Wearing_Hat", "Wearing_Necktie"),
)
"""Attributes that decide which faces belong together."""

_AGAIN = "Get the file anew from where you have the data."
_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class AttributeList:
    """The list of attributes.

    Attributes:
        images: names of M images.
        names: of A attributes.
        values: (M, A), which image has which attribute.
    """

    images: tuple[str, ...]
    names: tuple[str, ...]
    values: Bool[Tensor, "m a"]

    def of(self, images: tuple[str, ...], path: Path) -> Bool[Tensor, "k a"]:
        """The rows of some images.

        Raises:
            DataError: `path`, the file of the list, has none for one of them.
        """
        return self.values[_rows_of(images, self.images, path)]

    def columns(self, names: tuple[str, ...]) -> Int[Tensor, " k"]:
        """Column indices of some attributes."""
        return torch.tensor([self.names.index(name) for name in names])


def read_attributes(path: Path) -> AttributeList:
    """Read ``list_attr_celeba.txt``: how many images, names of attributes, and a row of 1 or -1 for each image.

    Raises:
        DataError: it is not so, or one of the attributes that are used is missing.
    """
    count, header, body = _read(path, lines=2)
    if not count.strip().isdigit():
        raise DataError(
            f"{path}: the first line must be the number of images, got {_shown(count)}. Is it CelebA's list?"
        )
    names = tuple(header.decode("utf-8", "replace").split())
    missing = [name for name in USED if name not in names]
    if missing:
        raise DataError(
            f"{path}: the second line must name the attributes, among them {', '.join(USED)}; got {len(names)} "
            f"names without {', '.join(missing)}. {_AGAIN}"
        )
    images, table = _table(path, body, 1 + len(names), first_line=3)
    if len(images) != int(count):
        raise DataError(f"{path}: expected {int(count)} rows, as its first line says, got {len(images)}. {_AGAIN}")
    first, second, third = (table.text[table.starts[:, 1:] + place] for place in range(3))
    positive = (first == ord("1")) & (second <= ord(" "))
    negative = (first == ord("-")) & (second == ord("1")) & (third <= ord(" "))
    table.refuse(~(positive | negative), path, images, "1 or -1")
    return AttributeList(images, names, torch.from_numpy(positive))


def read_partition(path: Path, images: tuple[str, ...]) -> Int[Tensor, " k"]:
    """The official part of some images, as the place in `PARTS`, from ``list_eval_partition.txt``.

    Raises:
        DataError: a row is not the name of an image and 0, 1 or 2, or there is none for one of these images.
    """
    (body,) = _read(path, lines=0)
    known, table = _table(path, body, 2, first_line=1)
    digit, after = (table.text[table.starts[:, 1] + place] for place in range(2))
    wrong = (digit < ord("0")) | (digit > ord("2")) | (after > ord(" "))
    table.refuse(wrong[:, None], path, known, "0, 1 or 2")
    return torch.from_numpy(digit.astype(np.int64) - ord("0"))[_rows_of(images, known, path)]


def _read(path: Path, lines: int) -> list[bytes]:
    """The first lines, and what follows them."""
    try:
        parts = path.read_bytes().split(b"\n", lines)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error}). Check the path and its permissions.") from error
    return parts + [b""] * (lines + 1 - len(parts))


def _rows_of(images: tuple[str, ...], known: tuple[str, ...], path: Path) -> Tensor:
    places = {name: row for row, name in enumerate(known)}
    missing = [name for name in images if name not in places]
    if missing:
        named = ", ".join([*missing[:NAMED], *(["..."] if len(missing) > NAMED else [])])
        raise DataError(
            f"{path}: expected a row for each image, got none for {len(missing)} of {len(images)}: {named}. Use "
            "the list that belongs to them, or remove images that are not CelebA's."
        )
    return torch.tensor([places[name] for name in images], dtype=torch.int64)


@dataclass(frozen=True)
class _Table:
    """Words of a text in rows.

    Attributes:
        text: the bytes of the text, and some blanks after it.
        starts: (M, K), where the words begin.
        lines: (M,), line numbers of the rows.
    """

    text: _Array
    starts: _Array
    lines: _Array

    def word(self, row: int, column: int) -> bytes:
        start = int(self.starts[row, column])
        return self.text[start : start + 40].tobytes().split()[0]

    def refuse(self, wrong: _Array, path: Path, images: tuple[str, ...], expected: str) -> None:
        """Raise a `DataError` if a value is `wrong` (M, K - 1); the first column, names, is not checked."""
        if wrong.any():
            row, column = np.argwhere(wrong)[0].tolist()
            raise DataError(
                f"{path}, line {int(self.lines[row])}: the values of {images[row]} must be {expected}, got "
                f"{_shown(self.word(row, column + 1))}. {_AGAIN}"
            )


def _table(path: Path, body: bytes, columns: int, first_line: int) -> tuple[tuple[str, ...], _Table]:
    """Find all words of all rows at once, without an object for each; the first column holds names."""
    text = np.frombuffer(body + b"\n    ", dtype=np.uint8)
    blank = text <= ord(" ")
    ends = np.flatnonzero(text == ord("\n"))
    starts = np.flatnonzero(~blank & np.concatenate([[True], blank[:-1]]))
    counts = np.diff(np.searchsorted(starts, ends), prepend=0)
    lines = np.flatnonzero(counts)  # empty ones do not count
    wrong = lines[counts[lines] != columns]
    if len(wrong):
        raise DataError(
            f"{path}, line {first_line + int(wrong[0])}: expected {columns} columns, the name of an image and "
            f"{columns - 1} values, got {int(counts[wrong[0]])}. {_AGAIN}"
        )
    table = _Table(text, starts.reshape(-1, columns), first_line + lines)
    places = table.starts[:, 0].tolist()
    names = tuple(body[place : place + 300].split(None, 1)[0].decode("utf-8", "replace") for place in places)
    twice = len(names) - len(set(names))
    if twice:
        raise DataError(f"{path}: expected one row for each image, got {twice} more than that. {_AGAIN}")
    return names, table


def _shown(word: bytes) -> str:
    return repr(word.decode("utf-8", "replace")[:40])
