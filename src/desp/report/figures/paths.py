"""Paths of several people: where they were, where they went, and where they were predicted to go."""

from typing import TYPE_CHECKING, Any

from desp.errors import RunError
from desp.report.figures.points import Points, as_points
from desp.report.figures.style import (
    FRAME,
    INK,
    MUTED,
    PREDICTION,
    SAMPLES_RECOVERY_HINT,
    TRUTH,
    ImageFormat,
    new_figure,
    render,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS, _PANEL = 2, 3.4


def path_grid(examples: list[dict[str, Any]], image_format: ImageFormat = "svg") -> bytes:
    """Draw the examples of samples.json whose elements are paths: a panel for each, one metre as long in all
    directions.

    Raises:
        RunError: there are no paths, or one cannot be read.
    """
    shown = [item for item in examples if (item.get("paths") or {}).get("observed")]
    if not shown:
        raise RunError(f"samples.json has no paths to draw. {SAMPLES_RECOVERY_HINT}")
    rows = -(-len(shown) // _COLUMNS)
    with style():
        figure = new_figure(_COLUMNS * _PANEL, rows * _PANEL)
        for number, item in enumerate(shown, start=1):
            axes = figure.add_subplot(rows, _COLUMNS, number)
            axes.set_title(str(item.get("label", "")), fontsize=9, parse_math=False)
            _fill(axes, item["paths"])
        figure.tight_layout()
        return render(figure, image_format, dpi=140)


def _fill(axes: "Axes", paths: dict[str, Any]) -> None:
    """Predictions below, then the truth, then what was seen, so that none hides the shorter ones."""
    observed = [as_points(path) for path in paths["observed"]]
    for sample in paths.get("samples") or []:
        for seen, path in zip(observed, sample, strict=True):
            _line(axes, seen, as_points(path), PREDICTION, 0.6, 0.35)
    for truth in paths.get("truth") or []:
        for seen, path in zip(observed, truth, strict=True):
            _line(axes, seen, as_points(path), TRUTH, 1.4, 1.0)
    for seen in observed:
        axes.plot(seen[:, 0], seen[:, 1], color=INK, linewidth=1.4)
        axes.plot(seen[-1:, 0], seen[-1:, 1], marker="o", markersize=3, color=INK)
    axes.set_aspect("equal", adjustable="datalim")
    axes.grid(visible=True, color=FRAME, linewidth=0.5, alpha=0.6)
    axes.tick_params(length=0, labelcolor=MUTED)
    axes.set_xlabel("m", color=MUTED)


def _line(axes: "Axes", seen: Points, path: Points, colour: str, width: float, opacity: float) -> None:
    """A path from where it was last seen."""
    x, y = ([seen[-1, axis], *path[:, axis]] for axis in (0, 1))
    axes.plot(x, y, color=colour, linewidth=width, alpha=opacity)
