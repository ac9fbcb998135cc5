"""Times against sizes, on logarithmic axes: a line of slope 1 grows in proportion."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from desp.errors import RunError
from desp.report.figures.style import (
    EXTRA,
    PREDICTION,
    TRUTH,
    ImageFormat,
    new_figure,
    plain_axes,
    render,
    save,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# One panel each: tasks, what is varied, and its label.
PANELS = (
    (("chain",), "batch", "B, chains at once"),
    (("chain",), "size", "N, elements of a set"),
    (("chain",), "steps", "T, steps of a chain"),
    (("chamfer", "hungarian"), "size", "N, elements of a set"),
)
# Markers and dashes differ beside the colour, so that lines survive a black-and-white print.
_LOOKS = {"chain": (TRUTH, "o", "-"), "chamfer": (EXTRA, "s", "--"), "hungarian": (PREDICTION, "^", ":")}


def draw_scaling(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write the picture of a scaling benchmark to `path`, as PNG.

    Raises:
        RunError: there are no rows.
        MissingExtraError: matplotlib is not installed.
    """
    save(Path(path), scaling_picture(rows, "png"))


def scaling_picture(rows: Sequence[dict[str, Any]], image_format: ImageFormat = "svg") -> bytes:
    """Milliseconds of the chain against B, N and T, and of the distances against N; a panel for what there is.

    Raises:
        RunError: there are no rows.
        MissingExtraError: matplotlib is not installed.
    """
    panels = [(panel, _lines(rows, panel[0], panel[1])) for panel in PANELS]
    panels = [(panel, lines) for panel, lines in panels if lines]
    if not panels:
        raise RunError("There is nothing to draw: no row says what was varied. Measure with `desp bench scaling`.")
    with style():
        figure = new_figure(2.4 * len(panels) + 0.4, 2.8)
        first = None
        for place, ((_, _, label), lines) in enumerate(panels, start=1):
            axes = figure.add_subplot(1, len(panels), place, sharey=first)
            _draw(axes, lines, label)
            if first is None:
                first = axes
                axes.set_ylabel("milliseconds")
            else:
                axes.tick_params(axis="y", labelleft=False)
        return render(figure, image_format)


def _lines(
    rows: Sequence[dict[str, Any]], tasks: Sequence[str], vary: str
) -> dict[str, list[tuple[float, float]]]:
    """The points (value, ms) of each task, in the order of the values."""
    lines = {}
    for task in tasks:
        chosen = [row for row in rows if row.get("task") == task and row.get("vary") == vary]
        if chosen:
            lines[task] = sorted((row["value"], row["ms"]) for row in chosen)
    return lines


def _draw(axes: "Axes", lines: dict[str, list[tuple[float, float]]], label: str) -> None:
    plain_axes(axes)
    for task, points in lines.items():
        colour, marker, line = _LOOKS[task]
        x, y = zip(*points, strict=True)
        axes.plot(x, y, color=colour, marker=marker, linestyle=line, markersize=4, linewidth=1.6, label=task)
    axes.set_xscale("log")
    axes.set_yscale("log")
    values = sorted({value for points in lines.values() for value, _ in points})
    axes.set_xticks(values, labels=[str(value) for value in values])
    axes.minorticks_off()
    axes.set_xlabel(label)
    axes.set_title(", ".join(lines), loc="left", fontsize=10, fontweight="bold")
    if len(lines) > 1:
        axes.legend(loc="upper left", fontsize=8)
