"""Data frames of pandas as tables, without importing pandas; and inputs and sets as pairs."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from desp.data.inputs import GatheredInputs, read_input
from desp.data.long_tables import INPUTS, SETS, LongTables
from desp.data.row_inputs import RowInputs
from desp.data.shape import DataShape
from desp.data.tables import Record, Table, check_columns
from desp.errors import DataError
from desp.sets import SetBatch
from desp.settings import DataDescription

ID = "id"
ROWS_AT_ONCE = 1024


def is_frame(value: Any) -> bool:
    """Whether something is a data frame of pandas."""
    return any(
        base.__name__ == "DataFrame" and base.__module__.partition(".")[0] == "pandas"
        for base in type(value).__mro__
    )


def has_names(value: Any) -> bool:
    """Whether inputs come with the names of their columns: a data frame, or a list of dicts."""
    return is_frame(value) or (isinstance(value, list | tuple) and bool(value) and isinstance(value[0], Mapping))


def frame_table(frame: Any, name: str, *, with_id: bool = False) -> Table:
    """A data frame as a table, `name` in messages. `with_id`: its index becomes a column `id` if it has none."""
    columns = check_columns(Path(name), tuple(map(str, frame.columns)))
    indexed = with_id and ID not in columns
    return Table(Path(name), "row", (ID, *columns) if indexed else columns, lambda: _frame_rows(frame, indexed))


def _frame_rows(frame: Any, indexed: bool) -> Iterator[tuple[int, Record]]:
    for first in range(0, len(frame), ROWS_AT_ONCE):
        part = frame.iloc[first : first + ROWS_AT_ONCE]
        known = part.astype(object).where(part.notna(), None)
        rows = zip(part.index, known.itertuples(index=False, name=None), strict=True)
        for number, (key, values) in enumerate(rows, first):
            record = {str(name): _plain(value) for name, value in zip(frame.columns, values, strict=True)}
            yield number, {ID: _plain(key), **record} if indexed else record


def _plain(value: Any) -> Any:
    """A number, text or list, whatever class pandas has for it."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def _named_table(inputs: Any) -> Table:
    if is_frame(inputs):
        return frame_table(inputs, INPUTS)
    return Table(Path(INPUTS), "row", (), lambda: _plain_records(inputs))


def _plain_records(inputs: Any) -> Iterator[tuple[int, Record]]:
    for number, record in enumerate(inputs):
        if not isinstance(record, Mapping):
            raise DataError(
                f"{INPUTS}, row {number}: expected a dict, like the first, got {type(record).__name__}. Pass "
                "dicts alone, or inputs without names alone."
            )
        yield number, {str(name): _plain(value) for name, value in record.items()}


def read_named_inputs(x: Any, shape: DataShape) -> Tensor:
    """A data frame or list of dicts as a batch of inputs (B, ...) for a predictor of `shape`.

    Raises:
        DataError: the predictor was fitted to inputs without names, or a column is missing or cannot be used.
    """
    table, inputs = _named_table(x), RowInputs(shape.description.input_columns, by_field=False)
    if not inputs.names:
        raise DataError(
            "The predictor was fitted to inputs without names of columns, so none can be found by its name. Pass "
            "numbers: frame.to_numpy()."
        )
    rows = [(table.where(number), inputs.written(record, table, number)) for number, record in table.rows()]
    values = [(inputs.value(written, where), where) for where, written in rows]
    if not values:
        return torch.zeros(0, *shape.input_shape)
    return torch.stack(
        [read_input(value, shape.input_kind, shape.input_shape, Path(), where) for value, where in values]
    )


def read_named_sets(inputs: Any, sets: Any, shape: DataShape) -> list[Tensor]:
    """A data frame with one row per element as sets (n, D), in the order of the rows of the data frame `inputs`,
    for a predictor of `shape`.

    Raises:
        DataError: the predictor was fitted to sets without names, `inputs` is no data frame, or a column or an id
            is missing or cannot be used.
    """
    names = shape.description.feature_columns
    if not names:
        raise DataError(
            "The predictor was fitted to sets without names of columns, so none can be found by its name. Pass a "
            "list of sets (n, D), one for each input, in their order; the empty set is numpy.zeros((0, D))."
        )
    if is_frame(inputs) and not len(sets):
        return [torch.zeros(0, shape.features)] * len(inputs)
    pairs, found = _joined(inputs, sets, shape.description)
    other = next((name for name in names if name not in found.feature_columns), None)
    if other is not None:
        raise DataError(f"{SETS}: the column '{other}' held numbers in training, but now it holds text.")
    return list(pairs.sets)


class Pairs(Dataset[tuple[Any, Any]]):
    """Inputs and sets as a dataset of pairs.

    Args:
        inputs, sets: with a length and items by index.
    """

    def __init__(self, inputs: Any, sets: Any) -> None:
        self.inputs, self.sets = inputs, sets

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.inputs[index], self.sets[index]


def make_pairs(
    inputs: Any, sets: Any, description: DataDescription | None = None
) -> tuple[Pairs, DataDescription | None]:
    """Inputs and sets as a dataset of pairs, and the description with the names of a data frame's columns.

    Args:
        inputs: an array or tensor (M, ...), a list, a data frame, or a list of dicts.
        sets: M sets: arrays (n, D) or lists, an array (M, N, D), a `SetBatch`; or a data frame with one row per
            element, whose index, or column `id`, says which row of the data frame `inputs` it belongs to.
        description: what inputs and features are.

    Raises:
        DataError: they are something else, or their numbers differ.
    """
    if is_frame(sets):
        return _joined(inputs, sets, description or DataDescription())
    inputs = _by_position(inputs)
    known = _by_position(sets.to_ragged() if isinstance(sets, SetBatch) else sets)
    for name, value in ((INPUTS, inputs), (SETS, known)):
        indexed = hasattr(value, "__len__") and hasattr(value, "__getitem__")
        if not indexed or isinstance(value, str | bytes | Mapping | type) or getattr(value, "ndim", 1) == 0:
            raise DataError(
                f"{name} must be an array, a tensor or a list with one item an example, got "
                f"{type(value).__name__}."
            )
    if len(inputs) != len(known):
        raise DataError(f"Expected one set for each of {len(inputs)} inputs, got {len(known)} sets.")
    if not has_names(inputs):
        return Pairs(inputs, known), description
    rows, description = _named_inputs(_named_table(inputs), description or DataDescription())
    return Pairs(rows, known), description


def _by_position(value: Any) -> Any:
    """A pandas series as a list, as indices of a series are labels and not positions."""
    return list(value) if hasattr(value, "iloc") and not is_frame(value) else value


def _named_inputs(table: Table, description: DataDescription) -> tuple[list[Tensor], DataDescription]:
    found = RowInputs.found_in(table, description.input_columns, frozenset({ID}), by_field=False)
    gathered, count = GatheredInputs(Path()), 0
    for number, record in table.rows():
        where, count = table.where(number), count + 1
        gathered.add(found.value(found.written(record, table, number), where), where)
    read = gathered.reader()
    described = replace(description, input_columns=found.names, input_kind=gathered.kind)
    return [read(index) for index in range(count)], described


def _joined(inputs: Any, sets: Any, description: DataDescription) -> tuple[Pairs, DataDescription]:
    if not is_frame(inputs):
        raise DataError(
            "Elements in a data frame belong to inputs in another one, by index or by a column 'id'. Pass both as "
            f"data frames, or sets as a list; got inputs of type {type(inputs).__name__}."
        )
    of_inputs, elements = frame_table(inputs, INPUTS, with_id=True), frame_table(sets, SETS, with_id=True)
    tables = LongTables(of_inputs, elements, ID, description, always_named=True)
    read = tables.reader()
    examples = [read(index) for index in range(len(tables.numbers))]
    described = replace(tables.description, input_kind=tables.input_kind)
    return Pairs([x for x, _ in examples], [answers[0] for _, answers in examples]), described
