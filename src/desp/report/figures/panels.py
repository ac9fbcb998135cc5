"""Single panels of a user's own sets."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from desp.comparison.features import Feature
from desp.report.figures.boxes import Image
from desp.report.figures.points import Points, outside
from desp.report.figures.style import (
    FRAME,
    INK,
    MUTED,
    PREDICTION,
    TRUTH,
    note_empty,
    note_outside,
    plain_frame,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Layout = Literal["line", "counts", "strip", "plane", "pairs", "profile"]
"""How a set is drawn; which one depends on the number of its features."""

# Markers of classes, for who cannot tell their colours; one less than there are colours, so that no two classes
# have both the same.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# With more combinations of categories, only those of the first are distinguished.
_MOST_CATEGORIES = 14
# Neither too light for white ground nor too dark for black. None is a colour of the theme: replaced by the
# theme's, two classes could get the same colour.
_COLOURS = ("#2b7bd6", "#b14fc0", "#ec7a2d")
_CLASS_COLOURS = ("#d9640a", "#1f82c4", "#0aa37a", "#cc79a7", "#b58900", "#8a6fd1", "#7f8c8d", "#c0392b")
_LONGEST_NAME = 14


@dataclass(frozen=True)
class View:
    """What all panels of a picture share.

    Attributes:
        features: of an element.
        limits: (2, D) smallest and largest shown value of each column.
        category_names: categories that elements have, each as the names of its classes; one without a name where
            there are no categories.
        most: elements of one category in a set, at most.
        by_first: whether only the classes of the first category are distinguished.
        size: of a point.
        raster: draw pixels.
    """

    features: tuple[Feature, ...]
    limits: Points
    category_names: tuple[str, ...]
    most: int
    by_first: bool
    size: float
    raster: bool

    @classmethod
    def of(cls, features: Sequence[Feature], limits: Points, sets: Sequence[Points], raster: bool) -> "View":
        """The view of all sets that are drawn."""
        most = max(map(len, sets), default=1)
        size = float(np.clip(160 / max(most, 1), 2.0, 22))
        for by_first in (False, True):
            draft = cls(tuple(features), limits, (), 1, by_first, size, raster)
            counts = [Counter(draft.category_names_of(points)) for points in sets]
            names = {name for counted in counts for name in counted}
            if len(names) <= _MOST_CATEGORIES:
                break
        largest = max((max(counted.values(), default=1) for counted in counts), default=1)
        return replace(draft, category_names=tuple(draft.in_order(names)), most=largest)

    @property
    def numbers(self) -> list[Feature]:
        """Features that are numbers."""
        return [feature for feature in self.features if not feature.classes]

    @property
    def categories(self) -> list[Feature]:
        """Features that are categories, as far as they are distinguished."""
        found = [feature for feature in self.features if feature.classes]
        return found[:1] if self.by_first else found

    def category_names_of(self, points: Points) -> list[str]:
        """The category of each element, by name."""
        if not len(points) or not self.categories:
            return [""] * len(points)
        parts = [
            [feature.classes[place] for place in points[:, slice(*feature.columns)].argmax(axis=1)]
            for feature in self.categories
        ]
        return [", ".join(names) for names in zip(*parts, strict=True)]

    def in_order(self, names: set[str]) -> list[str]:
        """Categories in the order of the first one's columns, then by name; names of classes may have commas
        themselves."""
        first = self.categories[0].classes if self.categories else ("",)
        longest = sorted(range(len(first)), key=lambda place: -len(first[place]))
        begins = {name: next(p for p in longest if f"{name}, ".startswith(f"{first[p]}, ")) for name in names}
        return sorted(names, key=lambda name: (begins[name], name))

    def categories_of(self, points: Points) -> Points:
        """The place of each element's category among all."""
        return np.array(
            [self.category_names.index(name) for name in self.category_names_of(points)], dtype=np.float64
        )

    def range_of(self, feature: Feature) -> tuple[float, float]:
        """What is shown of a number."""
        low, high = self.limits[:, feature.columns[0]]
        return float(low), float(high)

    def pairs(self) -> list[tuple[Feature, Feature | None]]:
        """Pairs of features that together show all of them; None stands for categories."""
        numbers = self.numbers
        pairs: list[tuple[Feature, Feature | None]] = [
            (numbers[place], numbers[place + 1]) for place in range(0, len(numbers) - 1, 2)
        ]
        if len(numbers) % 2:
            pairs.append((numbers[-1], numbers[0] if len(numbers) > 1 and not self.categories else None))
        elif self.categories:
            pairs.append((numbers[0], None))
        return pairs


def draw_input(axes: "Axes", image: Image | None, elements: Points | None) -> None:
    """An input that is an image, or a set, drawn by its first two features."""
    if image is not None:
        axes.imshow(image, interpolation="none", aspect="equal")
    elif elements is not None and len(elements):
        up = elements[:, 1] if elements.shape[1] > 1 else np.zeros(len(elements))
        axes.scatter(elements[:, 0], up, s=6, color=MUTED, linewidths=0)


def draw_set(axes: "Axes", points: Points, colour: str, view: View, layout: Layout) -> None:
    """One set in a panel of its own; truth and predictions have their colours."""
    plain_frame(axes)
    _set_limits(axes, view, layout)
    if len(points) == 0:
        note_empty(axes)
        return
    numbers = view.numbers
    if layout == "line":
        axes.axhline(0.5, color=FRAME, linewidth=0.8, zorder=1)
        axes.vlines(_column(points, numbers[0]), 0.2, 0.8, color=colour, linewidth=1.4, rasterized=view.raster)
    elif layout == "profile":
        places = np.arange(1, len(numbers) + 1)
        values = _profile(points, view)
        for row in values:
            axes.plot(places, row, color=colour, linewidth=0.9, alpha=0.8, rasterized=view.raster)
    elif layout == "counts":
        categories = view.categories_of(points)
        # Elements of one category stand beside each other.
        across = [int((categories[:place] == number).sum()) + 1 for place, number in enumerate(categories)]
        axes.scatter(across, categories, s=16, color=colour, linewidths=0, zorder=3)
    elif layout == "strip":
        _rows(axes, view)
        x = _column(points, numbers[0])
        axes.scatter(x, view.categories_of(points), s=18, color=colour, linewidths=0, alpha=0.9, zorder=3)
    else:
        _plane(axes, points, colour, view)
    _count_hidden(axes, points, view, layout)


def _column(points: Points, feature: Feature) -> Points:
    return points[:, feature.columns[0]]


def _rows(axes: "Axes", view: View) -> None:
    for place in range(len(view.category_names)):
        axes.axhline(place, color=FRAME, linewidth=0.5, zorder=1)


def _plane(axes: "Axes", points: Points, colour: str, view: View) -> None:
    numbers = view.numbers
    x, y = (_column(points, feature) for feature in numbers[:2])
    shared: dict[str, Any] = {"s": view.size, "linewidths": 0, "zorder": 3, "rasterized": view.raster}
    if view.categories:
        categories = view.categories_of(points)
        for number in range(len(view.category_names)):
            own = categories == number
            marker = MARKERS[number % len(MARKERS)]
            axes.scatter(x[own], y[own], color=class_colour(number), marker=marker, **shared)
    elif len(numbers) == 3:
        low, high = view.range_of(numbers[2])
        axes.scatter(x, y, c=_column(points, numbers[2]), cmap=colour_map(), vmin=low, vmax=high, **shared)
    else:
        axes.scatter(x, y, color=colour, **shared)


def class_colour(number: int) -> str:
    """The colour of a class, by its number."""
    return _CLASS_COLOURS[number % len(_CLASS_COLOURS)]


def colour_map() -> Any:
    """The colours of a third feature, visible on white and on black ground."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("own", _COLOURS)


def _shares_scale(view: View) -> bool:
    """Whether all numbers may be drawn on one axis: they have one unit, or similar ranges."""
    units = {feature.unit for feature in view.numbers}
    if len(units) == 1 and units != {""}:
        return True
    sizes = [high - low for low, high in map(view.range_of, view.numbers)]
    return max(sizes) < 5 * min(sizes)


def _profile(points: Points, view: View) -> Points:
    """The numbers of each element; each from 0 to 1 where they do not share a scale."""
    values = np.stack([_column(points, feature) for feature in view.numbers], axis=1)
    if _shares_scale(view):
        return values
    low, high = (np.array(limit) for limit in zip(*map(view.range_of, view.numbers), strict=True))
    return (values - low) / (high - low)


def _set_limits(axes: "Axes", view: View, layout: Layout) -> None:
    numbers = view.numbers
    if layout == "profile":
        axes.set_xlim(0.5, len(numbers) + 0.5)
        ranges = [view.range_of(feature) for feature in numbers]
        low, high = min(item[0] for item in ranges), max(item[1] for item in ranges)
        axes.set_ylim(*((low, high) if _shares_scale(view) else (0.0, 1.0)))
        return
    if numbers:
        axes.set_xlim(*view.range_of(numbers[0]))
    if layout == "plane":
        axes.set_ylim(*view.range_of(numbers[1]))
    elif layout in ("strip", "counts"):
        axes.set_ylim(max(len(view.category_names), 1) - 0.5, -0.5)
    else:
        axes.set_ylim(0, 1)
    if layout == "counts":
        axes.set_xlim(0.4, view.most + 0.6)


def _count_hidden(axes: "Axes", points: Points, view: View, layout: Layout) -> None:
    if layout not in ("profile", "counts"):
        drawn = [feature.columns[0] for feature in view.numbers[: 2 if layout == "plane" else 1]]
        note_outside(axes, outside(points[:, drawn], view.limits[:, drawn]))


def numbered_axes(axes: "Axes", view: View, layout: Layout, *, below: bool, beside: bool) -> None:
    """Numbers and names at the lowest row and the first column: all panels share their scales."""
    numbers = view.numbers
    if below:
        number_axis(axes, "x")
        label = "count" if layout == "counts" else "feature" if layout == "profile" else numbers[0].label
        axes.set_xlabel(label, fontsize=7.5, color=INK, labelpad=2, parse_math=False)
    if not beside:
        return
    if layout in ("strip", "counts"):
        _name_categories(axes, view)
    elif layout != "line":
        number_axis(axes, "y")
        shared = "value" if _shares_scale(view) else "share of its range"
        label = numbers[1].label if layout == "plane" else shared
        axes.set_ylabel(label, fontsize=7.5, color=INK, labelpad=2, parse_math=False)


def _name_categories(axes: "Axes", view: View) -> None:
    names = [
        name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in view.category_names
    ]
    axes.set_yticks(range(len(names)), names, fontsize=6.5, parse_math=False)
    axes.tick_params(axis="y", length=0, pad=2)


def number_axis(axes: "Axes", which: Literal["x", "y"]) -> None:
    """Give an axis a few numbers."""
    from matplotlib.ticker import MaxNLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(3))
    axes.tick_params(axis=which, labelsize=6.5, length=2, pad=2)
    axes.ticklabel_format(axis=which, style="sci", scilimits=(-3, 4))
    axis.get_offset_text().set_fontsize(6)


def draw_pair(
    axes: "Axes",
    truth: Sequence[Points],
    predictions: Sequence[Points],
    view: View,
    pair: tuple[Feature, Feature | None],
    *,
    below: bool,
) -> None:
    """The true set and all predictions by two of their features, or by one and their category."""
    plain_frame(axes)
    across, up = pair
    axes.set_xlim(*view.range_of(across))
    if up is None:
        axes.set_ylim(max(len(view.category_names), 1) - 0.5, -0.5)
        _rows(axes, view)
    else:
        axes.set_ylim(*view.range_of(up))
    looks: list[tuple[Sequence[Points], dict[str, Any]]] = [
        (predictions, {"s": 9, "color": PREDICTION, "marker": "x", "linewidths": 0.7, "alpha": 0.6, "zorder": 2}),
        (truth, {"s": 26, "facecolors": "none", "edgecolors": TRUTH, "linewidths": 1.2, "zorder": 3}),
    ]
    for sets, look in looks:
        for points in sets:
            if len(points):
                y = view.categories_of(points) if up is None else _column(points, up)
                axes.scatter(_column(points, across), y, rasterized=view.raster, **look)
    if up is None:
        _name_categories(axes, view)
    else:
        number_axis(axes, "y")
        axes.set_ylabel(up.label, fontsize=7.5, color=INK, labelpad=1, parse_math=False)
    number_axis(axes, "x")
    if below:
        axes.set_xlabel(across.label, fontsize=7.5, color=INK, labelpad=2, parse_math=False)
    else:
        axes.set_xticklabels([])
