"""Predictions beside the truth: one row an input, several true sets, then several predicted ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from desp.errors import RunError
from desp.report.figures.panels import draw_empty_note, draw_set, point_size, prepare_panel
from desp.report.figures.points import Axes2D, Points, Window, as_points, window
from desp.report.figures.style import (
    COLOUR_MAP,
    INK,
    MUTED,
    PREDICTION,
    TINT,
    TRUTH,
    ImageFormat,
    new_figure,
    render,
    save,
    style,
)
from desp.report.folder import WRITTEN_BY
from desp.report.numbers import short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Beyond it an SVG is larger than a picture of its points.
_MOST_VECTOR_POINTS = 3000
_PANEL = 1.15  # inches
_GAP = 0.28  # between truth and predictions, as a share of a panel


@dataclass(frozen=True)
class _Row:
    label: str
    truth: tuple[Points, ...]
    predictions: tuple[tuple[Points, float | None], ...]


@dataclass(frozen=True)
class _Look:
    """What all panels of a picture share."""

    axes: Axes2D
    window: Window
    size: float
    raster: bool


def draw_prediction_grid(samples: dict[str, Any], path: Path) -> None:
    """Write the picture of all examples to `path`, as PNG.

    Raises:
        RunError: there are no examples, or a set cannot be read.
        MissingExtraError: matplotlib is not installed.
    """
    save(Path(path), prediction_grid(samples, "png"))


def prediction_grid(
    samples: dict[str, Any], image_format: ImageFormat = "svg", most_truth: int = 3, most_predictions: int = 6
) -> bytes:
    """Draw the examples of samples.json.

    Args:
        samples: contents of samples.json.
        image_format: PNG, or SVG to be put inside a page.
        most_truth: columns for true sets, at most.
        most_predictions: columns for predicted sets, at most.

    Raises:
        RunError: there are no examples, or a set cannot be read.
        MissingExtraError: matplotlib is not installed.
    """
    rows = [_row(item, most_truth, most_predictions) for item in samples.get("examples") or []]
    if not rows or not any(row.truth or row.predictions for row in rows):
        raise RunError(
            f"samples.json has no examples to draw. Write it again with `{WRITTEN_BY['samples.json']}`."
        )
    look = _look(rows, Axes2D.from_samples(samples))
    with style():
        figure = _lay_out(rows, look)
        return render(figure, image_format, dpi=200 if image_format == "png" else 140)


def _row(example: dict[str, Any], most_truth: int, most_predictions: int) -> _Row:
    truth = tuple(as_points(item) for item in (example.get("truth") or [])[:most_truth])
    predictions = tuple(
        (as_points(item.get("set") or []), item.get("energy"))
        for item in (example.get("samples") or [])[:most_predictions]
    )
    return _Row(str(example.get("label", "")), truth, predictions)


def _look(rows: list[_Row], axes: Axes2D) -> _Look:
    true = [points for row in rows for points in row.truth]
    predicted = [points for row in rows for points, _ in row.predictions]
    if len({points.shape[1] for points in true + predicted if len(points)}) > 1:
        raise RunError(
            "The sets in samples.json have elements of different numbers of features. "
            f"Write the file again with `{WRITTEN_BY['samples.json']}`."
        )
    sizes = [len(points) for points in true + predicted]
    return _Look(axes, window(true, predicted), point_size(max(sizes)), sum(sizes) > _MOST_VECTOR_POINTS)


def _lay_out(rows: list[_Row], look: _Look) -> "Figure":
    """All panels, their headings and labels. Truth has a tinted ground and stands apart."""
    left = max(len(row.truth) for row in rows)
    right = max(len(row.predictions) for row in rows)
    gap = 1 if left and right else 0
    height = _PANEL * (0.45 if look.window.features == 1 else 1.0)
    widths = [1.0] * left + [_GAP] * gap + [1.0] * right
    figure = new_figure(_PANEL * sum(widths) * 1.06, (height + 0.22) * len(rows))
    spec = figure.add_gridspec(
        len(rows),
        len(widths),
        width_ratios=widths,
        left=0,
        right=1,
        bottom=0,
        top=1,
        wspace=0.06,
        hspace=0.28,
    )
    panels: list[Axes] = []
    for index, row in enumerate(rows):
        panels += _draw_row(figure, spec, index, row, left + gap, look)
        _label_row(figure, spec[index, 0], row.label)
    if left:
        _head(figure, spec[0, :left], "truth", TRUTH)
    if right:
        _head(figure, spec[0, left + gap :], "predictions", PREDICTION)
    if look.window.features >= 3:
        _colour_bar(figure, panels, look)
    return figure


def _draw_row(figure: "Figure", spec: Any, index: int, row: _Row, first: int, look: _Look) -> list["Axes"]:
    panels = []
    for column, points in enumerate(row.truth):
        panel = figure.add_subplot(spec[index, column])
        panel.set_facecolor(TINT)
        _fill(panel, points, TRUTH, look)
        panels.append(panel)
    for column, (points, energy) in enumerate(row.predictions):
        panel = figure.add_subplot(spec[index, first + column])
        _fill(panel, points, PREDICTION, look)
        if energy is not None:
            panel.set_xlabel(f"E = {short_number(energy)}", fontsize=7.5, color=MUTED, labelpad=2)
        panels.append(panel)
    return panels


def _fill(panel: "Axes", points: Points, colour: str, look: _Look) -> None:
    prepare_panel(panel, look.axes, look.window)
    if len(points) == 0 or look.window.features == 0:
        draw_empty_note(panel)
        return
    draw_set(panel, points, colour, look.axes, look.window, look.size, look.raster)


def _head(figure: "Figure", cells: Any, text: str, colour: str) -> None:
    """A heading above the middle of a group of columns."""
    box = cells.get_position(figure)
    lift = 0.1 / figure.get_figheight()
    figure.text(
        (box.x0 + box.x1) / 2, box.y1 + lift, text, ha="center", va="bottom", fontweight="bold", color=colour
    )


def _label_row(figure: "Figure", cell: Any, text: str) -> None:
    box = cell.get_position(figure)
    shift = 0.1 / figure.get_figwidth()
    middle = (box.y0 + box.y1) / 2
    figure.text(box.x0 - shift, middle, text, ha="right", va="center", color=INK, parse_math=False)


def _colour_bar(figure: "Figure", panels: list["Axes"], look: _Look) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    colours = ScalarMappable(Normalize(look.window.low[2], look.window.high[2]), COLOUR_MAP)
    lowest = min(panel.get_position().y0 for panel in panels)
    height = figure.get_figheight()
    place = figure.add_axes((0.0, lowest - 0.42 / height, min(1.0, 2.5 / figure.get_figwidth()), 0.1 / height))
    bar = figure.colorbar(colours, cax=place, orientation="horizontal")
    bar.set_label(look.axes.name(2), fontsize=8, parse_math=False)
    bar.outline.set_visible(False)
