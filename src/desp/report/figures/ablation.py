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
    score_name = str(ablation.get("score_name") or "score")
    two_distances = bool(np.isfinite(hungarian).any())
    real = ablation.get("real_data")
    # A perfect score of zero needs no line.
    reference = [float(real)] if isinstance(real, int | float) and real > 0 else []
    with style():
        figure = new_figure(5.6, 3.2)
        left = figure.add_subplot()
        plain_axes(left)
        right = left.twinx()
        _line(left, ratio, energy, TRUTH, "o", "-")
        _line(right, ratio, score, PREDICTION, "s", "--")
        if two_distances:
            _line(right, ratio, hungarian, PREDICTION, "^", ":")
            right.legend(right.get_lines(), [score_name, "Hungarian distance"], frameon=False, fontsize=8)
        for value in reference:
            _mark_real_data(right, value)
        left.set_xlabel("S/T, share of steps with noise")
        left.set_ylabel("energy", color=TRUTH)
        right.set_ylabel("distance" if two_distances else score_name, color=PREDICTION, parse_math=False)
        left.tick_params(axis="y", colors=TRUTH)
        right.tick_params(axis="y", colors=PREDICTION, length=0)
        right.spines["top"].set_visible(False)
        right.spines["right"].set_color(FRAME)
        _set_scales(left, energy, right, np.concatenate([score, hungarian, reference]))
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


def _mark_real_data(axes: "Axes", score: float) -> None:
    axes.axhline(score, color=MUTED, linewidth=1, linestyle=":")
    axes.annotate(
        "real data",
        (0.0, score),
        xycoords=("axes fraction", "data"),
        xytext=(4, 3),
        textcoords="offset points",
        fontsize=8,
        color=MUTED,
    )


def _set_scales(left: "Axes", energies: Points, right: "Axes", scores: Points) -> None:
    """Logarithmic scales for what spans more than a decade; other scores are read from zero."""
    for axes, values in ((left, energies), (right, scores)):
        if _spans_decades(values):
            axes.set_yscale("log")
            axes.minorticks_off()
    if not _spans_decades(scores) and not (scores <= 0).any():
        right.set_ylim(bottom=0)
        right.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=False)


def _spans_decades(values: Points) -> bool:
    known = values[np.isfinite(values)]
    return bool(known.size > 0 and known.min() > 0 and known.max() / known.min() > 10)
