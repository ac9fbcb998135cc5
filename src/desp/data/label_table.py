"""CSV tables of items with binary labels that mark the subset to be predicted, as the JSON lines that `desp train
custom` reads."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from desp.data.csv_table import cell_value, csv_columns, csv_rows
from desp.data.tables import check_columns
from desp.errors import DataError


@dataclass(frozen=True)
class LabelTable:
    """Sets of items with one or several valid labellings.

    Attributes:
        features: names of the features of an item.
        names: of the sets, in the order of their first rows.
        items: for each set the features of its items.
        answers: for each set its valid labellings, each with a label for every item.
    """

    features: tuple[str, ...]
    names: tuple[str, ...]
    items: tuple[list[list[float]], ...]
    answers: tuple[list[list[float]], ...]

    def lines(self) -> Iterable[str]:
        """A JSON line for each set; labels are sets of one number an element."""
        for items, answers in zip(self.items, self.answers, strict=True):
            labelled = [[[label] for label in answer] for answer in answers]
            yield json.dumps({"input": items, "answers": labelled}) + "\n"


def read_label_table(path: Path, set_column: str, label_columns: Sequence[str]) -> LabelTable:
    """Read a CSV file with a row for each item.

    Args:
        path: of the file; its first row has the names of the columns.
        set_column: the column that says which set an item is in; rows of a set need not follow each other.
        label_columns: a column for each valid answer, 0 or 1; sets with fewer answers leave the others empty. All
            other columns are features.

    Raises:
        DataError: the file cannot be read, a column is missing or named twice, an item has no set, a value is no
            number, a label is neither 0 nor 1, or an answer is empty for some items of a set and not for others.
    """
    columns = _columns(path, csv_columns(path), set_column, label_columns)
    features = tuple(name for name in columns if name not in (set_column, *label_columns))
    rows = list(csv_rows(path))
    if not rows or not features:
        raise DataError(f"{path} has no {'rows below the names of its columns' if features else 'features'}.")
    sets: dict[str, list[tuple[str, list[float], list[float | None]]]] = {}
    for line, named in rows:
        where = f"{path}, line {line}"
        labels = [_label(named[name], name, where) for name in label_columns]
        item = [_number(named[name], name, where) for name in features]
        sets.setdefault(_set_name(named[set_column], set_column, where), []).append((where, item, labels))
    return LabelTable(
        features,
        tuple(sets),
        tuple([item for _, item, _ in items] for items in sets.values()),
        tuple(_answers(name, items, label_columns) for name, items in sets.items()),
    )


def _columns(path: Path, head: tuple[str, ...], set_column: str, label_columns: Sequence[str]) -> tuple[str, ...]:
    if not label_columns:
        raise DataError("There is no column of labels. Name at least one, such as --label-columns label.")
    for name in (set_column, *label_columns):
        if (set_column, *label_columns).count(name) > 1:
            raise DataError(
                f"The column '{name}' is named twice. The set and each answer have a column of their own."
            )
        if name not in head:
            raise DataError(f"{path} has no column '{name}'. It has: {', '.join(head) or 'none'}.")
    return check_columns(path, head)


def _set_name(text: str, column: str, where: str) -> str:
    name = text.strip()
    if not name:
        raise DataError(
            f"{where}: the column '{column}' is empty. Name the set of every item, or leave the row out."
        )
    return name


def _number(text: str, column: str, where: str) -> float:
    value = cell_value(text)
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(f"{where}: expected a number in the column '{column}', got '{text}'.")
    return float(value)


def _label(text: str, column: str, where: str) -> float | None:
    if not text.strip():
        return None
    value = _number(text, column, where)
    if value not in (0, 1):
        raise DataError(f"{where}: expected 0 or 1 in the column '{column}', or nothing, got '{text}'.")
    return value


def _answers(
    name: str, items: list[tuple[str, list[float], list[float | None]]], label_columns: Sequence[str]
) -> list[list[float]]:
    found = []
    for number, column in enumerate(label_columns):
        labels = [item[2][number] for item in items]
        given = [label for label in labels if label is not None]
        if given and len(given) < len(labels):
            where = next(item[0] for item in items if item[2][number] is None)
            raise DataError(f"{where}: '{column}' is empty here, but not for all items of the set '{name}'.")
        found.extend([given] if given else [])
    if not found:
        raise DataError(f"{items[0][0]}: the set '{name}' has no answer. Fill {' or '.join(label_columns)}.")
    return found
