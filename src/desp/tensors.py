"""Whatever holds numbers, read as a tensor; what keeps it from being one; and where a tensor is not finite."""

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from desp.errors import DataError

LARGEST = torch.finfo(torch.float32).max
"""Largest float32."""
MOST_DIMENSIONS = 64
"""A tensor has no more dimensions."""


def as_numbers(value: Any, where: str, expected: str, levels: tuple[str, ...] = ()) -> Tensor:
    """A number, an array, a tensor or nested lists as a tensor, without gradient; not copied if it is one already.

    Args:
        value: what was given.
        where: names it in messages.
        expected: words for what it must be.
        levels: what messages call an item of the lists, one word for each level. If not given, the depth is not
            fixed, and places are indices.

    Raises:
        DataError: it holds something else than numbers, or not as many in each row; the first such place is named.
    """
    try:
        numbers = _tensor(value)
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        bad = first_bad_value(value, len(levels) or None)
        if bad is not None and bad.place:
            raise DataError(f"{_told(bad, where, levels)}. Expected {expected}. Remove or repair it.") from error
        got = bad.what if bad is not None else f"{type(value).__name__} ({str(error).partition(chr(10))[0]})"
        raise DataError(f"{where}: expected {expected}, got {got}.") from error
    if numbers.is_meta:
        raise DataError(
            f"{where}: expected {expected}, got a tensor on the device 'meta', which holds no numbers."
        )
    numbers = numbers.detach() if numbers.requires_grad else numbers
    return numbers if numbers.layout == torch.strided else numbers.to_dense()


def _tensor(value: Any) -> Tensor:
    if isinstance(value, np.ndarray):
        value = _array_for_torch(value)
    if isinstance(value, list | tuple) and value:
        if all(isinstance(item, Tensor) for item in value):
            return torch.stack(list(value))
        if _begins_with_array(value):  # torch converts lists of arrays slowly, and warns of it
            return torch.stack([_tensor(item) for item in value])
    return torch.as_tensor(value)


def _array_for_torch(value: Any) -> Any:
    """An array that torch takes; nested lists in place of objects, which may all be numbers."""
    if isinstance(value, np.ma.MaskedArray):
        value = _with_nan(value)
    if value.dtype.kind == "O":
        return value.tolist()
    if not value.flags.writeable:
        value = value.copy()  # a row of a memory map; torch warns about memory it must not write to
    if value.dtype.kind == "f" and not _known_to_torch(value.dtype):
        value = value.astype(np.float64)
    if value.dtype.kind in "iu":
        value = value.astype(value.dtype.newbyteorder("="), copy=False)
    return value.copy() if min(value.strides, default=0) < 0 else value  # such as x[:, ::-1]


def _begins_with_array(value: Any) -> bool:
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return isinstance(value, np.ndarray)


def _with_nan(value: Any) -> Any:
    """A masked array with NaN, which is refused wherever numbers are needed, in place of what is missing."""
    if not np.ma.is_masked(value) or value.dtype.kind not in "biufcO":
        return np.asarray(value.data)
    return (value if value.dtype.kind in "cO" else value.astype(np.float64)).filled(np.nan)


def _known_to_torch(dtype: np.dtype[Any]) -> bool:
    """Whether floats are of this machine's byte order, and no longer than float64."""
    return dtype.isnative and dtype.itemsize <= 8


@dataclass(frozen=True)
class BadValue:
    """What is no number, or of another length than its neighbours.

    Attributes:
        place: its indices in the nested lists.
        what: words for it.
        length, expected_length: of a list that is shorter or longer than the first one; else None.
    """

    place: tuple[int, ...]
    what: str
    length: int | None = None
    expected_length: int | None = None


def first_bad_value(value: Any, depth: int | None = None) -> BadValue | None:
    """The first value in nested lists, arrays or tensors that keeps them from being one tensor; None if there is
    none. It is slow: look for it after a conversion failed.

    Args:
        value: of any type.
        depth: how many levels of lists there must be; None: as many as the first items have.
    """
    lengths: list[int] = []
    inside = value
    while len(lengths) < (MOST_DIMENSIONS if depth is None else depth):
        rows = _rows(inside)
        if rows is None:
            break
        lengths.append(len(rows))
        if not rows:
            break
        inside = rows[0]
    return _first_bad(value, (), lengths, depth or len(lengths))


def _first_bad(value: Any, place: tuple[int, ...], lengths: list[int], depth: int) -> BadValue | None:
    rows, level = _rows(value), len(place)
    if level == depth or rows is None:
        wanted = ", not a list" if level < depth else ", not a number"
        what = _what_is_wrong(value)
        if what is None and (rows is not None or level < depth):
            what = f"a list, {_short(rows)}{wanted}" if rows is not None else f"a number, {_short(value)}{wanted}"
        return None if what is None else BadValue(place, what)
    if level < len(lengths) and len(rows) != lengths[level]:
        return BadValue(place, "a list of another length", len(rows), lengths[level])
    found = (_first_bad(item, (*place, index), lengths, depth) for index, item in enumerate(rows))
    return next((bad for bad in found if bad is not None), None)


def _rows(value: Any) -> Sequence[Any] | None:
    """The items of a list, an array, a tensor or a series; None if it is something else."""
    if isinstance(value, list | tuple):
        return value
    return list(value) if hasattr(value, "tolist") and getattr(value, "ndim", False) else None


def _what_is_wrong(value: Any) -> str | None:
    """Words for what is no number that torch takes; None if it is one, or a list."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return "null (None)"
    if isinstance(value, str):
        return f"text, {_short(str(value))}"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return f"a whole number of more than 64 bits, {_short(value)}"
    if isinstance(value, int | float | complex | np.number | np.bool_) or _rows(value) is not None:
        return None
    if isinstance(value, Tensor | np.ndarray):  # without dimensions
        return None if isinstance(value, Tensor) else _what_is_wrong(value.item())
    return f"a value of type {type(value).__name__}"


def _short(value: Any) -> str:
    return reprlib.repr(value)


def _told(bad: BadValue, where: str, levels: tuple[str, ...]) -> str:
    """Where the bad value is and what, in words."""
    if not levels and bad.length is not None:
        first = [0] * len(bad.place)
        return (
            f"{where} holds lists of different lengths, {bad.expected_length} at {first} and {bad.length} at "
            f"{list(bad.place)}"
        )
    if not levels:
        return f"{where} holds {bad.what}, at {list(bad.place)}"
    named = ", ".join(f"{level} {index}" for level, index in zip(levels, bad.place, strict=False))
    if bad.length is None:
        return f"{where}: {named} is {bad.what}"
    noun = levels[len(bad.place)] + ("" if bad.length == 1 else "s")
    return f"{where}: {named} has {bad.length} {noun}, the first has {bad.expected_length}"


def nonfinite_places(numbers: Tensor) -> Tensor:
    """Where NaN, infinity or numbers beyond float32 are, as rows of indices (K, dimensions)."""
    if not numbers.is_floating_point():
        return torch.empty(0, numbers.dim(), dtype=torch.int64)
    wrong = ~(numbers.abs() <= LARGEST) if numbers.dtype == torch.float64 else ~torch.isfinite(numbers)
    return wrong.nonzero()


NOT_FINITE = f"NaN or infinity (beyond {LARGEST:.1e})"
