"""Sets of a user's own data: every number is seen, axes have numbers, and the input stands beside each row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from desp.comparison.features import Feature
from desp.errors import RunError
from desp.report.figures.boxes import Image, image_of
from desp.report.figures.legend import draw_colour_bar, draw_legend
from desp.report.figures.panels import (
    MARKERS,
    Layout,
    View,
    class_colour,
    colour_map,
    draw_input,
    draw_pair,
    draw_set,
    numbered_axes,
)
from desp.report.figures.points import Points, as_points, window
from desp.report.figures.style import (
    INK,
    MAX_VECTOR_POINTS,
    MUTED,
    PREDICTION,
    SAMPLES_RECOVERY_HINT,
    TINT,
    TRUTH,
    ImageFormat,
    new_figure,
    plain_frame,
    render,
    style,
)
from desp.report.numbers import short_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Most columns of true and of predicted sets, where each set has a panel of its own.
_MOST_TRUTH, _MOST_PREDICTIONS = 2, 4
# Elements of more numbers are drawn as profiles, not as pairs of features.
_MOST_IN_PAIRS = 8
# Numbers of an input beside its row.
_MOST_INPUTS = 6
# Inches of panels, of the text beside a row, and between panels.
_PANEL, _WIDE_PANEL, _TEXT, _GAP = 1.3, 1.9, 1.55, 0.16
_BETWEEN_PAIRS, _WIDEST_PANEL, _PAGE = 0.5, 2.6, 8.6


def layout_of(features: Sequence[Feature]) -> Layout:
    """The layout in which every number is seen, and categories too unless there are many numbers (profiles)."""
    numbers = sum(not feature.classes for feature in features)
    categories = len(features) - numbers
    if numbers <= 1:
        return ("strip" if categories else "line") if numbers else "counts"
    if numbers == 2 or (numbers == 3 and not categories):
        return "plane"
    return "pairs" if numbers <= _MOST_IN_PAIRS else "profile"


def layout_note(features: Sequence[Feature]) -> str:
    """What a picture of such sets shows, in words."""
    numbers = [feature.label for feature in features if not feature.classes]
    notes = {
        "line": "Each tick is one element.",
        "counts": "Each point is one element; a row holds those of one category.",
        "strip": "Each point is one element, in the row of its category.",
        "plane": "Each point is one element"
        + (f"; its colour is {numbers[2]}." if len(numbers) == 3 else "; colour and shape are its category.")
        if len(numbers) == 3 or len(features) > len(numbers)
        else "Each point is one element.",
        "pairs": "Each panel shows two features: circles are the true set, crosses up to six predictions.",
        "profile": "Each line is one element: its features from left to right.",
    }
    return f"{notes[layout_of(features)]} All rows share the scales of their columns."


@dataclass(frozen=True)
class _Row:
    """An example to draw."""

    texts: list[str]
    image: Image | None
    elements: Points | None
    truth: list[Points]
    predictions: list[Points]


def own_sets_picture(shown: dict[str, Any], image_format: ImageFormat = "svg") -> bytes:
    """Draw examples of own data: one row an input, with the input, true sets and predictions.

    Args:
        shown: `axes` with `features`, and `examples`, as samples.json and evaluation.json have them.
        image_format: of the picture.

    Raises:
        RunError: there are no examples, or a set cannot be read.
    """
    features = [Feature.from_json(item) for item in shown["axes"]["features"]]
    rows = [_row(item, shown["axes"].get("input_names") or ()) for item in shown.get("examples") or []]
    if not rows:
        raise RunError(f"There are no examples to draw. {SAMPLES_RECOVERY_HINT}")
    truth, predictions = (
        [item for row in rows for item in getattr(row, name)] for name in ("truth", "predictions")
    )
    sets = [item for item in truth + predictions if len(item)]
    if any(item.shape[1] != features[-1].columns[1] for item in sets):
        raise RunError(
            "A set to draw has another number of features than its axes have names. Score the run again."
        )
    raster = sum(map(len, sets)) > MAX_VECTOR_POINTS
    limits = (
        window(truth, predictions) if sets else np.array([[0.0], [1.0]]).repeat(features[-1].columns[1], axis=1)
    )
    view = View.of(features, limits, sets, raster)
    layout = layout_of(features)
    with style():
        figure = _draw_pairs(rows, view) if layout == "pairs" else _draw_sets(rows, view, layout)
        if layout == "plane":
            _explain_colours(figure, view)
        return render(figure, image_format, dpi=140)


def _explain_colours(figure: "Figure", view: View) -> None:
    """Below all panels: which colour and marker a category has, or which numbers colours stand for."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    if view.categories:
        handles = [
            Line2D([], [], linestyle="", marker=MARKERS[n % len(MARKERS)], color=class_colour(n), label=name)
            for n, name in enumerate(view.category_names)
        ]
        draw_legend(figure, handles, gap=0.42)
    elif len(view.numbers) == 3:
        feature = view.numbers[2]
        limits = view.range_of(feature)
        draw_colour_bar(figure, limits, colour_map(), feature.label, gap=0.52, ticks=MaxNLocator(4))


def _row(example: dict[str, Any], names: Sequence[str]) -> _Row:
    group, score = example.get("group"), example.get("energy_score")
    texts = [str(text) for text in (group, example.get("label")) if text]
    if score is not None:
        texts.append(f"energy score {short_number(score)}")
    elements = example.get("input_elements")
    uri = example.get("input_image")
    drawn = elements is not None or uri is not None
    return _Row(
        texts if drawn else texts + input_texts(example.get("input"), names),
        image_of(uri),
        None if elements is None else as_points(elements),
        [as_points(item) for item in example.get("truth") or []],
        [as_points(item.get("set") or []) for item in example.get("samples") or []],
    )


def input_texts(values: Any, names: Sequence[str]) -> list[str]:
    """The numbers and categories of a small input, each with its name; none where it is more than that."""
    if isinstance(values, Mapping):
        names, values = list(values), list(values.values())
    if not isinstance(values, list) or not all(isinstance(value, int | float | str) for value in values):
        return []
    known = list(names) if len(names) == len(values) else [f"input {place}" for place in range(len(values))]
    written = [short_number(value) if isinstance(value, float) else str(value) for value in values]
    texts = [f"{name} = {value}" for name, value in zip(known, written, strict=True)]
    more = len(texts) - _MOST_INPUTS
    return texts if more <= 0 else [*texts[:_MOST_INPUTS], f"and {more} more"]


# -- a panel for each set --------------------------------------------------------------------------------


def _draw_sets(rows: list[_Row], view: View, layout: Layout) -> "Figure":
    """True sets on the left, predictions on the right, each in a panel of its own."""
    left = min(_MOST_TRUTH, max(len(row.truth) for row in rows))
    most = _MOST_PREDICTIONS if left else _MOST_PREDICTIONS + _MOST_TRUTH
    right = min(most, max(len(row.predictions) for row in rows))
    panel = _WIDE_PANEL if layout in ("profile", "strip", "counts") else _PANEL
    height = {
        "line": 0.45,
        "strip": 0.25 + 0.14 * len(view.category_names),
        "counts": 0.25 + 0.14 * len(view.category_names),
    }
    grid = _Grid(rows, [panel] * (left + right), height.get(layout, _PANEL if layout != "profile" else 1.0))
    for number, row in enumerate(rows):
        cells = [(place, item, True) for place, item in enumerate(row.truth[:left])]
        cells += [(left + place, item, False) for place, item in enumerate(row.predictions[:right])]
        for column, points, is_truth in cells:
            axes = grid.panel(number, column)
            axes.set_facecolor(TINT if is_truth else "none")
            draw_set(axes, points, TRUTH if is_truth else PREDICTION, view, layout)
            numbered_axes(axes, view, layout, below=number == len(rows) - 1, beside=column == 0)
    heads = [("truth", TRUTH, 0, left), ("predictions", PREDICTION, left, left + right)]
    for text, colour, first, end in heads:
        if first < end:
            grid.head(text, colour, first, end)
    return grid.figure


# -- a panel for each pair of features -------------------------------------------------------------------


def _draw_pairs(rows: list[_Row], view: View) -> "Figure":
    """The true set and all predictions in the same panels, one for each pair of features."""
    pairs = view.pairs()
    # Few panels are wider, as a picture fills the page.
    width = min(_WIDEST_PANEL, max(_PANEL, (_PAGE - _TEXT) / len(pairs) - _BETWEEN_PAIRS))
    grid = _Grid(rows, [width] * len(pairs), _PANEL, between=_BETWEEN_PAIRS)
    for number, row in enumerate(rows):
        for column, pair in enumerate(pairs):
            axes = grid.panel(number, column)
            draw_pair(axes, row.truth[:1], row.predictions, view, pair, below=number == len(rows) - 1)
    known = any(row.truth for row in rows)
    grid.head("truth (circles) and predictions (crosses)" if known else "predictions", INK, 0, len(pairs))
    return grid.figure


class _Grid:
    """Panels in rows, with the input written or drawn on their left.

    Args:
        rows: examples.
        widths: of the columns, in inches.
        height: of a row.
        between: inches between columns.
    """

    def __init__(self, rows: list[_Row], widths: list[float], height: float, between: float = _GAP) -> None:
        drawn = any(row.image is not None or row.elements is not None for row in rows)
        lines = max(len(row.texts) for row in rows)
        self.height = max(height, 0.16 * lines + 0.05, 0.9 if drawn else 0.0)
        self.panel_height, self.between, self.widths = height, between, widths
        self.left = _TEXT + (1.15 if drawn else 0.0) + 0.55
        self.step = self.height + 0.22
        self.total = self.left + sum(widths) + between * (len(widths) - 1)
        self.figure = new_figure(self.total, self.step * len(rows))
        for number, row in enumerate(rows):
            self._write(number, row)

    def _place(self, number: int, x: float, width: float, height: float) -> tuple[float, float, float, float]:
        """Left, bottom, width and height as shares of the figure, from inches; rows begin at the top."""
        whole = self.figure.get_figheight()
        bottom = whole - number * self.step - height
        return x / self.total, bottom / whole, width / self.total, height / whole

    def panel(self, number: int, column: int) -> Any:
        """An empty panel in a row and column."""
        x = self.left + sum(self.widths[:column]) + self.between * column
        return self.figure.add_axes(self._place(number, x, self.widths[column], self.panel_height))

    def head(self, text: str, colour: str, first: int, end: int) -> None:
        """A heading above the middle of some columns."""
        begins = self.left + sum(self.widths[:first]) + self.between * first
        ends = self.left + sum(self.widths[:end]) + self.between * (end - 1)
        x = (begins + ends) / 2 / self.total
        above = 1 + 0.08 / self.figure.get_figheight()
        self.figure.text(x, above, text, ha="center", va="bottom", fontweight="bold", color=colour)

    def _write(self, number: int, row: _Row) -> None:
        whole = self.figure.get_figheight()
        for line, text in enumerate(row.texts):
            y = 1 - (number * self.step + 0.02 + 0.16 * line) / whole
            colour = INK if line == 0 else MUTED
            self.figure.text(0, y, text, ha="left", va="top", fontsize=7.5, color=colour, parse_math=False)
        if row.image is None and row.elements is None:
            return
        axes = self.figure.add_axes(self._place(number, _TEXT, 0.9, 0.9))
        plain_frame(axes)
        axes.set_title("input", fontsize=7, color=MUTED, pad=2)
        draw_input(axes, row.image, row.elements)
