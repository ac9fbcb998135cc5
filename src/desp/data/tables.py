"""The one form of all files of rows: records, from the names of columns or fields to values."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from desp.errors import DataError

Record = dict[str, Any]
"""A row: numbers, text, lists of them, or None where a value is missing."""


@dataclass(frozen=True)
class Table:
    """The rows of a file, or of several.

    Attributes:
        path: of the file or folder.
        unit: what messages call a row: "line" in text files, counted from 1, else "row", counted from 0.
        columns: names of the columns. None for JSON lines and () for a list of dicts: rows have their own.
        rows: begins a new pass over all rows, each with its number.
    """

    path: Path
    unit: str
    columns: tuple[str, ...] | None
    rows: Callable[[], Iterator[tuple[int, Record]]]

    def where(self, number: int) -> str:
        """The name of a row in messages."""
        return f"{self.path}, {self.unit} {number}"

    def require_column(self, name: str, fix: str) -> None:
        """Check that a column is there.

        Raises:
            DataError: it is not; the message lists those that are.
        """
        if self.columns is not None and name not in self.columns:
            raise DataError(f"{self.path} has no column '{name}'. It has: {', '.join(self.columns)}. {fix}")


def field_of(record: Mapping[str, Any], name: str, where: str) -> Any:
    """A field of a row, or an error that lists what is there."""
    if name not in record:
        present = ", ".join(sorted(record)) or "nothing"
        raise DataError(f"{where}: the field '{name}' is missing (found: {present}).")
    return record[name]


def check_columns(path: Path, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Check the names of columns.

    Raises:
        DataError: one has no name, or two have the same.
    """
    if "" in columns:
        raise DataError(f"{path}: column {columns.index('')} has no name. Name it in the first row.")
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise DataError(f"{path} has two columns '{twice[0]}'. Give each a name of its own.")
    return columns
