"""JSON lines: one object a line."""

import io
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from desp.data.tables import Record, Table
from desp.errors import DataError
from desp.paths import opened

_BEGINS_ARRAY = re.compile(r"\s*\[\s*(\{|$)")
"""The first line of a file that is one array of objects."""


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
                    yield number, _record(line.removesuffix("\n"), path, number)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path} is not a text file ({error}). Expected JSON lines; other formats are known by their "
                "names: .csv, .parquet, .arrow, .npz."
            ) from error
        finally:
            lines.detach()  # whoever opened the file closes it


def _record(line: str, path: Path, number: int) -> Record:
    where = f"{path}, line {number}"
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits, or nested too deep
        if number == 1 and _BEGINS_ARRAY.match(line):
            raise _is_one_array(path) from error
        raise DataError(
            f"{where}: not valid JSON ({error}). Each line must be one JSON object; other formats are known by "
            "their names: .csv, .parquet, .arrow, .npz."
        ) from error
    if not isinstance(record, dict):
        if number == 1 and _BEGINS_ARRAY.match(line):
            raise _is_one_array(path)
        raise DataError(f'{where}: expected a JSON object like {{"input": ...}}, got {line.strip()[:60]}')
    return record


def _is_one_array(path: Path) -> DataError:
    command = "jq -c '.[]'"
    if path.is_file():  # no pipe
        other = path.with_suffix(".jsonl")
        other = path.with_name(f"{path.stem}-lines.jsonl") if other.exists() else other
        command += f" {shlex.quote(str(path))} > {shlex.quote(str(other))}"
    return DataError(
        f"{path}, line 1: the file is one JSON array, but each object must be on a line of its own. To write them "
        f"so: {command}"
    )
