"""Single test sets beside their predictions: one row a group (best, median, worst), one pair a case."""

from typing import TYPE_CHECKING, Any

from desp.report.figures.panels import draw_empty_note, draw_set, point_size, prepare_panel
from desp.report.figures.points import Axes2D, Points, Window, as_points, window
from desp.report.figures.style import (
    INK,
    MUTED,
    PREDICTION,
    TINT,
    TRUTH,
    ImageFormat,
    new_figure,
    render,
    style,
)
from desp.report.numbers import is_number, short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = 0.95  # inches
_GAP = 0.18  # between cases, as a share of a panel
# Beyond it an SVG is larger than a picture of its points.
_MOST_VECTOR_POINTS = 3000


def case_grid(cases: list[dict[str, Any]], axes: Axes2D, image_format: ImageFormat = "svg") -> bytes:
    """Draw the cases of evaluation.json, truth and prediction side by side.

    Args:
        cases: each with `group`, `index`, `label`, `score`, `truth` and `prediction`.
        axes: what the features mean.
        image_format: PNG, or SVG to be put inside a page.

    Raises:
        RunError: a set cannot be read.
        MissingExtraError: matplotlib is not installed.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for case in cases:
        groups.setdefault(str(case.get("group", "")), []).append(case)
    pairs = [(as_points(case.get("truth") or []), as_points(case.get("prediction") or [])) for case in cases]
    look = window([truth for truth, _ in pairs], [prediction for _, prediction in pairs])
    sizes = [len(points) for pair in pairs for points in pair]
    with style():
        raster = sum(sizes) > _MOST_VECTOR_POINTS
        figure = _lay_out(groups, axes, look, point_size(max(sizes)), raster)
        return render(figure, image_format, dpi=200 if image_format == "png" else 140)


def _lay_out(
    groups: dict[str, list[dict[str, Any]]], axes: Axes2D, look: Window, size: float, raster: bool
) -> "Figure":
    most = max(len(cases) for cases in groups.values())
    widths = ([1.0, 1.0, _GAP] * most)[:-1]
    figure = new_figure(_PANEL * sum(widths) * 1.06, (_PANEL + 0.24) * len(groups))
    spec = figure.add_gridspec(
        len(groups), len(widths), width_ratios=widths, left=0, right=1, bottom=0, top=1, wspace=0.04, hspace=0.3
    )
    for row, (group, cases) in enumerate(groups.items()):
        for place, case in enumerate(cases):
            truth = figure.add_subplot(spec[row, 3 * place])
            truth.set_facecolor(TINT)
            _fill(truth, as_points(case.get("truth") or []), TRUTH, axes, look, size, raster)
            _name(truth, _title(case))
            predicted = figure.add_subplot(spec[row, 3 * place + 1])
            _fill(predicted, as_points(case.get("prediction") or []), PREDICTION, axes, look, size, raster)
            score = case.get("score")
            _name(predicted, short_number(score) if is_number(score) and score is not None else "")
        box = spec[row, 0].get_position(figure)
        shift = 0.1 / figure.get_figwidth()
        middle = (box.y0 + box.y1) / 2
        figure.text(box.x0 - shift, middle, group, ha="right", va="center", color=INK, parse_math=False)
    return figure


def _title(case: dict[str, Any]) -> str:
    index, label = case.get("index"), case.get("label")
    return f"test {index}: {label}" if label is not None else f"test {index}"


def _name(panel: "Axes", text: str) -> None:
    panel.set_xlabel(text, fontsize=7, color=MUTED, labelpad=2, parse_math=False)


def _fill(
    panel: "Axes", points: Points, colour: str, axes: Axes2D, look: Window, size: float, raster: bool
) -> None:
    prepare_panel(panel, axes, look)
    if len(points) == 0 or look.features == 0:
        draw_empty_note(panel)
        return
    draw_set(panel, points, colour, axes, look, size, raster)
