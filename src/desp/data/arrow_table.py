"""Parquet and Arrow files, and folders that Hugging Face's datasets saves: read a part at a time, by pyarrow."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from desp.data.tables import Record, Table, check_columns
from desp.errors import DataError
from desp.extras import require

PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
SAVED_DATASET, SAVED_SPLITS = "state.json", "dataset_dict.json"
"""Files that `Dataset.save_to_disk` and `DatasetDict.save_to_disk` write into their folders."""

ROWS_AT_ONCE = 1024

_INDEX = re.compile(r"__index_level_\d+__")


def open_arrow(path: Path) -> Table:
    """A Parquet or Arrow file, or a folder of Parquet files or of `datasets`, as a table.

    Raises:
        DataError: it cannot be read, or has two columns of one name.
        MissingExtraError: pyarrow is not installed.
    """
    files = arrow_files(path)
    with _reading(files[0]):
        reader = _opened(files[0])
        schema = reader.schema_arrow if hasattr(reader, "schema_arrow") else reader.schema  # Parquet has its own
    columns = check_columns(path, tuple(_data_columns(schema)))
    return Table(path, "row", columns, lambda: _rows(files))


def arrow_files(path: Path) -> list[Path]:
    """The file itself; for a folder of `datasets` its Arrow files in their order, else its Parquet files by name.

    Raises:
        DataError: the folder is not as `datasets` writes it.
    """
    if not path.is_dir():
        return [path]
    if not (path / SAVED_DATASET).exists():
        return sorted(item for item in path.iterdir() if item.suffix.lower() in PARQUET)
    try:
        state = json.loads((path / SAVED_DATASET).read_text(encoding="utf-8"))
        files = [path / item["filename"] for item in state["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path / SAVED_DATASET} is damaged ({error!r}). Save the dataset again.") from error
    if state.get("_indices_data_files"):
        raise DataError(f"{path} holds a selection of rows. Save it with flatten_indices().save_to_disk(...).")
    if not files:
        raise DataError(f"{path} holds no examples.")
    return files


def _pyarrow(name: str) -> ModuleType:
    return require(f"pyarrow.{name}", "tables", "read Parquet and Arrow files")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Context in which pyarrow's errors become a `DataError` that names the file."""
    errors = (_pyarrow("lib").ArrowException, OSError, ValueError)
    try:
        yield
    except errors as error:
        if isinstance(error, DataError):
            raise
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path} cannot be read as {_format(path)}: {reason}. Write it again.") from error


def _format(path: Path) -> str:
    return "Parquet" if path.suffix.lower() in PARQUET else "Arrow"


def _opened(path: Path) -> Any:
    """pyarrow's reader of a Parquet file, or of an Arrow file or stream."""
    if not path.is_file():
        raise DataError(f"There is no data file at {path}.")
    if path.suffix.lower() in PARQUET:
        return _pyarrow("parquet").ParquetFile(path)
    mapped = _pyarrow("lib").memory_map(str(path))
    try:
        return _pyarrow("ipc").open_file(mapped)
    except _pyarrow("lib").ArrowInvalid:
        mapped.seek(0)
        return _pyarrow("ipc").open_stream(mapped)


def _batches(reader: Any) -> Iterator[Any]:
    if hasattr(reader, "iter_batches"):  # Parquet
        yield from reader.iter_batches(batch_size=ROWS_AT_ONCE)
    elif hasattr(reader, "num_record_batches"):
        yield from (reader.get_batch(number) for number in range(reader.num_record_batches))
    else:
        yield from reader


def _rows(files: list[Path]) -> Iterator[tuple[int, Record]]:
    number = 0
    for path in files:
        for rows in _parts(path):
            for record in rows:
                yield number, record
                number += 1


def _parts(path: Path) -> Iterator[list[Record]]:
    """The rows of a file, some at a time."""
    with _reading(path):
        for batch in _batches(_opened(path)):
            for first in range(0, len(batch), ROWS_AT_ONCE):
                yield batch.slice(first, ROWS_AT_ONCE).select(_data_columns(batch.schema)).to_pylist()


def _data_columns(schema: Any) -> list[str]:
    """All columns but those in which pandas saves an index without a name."""
    return [name for name in schema.names if not _INDEX.fullmatch(name)]
