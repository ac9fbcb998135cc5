"""Inputs of rows: a field `input`, or columns with names of their own."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from desp.data.named_columns import NamedColumns, find_names, split_name
from desp.data.tables import Record, Table, field_of
from desp.errors import DataError

INPUT, ANSWERS = "input", "answers"


@dataclass(frozen=True)
class RowInputs:
    """How the input of a row is found.

    Attributes:
        names: of the input's numbers, where it is made of columns; empty where the field `input` holds it.
        others: columns that are no part of inputs.
        by_field: whether a field `input` is the whole input; else it is a column like any other.
    """

    names: tuple[str, ...] = ()
    others: frozenset[str] = frozenset()
    by_field: bool = True

    @classmethod
    def found_in(
        cls, table: Table, wanted: Sequence[str], others: frozenset[str], *, by_field: bool = True
    ) -> "RowInputs":
        """How inputs are found in a table to train on; it is read once to find the values of categories.

        Args:
            table: the table.
            wanted: names of columns; by default `input`, where there is one, else all columns but `others`.
            others: columns that are no part of inputs.
            by_field: whether a field `input` is the whole input; else it is a column like any other.

        Raises:
            DataError: a column is missing, or its values cannot be used.
        """
        asked = cls(tuple(wanted), others, by_field)
        first = next(((number, asked.written(record, table, number)) for number, record in table.rows()), None)
        if first is None or not isinstance(first[1], dict):
            return cls((), others, by_field)
        if len(first[1]) == 1 and isinstance(next(iter(first[1].values())), list):  # vectors or sets in one column
            if not table.columns:  # each row has fields of its own
                deque(asked._columns_of_all(table), maxlen=0)
            return cls(tuple(first[1]), others, by_field)
        return cls(find_names(asked._columns_of_all(table), wanted, table.where), others, by_field)

    def _columns_of_all(self, table: Table) -> Iterator[tuple[int, Mapping[str, Any]]]:
        first: tuple[str, Mapping[str, Any]] | None = None
        for number, record in table.rows():
            written = self.written(record, table, number)
            if not isinstance(written, dict):
                where, got = table.where(number), str(written)[:60]
                raise DataError(f"{where}: expected an input with names, like the others, got {got}.")
            first = first or (table.where(number), written)
            if not self.names:
                _check_same_names(written, table.where(number), *first)
            yield number, written

    def written(self, record: Record, table: Table, number: int) -> Any:
        """The input of a row as it is written: a value, or a dict of columns.

        Raises:
            DataError: it is not there.
        """
        columns = dict.fromkeys(split_name(name, record)[0] for name in self.names)
        if columns and all(name in record for name in columns):
            return {name: record[name] for name in columns}
        if self.by_field and INPUT in record:
            return record[INPUT]
        where = table.where(number)
        missing = next((name for name in columns if name not in record), None)
        if missing is not None:
            raise DataError(f"{where}: there is no column '{missing}' (found: {', '.join(record) or 'none'}).")
        if table.columns is None:
            field_of(record, INPUT, where)
        return {name: value for name, value in record.items() if name not in self.others}

    def value(self, written: Any, where: str) -> Any:
        """The written input in the form that `read_input` takes; columns become a vector.

        Raises:
            DataError: a column is missing or cannot be used.
        """
        if not isinstance(written, dict) or not self.names:
            return written
        if len(self.names) == 1 and isinstance(written.get(self.names[0]), list):
            return written[self.names[0]]
        return NamedColumns(self.names).numbers(written, where)


def _check_same_names(written: Mapping[str, Any], where: str, first: str, expected: Mapping[str, Any]) -> None:
    if written.keys() != expected.keys():
        name = sorted(written.keys() ^ expected.keys())[0]
        has, lacks = (where, first) if name in written else (first, where)
        raise DataError(
            f"{where}: all inputs must have the same names, but '{name}' is in {has} and not in {lacks}. Write it "
            "everywhere or nowhere, or name those to use: input_columns."
        )
