"""The same examples written in every format of tables: for tests."""

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

Records = Sequence[dict[str, Any]]


def write_json_lines(path: Path, records: Records) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def write_parquet(path: Path, records: Records) -> Path:
    pa.parquet.write_table(pa.Table.from_pylist(list(records)), path, row_group_size=5)
    return path


def write_arrow_file(path: Path, records: Records) -> Path:
    table = pa.Table.from_pylist(list(records))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    return path


def write_arrow_stream(path: Path, records: Records) -> Path:
    table = pa.Table.from_pylist(list(records))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    return path


def write_saved_dataset(folder: Path, records: Records) -> Path:
    """As `datasets.Dataset.save_to_disk` does, in two shards."""
    folder.mkdir()
    half = len(records) // 2
    names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    for name, part in zip(names, (records[:half], records[half:]), strict=True):
        write_arrow_stream(folder / name, part)
    state = {
        "_data_files": [{"filename": name} for name in names],
        "_fingerprint": "0123456789abcdef",
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"features": {}}))
    return folder


def write_shards(folder: Path, records: Records) -> Path:
    folder.mkdir()
    half = len(records) // 2
    write_parquet(folder / "train-00000-of-00002.parquet", records[:half])
    write_parquet(folder / "train-00001-of-00002.parquet", records[half:])
    return folder


def write_csv(path: Path, records: Records) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, records[0].keys())
        writer.writeheader()
        writer.writerows(records)
    return path


NESTED: dict[str, tuple[str, Callable[[Path, Records], Path]]] = {
    "parquet": ("data.parquet", write_parquet),
    "arrow file": ("data.arrow", write_arrow_file),
    "arrow stream": ("stream.arrow", write_arrow_stream),
    "feather": ("data.feather", write_arrow_file),
    "saved dataset": ("dataset", write_saved_dataset),
    "shards": ("shards", write_shards),
}
"""Formats with one row an example: a name, and what writes it."""

LONG: dict[str, tuple[str, Callable[[Path, Records], Path]]] = {
    "csv": (".csv", write_csv),
    "parquet": (".parquet", write_parquet),
    "arrow": (".arrow", write_arrow_file),
}
"""Formats with one row an element, beside one row an input: an ending, and what writes it."""


def write_long(folder: Path, format_: str, inputs: Records, elements: Records) -> Path:
    """Inputs and elements in a folder."""
    suffix, write = LONG[format_]
    folder.mkdir()
    write(folder / f"inputs{suffix}", inputs)
    write(folder / f"sets{suffix}", elements)
    return folder


def long_records(records: Iterable[dict[str, Any]], names: Sequence[str]) -> tuple[Records, Records]:
    """Rows of inputs, with an id, and of elements, of examples whose inputs are vectors."""
    inputs, elements = [], []
    for number, record in enumerate(records):
        inputs.append({"id": f"k{number}", **{f"x{place}": x for place, x in enumerate(record["input"])}})
        elements += [{"id": f"k{number}", **dict(zip(names, element, strict=True))} for element in record["set"]]
    return inputs, elements
