"""What the data are, where their shapes do not tell."""

from dataclasses import dataclass

from desp.errors import SettingsError
from desp.settings.base import InputKind, require_setting
from desp.settings.types import Checked

Columns = tuple[tuple[int, int], ...]
"""Ranges (first, end) of the columns of an element's features; end is exclusive."""

RANGES = "a tuple of ranges ((first, end), ...), end exclusive, of at least two columns each that do not overlap"
BOX = 4
POSITION = 2


@dataclass(frozen=True)
class DataDescription(Checked):
    """What inputs and the features of elements are. A feature that is not described is a number."""

    input_kind: InputKind | None = None
    """Kind of the inputs; None: image if (C, H, W), else vector. In files of rows (JSON lines, CSV, Parquet,
    Arrow) this setting is not used: how an input is written (number or list, list of lists, path) tells its
    kind."""
    aligned: bool = False
    """Inputs are sets, and element i of a set belongs to element i of its input: cardinality and order are given
    by the input."""
    categories: Columns = ()
    """One-hot features: ((2, 5),), on the command line 2 5, is columns 2, 3 and 4; predictions are one-hot too."""
    boxes: Columns = ()
    """Boxes: left, top, right, bottom: four columns each. Data are checked; predictions are not constrained."""
    class_names: tuple[str, ...] = ()
    """Names of the classes of the first categories, in the order of their columns, for pictures and tables.
    Those that `desp data boxes` writes beside a file are found."""
    position: Columns = ()
    """Where an element is, one range of two columns (0 2: columns 0 and 1), for pictures; the first two that are
    no categories if not given."""
    input_columns: tuple[str, ...] = ()
    """Names of the numbers of an input, where it is made of columns of a table. A column of text is a category and
    becomes a number 1 or 0 for each of its values, such as colour=red. Not given: `input` if there is one beside
    the set, else all columns but id and sets."""
    feature_columns: tuple[str, ...] = ()
    """Names of the features of an element: the columns of a table with one row per element, else for pictures
    and tables. Columns of text are categories, as in inputs."""
    feature_units: tuple[str, ...] = ()
    """Units of the features of an element, one for each column, for reports; "" where there is none."""

    def __post_init__(self) -> None:
        require_setting(_are_ranges(self.categories, 2), "categories", RANGES, self.categories)
        boxes_fit = _are_ranges(self.boxes, BOX, BOX)
        require_setting(
            boxes_fit, "boxes", "a tuple of ranges of four columns, ((first, first + 4), ...)", self.boxes
        )
        position_fits = _are_ranges(self.position, POSITION, POSITION) and len(self.position) <= 1
        require_setting(
            position_fits, "position", "one range of two columns, ((first, first + 2),)", self.position
        )
        classes = [end - first for first, end in self.categories[:1]]
        names_fit = not self.class_names or [len(self.class_names)] == classes
        require_setting(
            names_fit, "class_names", "a name for each column of the first categories", self.class_names
        )
        named = (*self.categories, *self.boxes, *self.position)
        if not _are_ranges(named, 2):
            raise SettingsError(f"categories, boxes and position must not share columns, got {named!r}.")
        for name in ("input_columns", "feature_columns"):
            names: tuple[str, ...] = getattr(self, name)
            different = len(set(names)) == len(names) and all(names)
            require_setting(different, name, "names that are not empty, each once", names)
        kind_fits = not self.aligned or self.input_kind in (None, "set")
        require_setting(kind_fits, "input_kind", "set where outputs are aligned with inputs", self.input_kind)

    def columns_to_draw(self, features: int) -> list[int]:
        """All columns of an element, in the order in which pictures take them: the position first, categories
        last."""
        first, last = (
            [column for start, end in ranges for column in range(start, end)]
            for ranges in (self.position, sorted(self.categories))
        )
        return first + [column for column in range(features) if column not in (*first, *last)] + last

    def check_features(self, features: int) -> None:
        """Check that all columns lie within the features of an element.

        Raises:
            SettingsError: one does not.
        """
        for name in ("categories", "boxes", "position"):
            ranges: Columns = getattr(self, name)
            within = all(end <= features for _, end in ranges)
            require_setting(within, name, f"within the {features} features of an element", ranges)
        for name in ("feature_columns", "feature_units"):
            words: tuple[str, ...] = getattr(self, name)
            wanted = f"as many as an element has features, {features}"
            require_setting(len(words) in (0, features), name, wanted, words)


def _are_ranges(ranges: Columns, fewest: int, most: int | None = None) -> bool:
    """Whether each range has `fewest` to `most` columns, and none is in two ranges."""
    if not all(first >= 0 and fewest <= end - first <= (most or end) for first, end in ranges):
        return False
    columns = [column for first, end in ranges for column in range(first, end)]
    return len(columns) == len(set(columns))
