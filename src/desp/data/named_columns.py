"""Columns of numbers and categories as vectors of numbers.

Each number has a name. A number has the name of its column. A category has one number for each value:
``colour=red`` is 1 where the column ``colour`` has the value ``red``, else 0. So a tuple of names is all that is
needed to read other rows in the same way.
"""

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from desp.errors import DataError
from desp.settings import Columns
from desp.tensors import LARGEST, NOT_FINITE

MOST_CATEGORIES = 100
"""A column of text with more different values holds names or sentences, and is no category."""

_BOOLEANS = {"true": 1, "false": 0}
"""Booleans as text, as CSV files have them."""

_MISSING = frozenset({"nan", "na", "n/a", "<na>", "null", "none"})
"""What programs write where a number is missing, in lower case."""

NOT_FILLED = "Missing values are not filled in: repair it, or leave the row out."


@dataclass(frozen=True)
class NamedColumns:
    """How rows become vectors.

    Attributes:
        names: of the numbers of the vector, in their order.
    """

    names: tuple[str, ...]

    def numbers(self, record: Mapping[str, Any], where: str) -> list[float]:
        """The numbers of a row, which may have other columns too.

        Raises:
            DataError: a column or value is missing, is no number, or no known category; `where` names the row.
        """
        found: list[float] = []
        for column, categories in self._parts(record, where):
            value = _present(record, column, where)
            found += (
                [_number(value, column, where)]
                if categories is None
                else _one_hot(value, column, categories, where)
            )
        return found

    def _parts(self, record: Mapping[str, Any], where: str) -> Sequence[tuple[str, tuple[str, ...] | None]]:
        """The columns in order, each with its values if it is a category, else None."""
        parts: dict[str, list[str] | None] = {}
        for name in self.names:
            column, value = split_name(name, record)
            if value is None:
                if column in parts:
                    raise DataError(f"{where}: the column '{column}' is named as a number and as a category.")
                parts[column] = None
            else:
                values = parts.setdefault(column, [])
                if values is None:
                    raise DataError(f"{where}: the column '{column}' is named as a number and as a category.")
                if values and next(reversed(parts)) != column:
                    raise DataError(
                        f"{where}: values of the column '{column}' are named with another column between them, "
                        f"'{next(reversed(parts))}'. Name them one after another."
                    )
                values.append(value)
        return [(column, None if values is None else tuple(values)) for column, values in parts.items()]


def split_name(name: str, columns: Container[str]) -> tuple[str, str | None]:
    """The column that a number comes from, and for a category the value for which the number is 1."""
    if name in columns:
        return name, None
    column, equals, value = name.partition("=")
    return (column, value) if equals else (name, None)


def _present(record: Mapping[str, Any], column: str, where: str) -> Any:
    if column not in record:
        raise DataError(f"{where}: there is no column '{column}' (found: {', '.join(record) or 'none'}).")
    value = record[column]
    if value is None or (isinstance(value, float) and math.isnan(value)) or _is_blank(value):
        raise DataError(f"{where}: the column '{column}' has no value. {NOT_FILLED}")
    return value


def _means_missing(value: Any) -> bool:
    """Whether text stands for a missing number; in a column of text it may be a category."""
    return isinstance(value, str) and value.strip().lower() in _MISSING


def _no_number(column: str, value: Any, where: str) -> DataError:
    return DataError(f"{where}: the column '{column}' has no value in this row ({value!r}). {NOT_FILLED}")


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _number(value: Any, column: str, where: str) -> float:
    if isinstance(value, str):
        value = _BOOLEANS.get(value.lower(), value)
    if _means_missing(value):
        raise _no_number(column, value, where)
    if not isinstance(value, int | float):
        raise DataError(f"{where}: expected a number in the column '{column}', got {value!r}. {NOT_FILLED}")
    if not abs(value) <= LARGEST:
        raise DataError(f"{where}: the column '{column}' holds {NOT_FINITE}. Remove or repair it.")
    return float(value)


def _one_hot(value: Any, column: str, categories: tuple[str, ...], where: str) -> list[float]:
    if str(value) not in categories:
        known = ", ".join(categories)
        raise DataError(f"{where}: the column '{column}' is '{value}', but its known values are: {known}.")
    return [float(str(value) == category) for category in categories]


@dataclass
class _Seen:
    """What a column held so far."""

    name: str
    text: bool | None = None
    first: str = ""
    first_value: Any = None
    values: set[str] = field(default_factory=set)

    def add(self, record: Mapping[str, Any], where: str) -> None:
        value = _present(record, self.name, where)
        if not isinstance(value, int | float | str):
            raise DataError(
                f"{where}: expected a number or text in the column '{self.name}', got {type(value).__name__}."
            )
        text = isinstance(value, str)
        if self.text is None:
            self.text, self.first, self.first_value = text, where, value
        elif text != self.text:
            if _means_missing(value):
                raise _no_number(self.name, value, where)
            if self.values and all(map(_means_missing, self.values)):
                raise _no_number(self.name, self.first_value, self.first)
            before, now = ("text", "a number") if self.text else ("a number", "text")
            raise DataError(
                f"{where}: the column '{self.name}' holds {now}, {value!r}, but {before} in {self.first}. "
                f"{NOT_FILLED}"
            )
        if isinstance(value, str):
            self.values.add(value)
        if len(self.values) > MOST_CATEGORIES:
            raise DataError(
                f"{where}: the column '{self.name}' holds text of more than {MOST_CATEGORIES} different values, "
                "which is no category. Leave it out: name the other columns."
            )

    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={value}" for value in sorted(self.values)) if self.text else (self.name,)


def find_names(
    rows: Iterable[tuple[int, Mapping[str, Any]]], wanted: Sequence[str], where: Callable[[int], str]
) -> tuple[str, ...]:
    """The names of the numbers that columns become; all rows are read, to find the values of categories.

    Args:
        rows: with their numbers.
        wanted: columns; names of numbers of categories, such as ``colour=red``, stay as they are. All columns of
            the first row if empty.
        where: names a row by its number.

    Raises:
        DataError: a column is missing, has missing values, or holds neither numbers nor a few different texts.
    """
    seen: list[_Seen | str] | None = None
    for number, record in rows:
        if seen is None:
            seen = [name if split_name(name, record)[1] is not None else _Seen(name) for name in wanted or record]
            if not seen:
                raise DataError(f"{where(number)}: there are no columns of the input.")
        for item in seen:
            if isinstance(item, _Seen):
                item.add(record, where(number))
    return tuple(name for item in seen or () for name in (item.names() if isinstance(item, _Seen) else (item,)))


def category_columns(names: Sequence[str], columns: Container[str]) -> Columns:
    """Ranges of neighbouring numbers that are the values of one category, two or more.

    Args:
        names: of the numbers.
        columns: names of the table's columns; a name among them is a number, even if it contains =.
    """
    found: list[tuple[int, int]] = []
    parts = [split_name(name, columns) for name in names]
    first = 0
    for place in range(1, len(parts) + 1):
        column, value = parts[first]
        if place == len(parts) or parts[place][0] != column:
            if value is not None and place - first > 1:
                found.append((first, place))
            first = place
    return tuple(found)
