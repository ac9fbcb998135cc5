"""The features of an element for people to read: names, units, a category as one feature. Loads no torch."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from desp.settings import DataDescription

# Between the name of a category and one of its classes, as in kind=apple.
CATEGORY_SEPARATOR = "="


@dataclass(frozen=True)
class Feature:
    """A number, or a category that takes several one-hot columns.

    Attributes:
        name: of the feature.
        unit: of its numbers; empty if it is not known.
        columns: (first, end), end exclusive.
        classes: names of the classes of a category; empty for a number.
    """

    name: str
    unit: str
    columns: tuple[int, int]
    classes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its name with its unit."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    def as_json(self) -> dict[str, Any]:
        """As a file holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Feature":
        """From what `as_json` gave, read again."""
        first, end = value["columns"]
        return cls(str(value["name"]), str(value["unit"]), (first, end), tuple(map(str, value["classes"])))


def features_of(description: DataDescription, count: int, order: Sequence[int] | None = None) -> list[Feature]:
    """The features of an element of `count` columns.

    Args:
        description: what is known of them.
        count: D.
        order: of the columns, if it is not the order of the data; columns of a category stay together.
    """
    order = list(range(count)) if order is None else list(order)
    names = description.feature_columns or tuple(f"column {number}" for number in range(count))
    units = description.feature_units or ("",) * count
    groups = {first: (number, end) for number, (first, end) in enumerate(description.categories)}
    found, place = [], 0
    while place < count:
        column = order[place]
        if column in groups:
            number, end = groups[column]
            name, classes = _category(description, number)
            found.append(Feature(name, "", (place, place + end - column), classes))
        else:
            found.append(Feature(names[column], units[column], (place, place + 1)))
        place = found[-1].columns[1]
    return found


def _category(description: DataDescription, number: int) -> tuple[str, tuple[str, ...]]:
    """The name of a category and of its classes, by the names of its columns as far as they are known."""
    first, end = description.categories[number]
    columns = description.feature_columns[first:end]
    together = {column.partition(CATEGORY_SEPARATOR)[0] for column in columns if CATEGORY_SEPARATOR in column}
    shared = len(together) == 1 and all(CATEGORY_SEPARATOR in column for column in columns)
    several = len(description.categories) > 1
    name = together.pop() if shared else f"category {number + 1}" if several else "category"
    if number == 0 and description.class_names:
        return name, description.class_names
    if shared:
        return name, tuple(column.partition(CATEGORY_SEPARATOR)[2] for column in columns)
    return name, columns or tuple(f"class {place + 1}" for place in range(end - first))
