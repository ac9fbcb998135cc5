"""CSV files: a row of names, then rows of numbers and text."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from desp.data.tables import Record, Table, check_columns
from desp.errors import DataError

DELIMITERS = ",;\t"

_QUOTED = re.compile(r'"[^"]*"')
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(?:\.\d{3})*,\d+")


def open_csv(path: Path, id_column: str | None = None) -> Table:
    """A CSV file as a table: cells become numbers, text, or None where they are empty.

    Args:
        path: of the file.
        id_column: its cells stay text, as numbers would lose leading zeros and digits.

    Raises:
        DataError: the file cannot be read, or has no names of columns; while it is read: a row of another length.
    """
    columns = check_columns(path, csv_columns(path))
    if not columns:
        raise DataError(f"{path} is empty. Its first row must have the names of the columns.")
    return Table(path, "line", columns, lambda: _typed_rows(path, id_column))


def csv_columns(path: Path) -> tuple[str, ...]:
    """The names in the first row; none if the file is empty."""
    _, names = next(_lines(path), (1, []))
    return tuple(name.strip() for name in names)


def csv_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The cells of each row by the names of their columns, with the number of its line; empty lines are left out.

    Raises:
        DataError: the file cannot be read, or a row has another length than the first.
    """
    lines = _lines(path)
    columns = [name.strip() for name in next(lines, (1, []))[1]]
    for number, cells in lines:
        if len(cells) != len(columns):
            raise DataError(f"{path}, line {number}: expected {len(columns)} values, got {len(cells)}.")
        yield number, dict(zip(columns, cells, strict=True))


def cell_value(text: str) -> float | int | str | None:
    """A cell as a number, as text, or None if it is empty."""
    text = text.strip()
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text or None


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    begins = 1
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            head = next((line for line in file if line.strip()), "")
            file.seek(0)
            reader = csv.reader(file, delimiter=_delimiter(path, head), strict=True)
            for row in reader:
                if row:
                    yield reader.line_num, row
                begins = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}, line {begins}: the row that begins here cannot be read as CSV ({error}). Close its quotes; "
            "within quotes, write a quote twice."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as CSV: {error}.") from error


def _delimiter(path: Path, head: str) -> str:
    """A tab in .tsv files that have one, else the most frequent delimiter outside of quotes."""
    head = _QUOTED.sub("", head)
    return "\t" if path.suffix.lower() == ".tsv" and "\t" in head else max(DELIMITERS, key=head.count)


def _typed_rows(path: Path, id_column: str | None) -> Iterator[tuple[int, Record]]:
    for number, cells in csv_rows(path):
        yield (
            number,
            {
                name: (text.strip() or None) if name == id_column else _typed(text, name, f"{path}, line {number}")
                for name, text in cells.items()
            },
        )


def _typed(text: str, column: str, where: str) -> float | int | str | None:
    if _DECIMAL_COMMA.fullmatch(text.strip()):
        raise DataError(
            f"{where}: '{text}' in the column '{column}' has a decimal comma. Write numbers with a decimal point."
        )
    return cell_value(text)
