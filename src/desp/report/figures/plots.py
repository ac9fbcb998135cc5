"""Curves and bars of a run: learning curves, the ablation of S/T, and calibration."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from desp.errors import RunError
from desp.report.figures.points import Points
from desp.report.figures.style import (
    EXTRA,
    FRAME,
    INK,
    MUTED,
    PREDICTION,
    TRUTH,
    ImageFormat,
    new_figure,
    plain_axes,
    render,
    style,
)
from desp.report.folder import RunRecord
from desp.runs.folder import WRITTEN_BY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_POINTS = 800
_SMOOTHED_OVER = 40  # a smoothed curve averages over 1/40 of the run


@dataclass(frozen=True)
class _Series:
    label: str
    colour: str
    steps: Points
    values: Points


def learning_curves(record: RunRecord) -> list[tuple[bytes, str]]:
    """Draw loss, energies or risk, validation score and gradient norm as SVG, as far as the log has them.

    Returns:
        Pictures, each with the same in words for those who cannot see it.
    """
    log, validations = record.log, record.validations
    energies = [("energy_real", "real sets", TRUTH), ("energy_sampled", "sampled sets", PREDICTION)]
    panels = [
        ("Loss", [_series(log, "loss", "loss", INK)], False),
        ("Energies", [_series(log, *energy) for energy in energies], False),
        ("Risk", [_series(log, "risk", "risk", PREDICTION)], False),
        ("Validation score", [_series(validations, "validation_score", "validation", EXTRA)], False),
        ("Gradient norm", [_series(log, "gradient_norm", "gradient norm", MUTED)], True),
    ]
    curves = []
    for title, series, logarithmic in panels:
        known = [item for item in series if item.steps.size]
        if known:
            curves.append((_draw_curve(title, known, logarithmic), _describe(title, known)))
    return curves


def _series(lines: tuple[dict[str, Any], ...], key: str, label: str, colour: str) -> _Series:
    """The finite values of one quantity; the log writes null where a value was not finite."""
    pairs = [(line["step"], line[key]) for line in lines if isinstance(line.get(key), int | float)]
    table = np.asarray(pairs, dtype=np.float64).reshape(-1, 2)
    table = table[np.isfinite(table).all(axis=1)]
    return _Series(label, colour, table[:, 0], table[:, 1])


def _draw_curve(title: str, series: list[_Series], logarithmic: bool) -> bytes:
    with style():
        figure = new_figure(4.4, 2.6)
        axes = figure.add_subplot()
        plain_axes(axes)
        for item in series:
            _draw_series(axes, item, logarithmic)
        if logarithmic and any((item.values > 0).any() for item in series):
            axes.set_yscale("log")
        else:
            axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 4))
            _limit(axes, series)
        axes.set_xlabel("step", color=MUTED)
        axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
        if len(series) > 1:
            axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, fontsize=8, borderpad=0)
        return render(figure)


def _draw_series(axes: "Axes", series: _Series, logarithmic: bool) -> None:
    values = np.where(series.values > 0, series.values, np.nan) if logarithmic else series.values
    stride = max(1, -(-len(values) // _MOST_POINTS))
    window = len(values) // _SMOOTHED_OVER
    steps = series.steps[::stride]
    strong: dict[str, Any] = {"color": series.colour, "label": series.label}
    if window < 2:
        marker = "o" if len(values) <= 20 else ""
        axes.plot(steps, values[::stride], marker=marker, markersize=3, **strong)
        return
    axes.plot(steps, values[::stride], color=series.colour, alpha=0.3, linewidth=0.8)
    axes.plot(steps, _smooth(values, window)[::stride], linewidth=1.6, **strong)


def _smooth(values: Points, window: int) -> Points:
    """Running mean, over what there is near the ends; unknown values are left out."""
    known = np.isfinite(values)
    kernel = np.ones(window)
    total = np.convolve(np.where(known, values, 0.0), kernel, mode="same")
    count = np.convolve(known.astype(np.float64), kernel, mode="same")
    return np.where(count > 0.5, total / np.maximum(count, 1.0), np.nan)


def _limit(axes: "Axes", series: list[_Series]) -> None:
    """Cut off rare extremes that would flatten all the rest, and say so in the picture."""
    values = np.concatenate([item.values for item in series])
    low, high = np.quantile(values, [0.01, 0.99])
    size = high - low
    if size <= 0 or values.max() - values.min() < 6 * size:
        return
    shown_low, shown_high = max(values.min(), low - size), min(values.max(), high + size)
    axes.set_ylim(shown_low - 0.05 * size, shown_high + 0.05 * size)
    note = f"axis cut: values reach from {values.min():.3g} to {values.max():.3g}"
    axes.text(0.99, 0.97, note, transform=axes.transAxes, ha="right", va="top", fontsize=7, color=MUTED)


def _describe(title: str, series: list[_Series]) -> str:
    parts = [
        f"{item.label} from {item.values[0]:.3g} at step {item.steps[0]:.0f} "
        f"to {item.values[-1]:.3g} at step {item.steps[-1]:.0f}"
        for item in series
    ]
    return f"{title} over training: {'; '.join(parts)}."


# Scores of an ablation that are drawn together if they were measured, each with its name, marker and line: of all
# tasks, and of tasks with precision and recall.
_SCORES = (
    (("score", None, "s", "--"), ("hungarian", "Hungarian distance", "^", ":")),
    (("precision", "precision", "v", ":"), ("recall", "recall", "^", "-."), ("f1", "F1", "s", "--")),
)


def ablation_picture(ablation: dict[str, Any], image_format: ImageFormat = "svg") -> bytes:
    """Energy on the left axis, scores on the right, against S/T: one or two distances, or precision, recall, F1.

    Raises:
        RunError: the ablation has no rows.
    """
    rows = _rows(ablation)
    ratio, energy = _column(rows, "ratio"), _column(rows, "energy")
    of_subsets = any(row.get("f1") is not None for row in rows)
    lines = [item for item in _SCORES[of_subsets] if np.isfinite(_column(rows, item[0])).any()]
    score_name = str(ablation.get("score_name") or "score")
    real = ablation.get("real_data")
    # A perfect score of zero, or one of shares, needs no line.
    reference = [float(real)] if isinstance(real, int | float) and real > 0 and not of_subsets else []
    with style():
        figure = new_figure(5.6, 3.2)
        left = figure.add_subplot()
        plain_axes(left)
        right = left.twinx()
        _line(left, ratio, energy, TRUTH, "o", "-")
        for key, _, marker, line in lines:
            _line(right, ratio, _column(rows, key), PREDICTION, marker, line)
        if len(lines) > 1:
            names = [name or score_name for _, name, _, _ in lines]
            legend = right.legend(right.get_lines(), names, frameon=False, fontsize=8, ncols=len(names))
            legend.set_loc("lower center")
            legend.set_bbox_to_anchor((0.5, 1.0))  # above the axes: inside it would hide a curve
        for value in reference:
            _mark_real_data(right, value)
        left.set_xlabel("S/T, fraction of steps with noise")
        left.set_ylabel("energy", color=TRUTH)
        of_all = "share" if of_subsets else "distance" if len(lines) > 1 else score_name
        right.set_ylabel(of_all, color=PREDICTION, parse_math=False)
        left.tick_params(axis="y", colors=TRUTH)
        right.tick_params(axis="y", colors=PREDICTION, length=0)
        right.spines["top"].set_visible(False)
        right.spines["right"].set_color(FRAME)
        _set_scales(left, energy, right, np.concatenate([*(_column(rows, item[0]) for item in lines), reference]))
        return render(figure, image_format)


def _rows(ablation: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows in the order of S/T."""
    rows = [row for row in ablation.get("rows") or [] if row.get("ratio") is not None]
    if not rows:
        raise RunError(f"ablation.json has no rows. Write it again with `{WRITTEN_BY['ablation.json']}`.")
    return sorted(rows, key=lambda row: row["ratio"])


def _column(rows: list[dict[str, Any]], key: str) -> Points:
    return np.asarray([row.get(key) for row in rows], dtype=np.float64)


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


def systems_picture(values: Sequence[tuple[str, float, float]], label: str) -> bytes:
    """A score of each system, from top to bottom, with intervals of two standard errors.

    Args:
        values: name, score and standard error; the first is the model's.
        label: what the score is.
    """
    with style():
        figure = new_figure(5.6, 0.32 * len(values) + 0.5)
        axes = figure.add_subplot()
        plain_axes(axes)
        for place, (_, value, error) in enumerate(values):
            colour = PREDICTION if place == 0 else TRUTH
            axes.errorbar(
                value, place, xerr=2 * error, fmt="o", color=colour, markersize=5, linewidth=1.6, capsize=3
            )
        axes.set_yticks(range(len(values)), [name for name, _, _ in values], parse_math=False)
        axes.set_ylim(len(values) - 0.5, -0.5)
        axes.set_xlim(left=min(0.0, *(value - 2.5 * error for _, value, error in values)))
        axes.set_xlabel(label)
        return render(figure)


def calibration_picture(shares: Sequence[float], inputs: int) -> bytes:
    """Bars of the share of each rank, with the share that a calibrated predictor has on average.

    Args:
        shares: of ranks 0 to K.
        inputs: how many there were, for the band in which 95 of 100 bars lie by chance.
    """
    level = 1 / len(shares)
    chance = 1.96 * (level * (1 - level) / max(inputs, 1)) ** 0.5
    with style():
        figure = new_figure(5.2, 2.4)
        axes = figure.add_subplot()
        plain_axes(axes)
        axes.axhspan(level - chance, level + chance, color=TRUTH, alpha=0.12, linewidth=0)
        axes.axhline(level, color=TRUTH, linewidth=1.2)
        axes.bar(range(len(shares)), shares, color=PREDICTION, width=0.7)
        axes.set_xticks(range(len(shares)))
        axes.set_xlabel("rank of the true set by its distance to the others")
        axes.set_ylabel("share of inputs")
        return render(figure)
