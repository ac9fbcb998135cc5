"""A table with one row per input and a table with one row per element, joined by an id."""

import re
from array import array
from collections.abc import Callable, Container
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from desp.data.arrays import Example
from desp.data.examples import ALL_EMPTY, as_tensor
from desp.data.inputs import GatheredInputs
from desp.data.named_columns import NamedColumns, category_columns, find_names
from desp.data.row_inputs import INPUT, RowInputs
from desp.data.scratch import GrowingArray
from desp.data.tables import Record, Table
from desp.errors import DataError
from desp.settings import DataDescription

INPUTS, SETS = "inputs", "sets"
"""Names of the two files, without their endings."""

_WHOLE_NUMBER = re.compile(r"([+-]?\d+)\.0+")

TWO_TABLES_HINT = f"'{INPUTS}' has a row for each input and '{SETS}' one for each element, joined by this column."


class LongTables:
    """Inputs and elements of two tables, checked and joined.

    Args:
        inputs: one row per input.
        sets: one row per element; rows of a set need not follow each other. Inputs without rows have empty sets.
        id_column: names in both tables the input that a row belongs to.
        description: what inputs and features are; the names of the columns are added to it.
        image_size: as in `GatheredInputs`.
        always_named: a column `input` is a column like any other, even if it is the only one, as in data frames.

    Raises:
        DataError: a column or an id is missing, an id is repeated or unknown, or values cannot be used.
    """

    def __init__(
        self,
        inputs: Table,
        sets: Table,
        id_column: str,
        description: DataDescription,
        image_size: int = 0,
        *,
        always_named: bool = False,
    ) -> None:
        if description.aligned:
            raise DataError(
                f"{sets.path}: outputs can only be aligned with inputs that are sets, but in an 'inputs' table "
                "each input is a single row. `desp data labels` converts tables of items with labels."
            )
        for table in (inputs, sets):
            table.require_column(id_column, f"{TWO_TABLES_HINT} To name another one: --task.id-column NAME")
        self.inputs, self.sets, self.id_column = inputs, sets, id_column
        self.numbers, self._places = array("q"), dict[str, int]()
        self._gathered = GatheredInputs(inputs.path.parent, image_size)
        alone = set(inputs.columns or ()) <= {id_column, INPUT}
        rows = self._gather_inputs(description, by_field=alone and not always_named)
        names = self._feature_names(description)
        self._elements, self._owners = GrowingArray(np.float32), GrowingArray(np.int64)
        self._gather_elements(NamedColumns(names))
        named = replace(description, input_columns=rows.names, feature_columns=names)
        self.description = described(named, sets.columns or ())

    def _gather_inputs(self, description: DataDescription, *, by_field: bool) -> RowInputs:
        others = frozenset({self.id_column})
        rows = RowInputs.found_in(self.inputs, description.input_columns, others, by_field=by_field)
        for number, record in self.inputs.rows():
            where = self.inputs.where(number)
            name = self._id(record, where)
            if name in self._places:
                before = self.inputs.where(self.numbers[self._places[name]])
                raise DataError(f"{where}: the id '{name}' is there already, in {before}. Each input has its own.")
            self._places[name] = len(self.numbers)
            self.numbers.append(number)
            self._gathered.add(rows.value(rows.written(record, self.inputs, number), where), where)
        if not self.numbers:
            raise DataError(f"{self.inputs.path} holds no inputs. Write one row per input.")
        return rows

    def _feature_names(self, description: DataDescription) -> tuple[str, ...]:
        def features(record: Record) -> dict[str, Any]:
            return {name: value for name, value in record.items() if name != self.id_column}

        if self.sets.columns == (self.id_column,):
            raise DataError(f"{self.sets.path} has no column of features beside '{self.id_column}'.")
        rows = ((number, features(record)) for number, record in self.sets.rows())
        names = find_names(rows, description.feature_columns, self.sets.where)
        if not names:
            raise DataError(f"{self.sets.path}: {ALL_EMPTY}")
        return names

    def _gather_elements(self, features: NamedColumns) -> None:
        for number, record in self.sets.rows():
            where = self.sets.where(number)
            name = self._id(record, where)
            if name not in self._places:
                raise DataError(f"{where}: there is no input with the id '{name}' in {self.inputs.path}.")
            self._owners.add([self._places[name]])
            self._elements.add(features.numbers(record, where))

    def _id(self, record: Record, where: str) -> str:
        value = record[self.id_column]
        whole = isinstance(value, float) and value.is_integer()
        if not whole and not isinstance(value, int | str):
            raise DataError(f"{where}: expected a whole number or text as '{self.id_column}', got {value!r}.")
        text = str(int(value)) if whole else str(value)
        number = _WHOLE_NUMBER.fullmatch(text)  # as programs write whole numbers in a column with gaps
        return number[1] if number else text

    @property
    def input_kind(self) -> Any:
        """Kind of the inputs."""
        return self._gathered.kind

    def reader(self) -> Callable[[int], Example]:
        """A function from the number of an input's row to its example."""
        owners, read_input = self._owners.done(), self._gathered.reader()
        elements = self._elements.done().reshape(len(owners), -1)
        order, counts = owners.argsort(kind="stable"), np.bincount(owners, minlength=len(self.numbers))
        ends = counts.cumsum()

        def read(index: int) -> Example:
            rows = order[ends[index] - counts[index] : ends[index]]
            return read_input(index), (as_tensor(elements[rows]),)

        return read


def described(description: DataDescription, columns: Container[str]) -> DataDescription:
    """The description with the categories that its feature names tell; `columns` are the table's own names."""
    categories = description.categories or category_columns(description.feature_columns, columns)
    first = description.feature_columns[slice(*categories[0])] if categories else ()
    named = tuple(name.partition("=")[2] for name in first)
    names = description.class_names or (named if all(named) else ())
    return replace(description, categories=categories, class_names=names)


def long_files(folder: Path, suffixes: tuple[str, ...]) -> dict[str, Path]:
    """The tables of inputs and elements in a folder, by `INPUTS` and `SETS`.

    Raises:
        DataError: there are two of one kind.
    """
    found: dict[str, Path] = {}
    for item in sorted(item for item in folder.iterdir() if item.suffix.lower() in suffixes):
        if item.stem in found:
            raise DataError(
                f"{folder} holds {found[item.stem].name} and {item.name}, and only one of them can be meant. Move "
                "the other one away."
            )
        if item.stem in (INPUTS, SETS):
            found[item.stem] = item
    return found
