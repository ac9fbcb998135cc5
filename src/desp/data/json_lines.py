"""JSON lines: one object a line."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from desp.data.tables import Record, Table
from desp.errors import DataError
from desp.paths import opened


def open_json_lines(path: Path) -> Table:
    """The objects of a JSON lines file; its rows are read line by line.

    Raises:
        DataError: the file is missing; while it is read: not text, or a line is not a JSON object.
    """
    if not path.exists() or path.is_dir():
        raise DataError(f"There is no file at {path}.")
    return Table(path, "line", None, lambda: _rows(path))


def _rows(path: Path) -> Iterator[tuple[int, Record]]:
    with opened(path) as file:
        # Some programs begin a file with a byte order mark.
        lines = io.TextIOWrapper(file, encoding="utf-8-sig", newline=None)
        try:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, _record(line.removesuffix("\n"), f"{path}, line {number}")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path} is not a text file ({error}). Expected JSON lines; other formats are known by their "
                "names: .csv, .parquet, .arrow, .npz."
            ) from error
        finally:
            lines.detach()  # whoever opened the file closes it


def _record(line: str, where: str) -> Record:
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits, or nested too deep
        raise DataError(
            f"{where}: not valid JSON ({error}). Each line must be one JSON object; other formats are known by "
            "their names: .csv, .parquet, .arrow, .npz."
        ) from error
    if not isinstance(record, dict):
        raise DataError(f'{where}: expected a JSON object like {{"input": ...}}, got {line.strip()[:60]}')
    return record
