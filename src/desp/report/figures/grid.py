"""Grids of sets: predictions beside the truth, and single test sets beside what was predicted for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from desp.errors import RunError
from desp.report.figures.boxes import Image, box_window, class_legend, classes_of, draw_boxes, draw_image, image_of
from desp.report.figures.legend import draw_colour_bar
from desp.report.figures.panels import number_axis
from desp.report.figures.points import Axes2D, Points, as_points, by_angle, outside, window
from desp.report.figures.style import (
    COLOUR_MAP,
    FRAME,
    INK,
    MAX_VECTOR_POINTS,
    MUTED,
    PREDICTION,
    SAMPLES_RECOVERY_HINT,
    TINT,
    TRUTH,
    ImageFormat,
    new_figure,
    note_empty,
    note_outside,
    plain_frame,
    render,
    style,
)
from desp.report.numbers import is_number, short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Most columns of true and of predicted sets.
_MOST_TRUTH, _MOST_PREDICTIONS = 3, 6
_GAP = 0.28  # between groups of columns, as a share of a panel
_NUMBERS = 0.5  # inches for the numbers beside the first column


@dataclass(frozen=True)
class _Cell:
    """A set in a panel of its own; truth has a tinted ground and another colour."""

    points: Points
    is_truth: bool
    caption: str = ""
    image: Image | None = None


_Row = tuple[str, list[_Cell | None]]
"""A label, and a cell for each column, or None where it stays empty."""


@dataclass(frozen=True)
class _Look:
    """What all panels of a picture share."""

    axes: Axes2D
    window: Points
    size: float
    raster: bool


def prediction_grid(samples: dict[str, Any], image_format: ImageFormat = "svg") -> bytes:
    """Draw the examples of samples.json: one row an input, several true sets, then several predicted ones.

    Boxes are drawn over the image of the input where the file has it.

    Raises:
        RunError: there are no examples, or a set cannot be read.
    """
    examples = samples.get("examples") or []
    images = [image_of(row.get("image")) for row in examples]
    truth = [
        [_Cell(as_points(item), True, image=image) for item in (row.get("truth") or [])[:_MOST_TRUTH]]
        for row, image in zip(examples, images, strict=True)
    ]
    predictions = [
        [_predicted(item, image) for item in (row.get("samples") or [])[:_MOST_PREDICTIONS]]
        for row, image in zip(examples, images, strict=True)
    ]
    left, right = (max(map(len, cells), default=0) for cells in (truth, predictions))
    if left + right == 0:
        raise RunError(f"samples.json has no examples to draw. {SAMPLES_RECOVERY_HINT}")
    sets = [cell.points for cells in truth + predictions for cell in cells]
    if len({points.shape[1] for points in sets if len(points)}) > 1:
        raise RunError(
            f"The sets in samples.json have elements of different numbers of features. {SAMPLES_RECOVERY_HINT}"
        )
    gap = 1 if left and right else 0
    rows = [
        (_row_label(example), [*true, *[None] * (left - len(true) + gap), *predicted])
        for example, true, predicted in zip(examples, truth, predictions, strict=True)
    ]
    heads = [("truth", TRUTH, slice(0, left)), ("predictions", PREDICTION, slice(left + gap, left + gap + right))]
    heads = [head for head in heads if head[2].start < head[2].stop]
    widths = [1.0] * left + [_GAP] * gap + [1.0] * right
    return _draw(rows, widths, Axes2D.from_samples(samples), 1.15, heads, image_format, numbered=True)


def _row_label(example: dict[str, Any]) -> str:
    """The label of an example, below whether it is one of the best, median or worst."""
    label, group = str(example.get("label", "")), example.get("group")
    return f"{group}\n{label}" if group else label


def _predicted(sample: dict[str, Any], image: Image | None) -> _Cell:
    energy = sample.get("energy")
    caption = "" if energy is None else f"E = {short_number(energy)}"
    return _Cell(as_points(sample.get("set") or []), False, caption, image)


def case_grid(cases: list[dict[str, Any]], axes: Axes2D) -> bytes:
    """Draw the cases of evaluation.json as SVG: one row a group (best, median, worst), truth beside prediction.

    Args:
        cases: each with `group`, `index`, `label`, `score`, `truth` and `prediction`.
        axes: what the features mean.

    Raises:
        RunError: a set cannot be read.
    """
    groups: dict[str, list[_Cell | None]] = {}
    for case in cases:
        row = groups.setdefault(str(case.get("group", "")), [])
        row += [*([None] if row else []), *_pair(case)]
    columns = max(map(len, groups.values()))
    widths = [_GAP if column % 3 == 2 else 1.0 for column in range(columns)]
    return _draw(list(groups.items()), widths, axes, 0.95)


def _pair(case: dict[str, Any]) -> tuple[_Cell, _Cell]:
    label, score = case.get("label"), case.get("score")
    title = f"test {case.get('index')}" + ("" if label is None else f": {label}")
    truth = _Cell(as_points(case.get("truth") or []), True, title)
    distance = short_number(score) if is_number(score) else ""
    return truth, _Cell(as_points(case.get("prediction") or []), False, distance)


def _draw(
    rows: list[_Row],
    widths: list[float],
    axes: Axes2D,
    panel: float,
    heads: Sequence[tuple[str, str, slice]] = (),
    image_format: ImageFormat = "svg",
    *,
    numbered: bool = False,
) -> bytes:
    """All panels, their headings and labels.

    Args:
        rows: from top to bottom.
        widths: of the columns, in panels.
        axes: what the features mean.
        panel: inches.
        heads: text, colour and columns of each heading.
        image_format: of the picture.
        numbered: points have numbers below the lowest row and beside the first column, as all panels share scales.
    """
    cells = [cell for _, row in rows for cell in row if cell is not None]
    view = _window_of(cells, axes)
    numbered = numbered and axes.boxes is None
    sizes = [len(cell.points) for cell in cells]
    look = _Look(axes, view, point_size(max(sizes)), sum(sizes) > MAX_VECTOR_POINTS)
    height = panel * (0.45 if view.shape[1] == 1 else 1.0)
    sides: dict[str, float] = {"left": 0, "right": 1, "bottom": 0, "top": 1, "wspace": 0.06, "hspace": 0.28}
    with style():
        figure = new_figure(panel * sum(widths) * 1.06, (height + 0.22) * len(rows))
        spec = figure.add_gridspec(len(rows), len(widths), width_ratios=widths, **sides)
        for index, (label, row) in enumerate(rows):
            for column, cell in enumerate(row):
                if cell is None:
                    continue
                drawn = figure.add_subplot(spec[index, column])
                _fill(drawn, cell, look)
                if numbered:
                    _number(drawn, look, below=index == len(rows) - 1, beside=column == 0)
            _label_row(figure, spec[index, 0], label, _NUMBERS if numbered and view.shape[1] >= 2 else 0.1)
        for text, colour, columns in heads:
            _head(figure, spec[0, columns], text, colour)
        if view.shape[1] >= 3:
            gap = 0.58 if numbered else 0.42
            draw_colour_bar(figure, (view[0, 2], view[1, 2]), COLOUR_MAP, axes.name(2), gap)
        if axes.boxes is not None:
            class_legend(figure, (number for cell in cells for number in classes_of(cell.points, axes)), axes)
        return render(figure, image_format, dpi=140)


def _window_of(cells: list[_Cell], axes: Axes2D) -> Points:
    truth, predictions = ([cell.points for cell in cells if cell.is_truth is kind] for kind in (True, False))
    return window(truth, predictions) if axes.boxes is None else box_window(truth, predictions, axes)


def _head(figure: "Figure", cells: Any, text: str, colour: str) -> None:
    """A heading above the middle of a group of columns."""
    box = cells.get_position(figure)
    middle, lift = (box.x0 + box.x1) / 2, 0.1 / figure.get_figheight()
    figure.text(middle, box.y1 + lift, text, ha="center", va="bottom", fontweight="bold", color=colour)


def _label_row(figure: "Figure", cell: Any, text: str, gap: float) -> None:
    box = cell.get_position(figure)
    middle, shift = (box.y0 + box.y1) / 2, gap / figure.get_figwidth()
    figure.text(box.x0 - shift, middle, text, ha="right", va="center", color=INK, parse_math=False)


# -- one panel -------------------------------------------------------------------------------------------


def point_size(most_points: int) -> float:
    """Area of a marker, in square points: smaller where sets are larger."""
    return float(np.clip(130 / max(most_points, 1), 1.6, 18))


def _fill(panel: "Axes", cell: _Cell, look: _Look) -> None:
    """Draw one set: ticks on a line, points in a plane, or points coloured by their third feature."""
    _set_limits(panel, look)
    if cell.is_truth:
        panel.set_facecolor(TINT)
    if cell.caption:
        panel.set_xlabel(cell.caption, fontsize=7, color=MUTED, labelpad=2, parse_math=False)
    points, colour = cell.points, TRUTH if cell.is_truth else PREDICTION
    if look.axes.boxes is not None:
        draw_image(panel, cell.image, look.window)
    if len(points) == 0 or look.window.shape[1] == 0:
        note_empty(panel)
        return
    if look.axes.boxes is not None:
        draw_boxes(panel, points, look.axes, colour)
        return
    if look.window.shape[1] == 1:
        panel.axhline(0.5, color=FRAME, linewidth=0.8, zorder=1)
        panel.vlines(points[:, 0], 0.25, 0.75, color=colour, linewidth=1.3, rasterized=look.raster)
    else:
        _draw_plane(panel, points, colour, look)
    note_outside(panel, outside(points, look.window))


def _set_limits(panel: "Axes", look: _Look) -> None:
    """Limits, scales and frame: the same for all panels of a picture."""
    view = look.window
    plain_frame(panel)
    if view.shape[1] == 1:
        panel.set_xlim(view[0, 0], view[1, 0])
        panel.set_ylim(0, 1)
    elif view.shape[1] >= 2:
        across, up = look.axes.across_and_up()
        panel.set_xlim(view[0, across], view[1, across])
        panel.set_ylim(view[0, up], view[1, up])
        if look.axes.downwards:
            panel.invert_yaxis()
        panel.set_box_aspect(1)  # the window is square wherever the features share a unit


def _number(panel: "Axes", look: _Look, *, below: bool, beside: bool) -> None:
    features = look.window.shape[1]
    if below and features:
        number_axis(panel, "x")
    if beside and features >= 2:
        number_axis(panel, "y")


def _draw_plane(panel: "Axes", points: Points, colour: str, look: _Look) -> None:
    across, up = look.axes.across_and_up()
    if look.axes.closed and len(points) > 1:
        ring = by_angle(points)
        ring = np.concatenate([ring, ring[:1]])
        panel.plot(ring[:, across], ring[:, up], color=colour, linewidth=0.9, alpha=0.45, rasterized=look.raster)
    shown: dict[str, Any] = {"s": look.size, "color": colour, "linewidths": 0}
    if look.window.shape[1] >= 3:
        limits = {"vmin": look.window[0, 2], "vmax": look.window[1, 2]}
        shown = {"s": look.size * 1.3, "c": points[:, 2], "cmap": COLOUR_MAP, **limits}
        shown |= {"edgecolors": MUTED, "linewidths": 0.3}
    panel.scatter(points[:, across], points[:, up], zorder=3, rasterized=look.raster, **shown)
