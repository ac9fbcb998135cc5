"""Energy and score against the share of stochastic steps, as in the paper's figure."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from desp.errors import RunError
from desp.report.figures.points import Points
from desp.report.figures.style import (
    FRAME,
    MUTED,
    PREDICTION,
    TRUTH,
    ImageFormat,
    new_figure,
    plain_axes,
    render,
    save,
    style,
)
from desp.report.folder import WRITTEN_BY

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_ablation(ablation: dict[str, Any], path: Path) -> None:
    """Write the picture of an ablation to `path`, as PNG.

    Raises:
        RunError: the ablation has no rows.
        MissingExtraError: matplotlib is not installed.
    """
    save(Path(path), ablation_picture(ablation, "png"))


def ablation_picture(ablation: dict[str, Any], image_format: ImageFormat = "svg") -> bytes:
    """Energy on the left axis, score on the right, against S/T; with a second distance where one was measured.

    Raises:
        RunError: the ablation has no rows.
        MissingExtraError: matplotlib is not installed.
    """
    ratio, energy, score, hungarian = _columns(ablation)
    name = str(ablation.get("score_name") or "score")
    real = ablation.get("real_data")
    with style():
        figure = new_figure(5.6, 3.2)
        left = figure.add_subplot()
        plain_axes(left)
        right = left.twinx()
        _line(left, ratio, energy, TRUTH, "o", "-")
        _line(right, ratio, score, PREDICTION, "s", "--")
        if np.isfinite(hungarian).any():
            _line(right, ratio, hungarian, PREDICTION, "^", ":")
            right.legend(right.get_lines(), [name, "Hungarian distance"], frameon=False, fontsize=8)
            name = "distance"
        if isinstance(real, int | float) and real > 0:
            right.axhline(real, color=MUTED, linewidth=1, linestyle=":")
            right.annotate(
                "real data",
                (0.0, real),
                xycoords=("axes fraction", "data"),
                xytext=(4, 3),
                textcoords="offset points",
                fontsize=8,
                color=MUTED,
            )
        left.set_xlabel("S/T, share of steps with noise")
        left.set_ylabel("energy", color=TRUTH)
        right.set_ylabel(name, color=PREDICTION, parse_math=False)
        left.tick_params(axis="y", colors=TRUTH)
        right.tick_params(axis="y", colors=PREDICTION, length=0)
        right.spines["top"].set_visible(False)
        right.spines["right"].set_color(FRAME)
        real_too = [real] if isinstance(real, int | float) and real > 0 else []
        _wide(left, energy)
        _score_scale(right, np.concatenate([score, hungarian, real_too]))
        return render(figure, image_format)


def _columns(ablation: dict[str, Any]) -> tuple[Points, Points, Points, Points]:
    rows = [row for row in ablation.get("rows") or [] if row.get("ratio") is not None]
    if not rows:
        raise RunError(f"ablation.json has no rows. Write it again with `{WRITTEN_BY['ablation.json']}`.")
    rows.sort(key=lambda row: row["ratio"])
    ratio, energy, score, hungarian = (
        np.asarray([row.get(key) for row in rows], dtype=np.float64)
        for key in ("ratio", "energy", "score", "hungarian")
    )
    return ratio, energy, score, hungarian


def _line(axes: "Axes", x: Points, y: Points, colour: str, marker: str, line: str) -> None:
    """Marker and dashes differ beside the colour, so that the two lines survive a black-and-white print."""
    axes.plot(x, y, color=colour, marker=marker, linestyle=line, markersize=5, linewidth=1.6)


def _wide(axes: "Axes", values: Points) -> bool:
    """Give a logarithmic scale to positive values that span more than a decade; whether they do."""
    known = values[np.isfinite(values)]
    if known.size == 0 or known.min() <= 0 or known.max() / known.min() <= 10:
        return False
    axes.set_yscale("log")
    axes.minorticks_off()
    return True


def _score_scale(axes: "Axes", score: Points) -> None:
    """Scores of one magnitude are read from zero; an energy has no zero of its own."""
    if not _wide(axes, score) and not (score <= 0).any():
        axes.set_ylim(bottom=0)
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=False)
