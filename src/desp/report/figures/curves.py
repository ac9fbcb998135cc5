"""Learning curves: one small picture for each quantity of the log."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from desp.report.figures.points import Points
from desp.report.figures.style import (
    EXTRA,
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_POINTS = 800
_SMOOTHED_OVER = 40  # a smoothed curve averages over 1/40 of the run


@dataclass(frozen=True)
class Curve:
    """A picture of one quantity over the steps of training.

    Attributes:
        title: what is drawn.
        image: the picture.
        description: the same in words, for those who cannot see it.
    """

    title: str
    image: bytes
    description: str


@dataclass(frozen=True)
class _Series:
    label: str
    colour: str
    steps: Points
    values: Points


def learning_curves(record: RunRecord, image_format: ImageFormat = "svg") -> list[Curve]:
    """Draw every quantity the log has: loss, energies or risk, validation score, gradient norm.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    log, validations = record.log, record.validations
    panels = [
        ("Loss", [_series(log, "loss", "loss", INK)], False),
        (
            "Energies",
            [
                _series(log, "energy_real", "real sets", TRUTH),
                _series(log, "energy_sampled", "sampled sets", PREDICTION),
            ],
            False,
        ),
        ("Risk", [_series(log, "risk", "risk", PREDICTION)], False),
        ("Validation score", [_series(validations, "validation_score", "validation", EXTRA)], False),
        ("Gradient norm", [_series(log, "gradient_norm", "gradient norm", MUTED)], True),
    ]
    curves = []
    for title, series, logarithmic in panels:
        known = [item for item in series if item.steps.size]
        if known:
            curves.append(Curve(title, _draw(title, known, logarithmic, image_format), _describe(title, known)))
    return curves


def _series(lines: tuple[dict[str, Any], ...], key: str, label: str, colour: str) -> _Series:
    """The finite values of one quantity; the log writes null where a value was not finite."""
    pairs = [(line["step"], line[key]) for line in lines if isinstance(line.get(key), int | float)]
    table = np.asarray(pairs, dtype=np.float64).reshape(-1, 2)
    table = table[np.isfinite(table).all(axis=1)]
    return _Series(label, colour, table[:, 0], table[:, 1])


def _draw(title: str, series: list[_Series], logarithmic: bool, image_format: ImageFormat) -> bytes:
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
        return render(figure, image_format)


def _draw_series(axes: "Axes", series: _Series, logarithmic: bool) -> None:
    values = np.where(series.values > 0, series.values, np.nan) if logarithmic else series.values
    stride = max(1, -(-len(values) // _MOST_POINTS))
    window = len(values) // _SMOOTHED_OVER
    marker = "o" if len(values) <= 20 else ""
    if window < 2:
        axes.plot(
            series.steps[::stride],
            values[::stride],
            color=series.colour,
            label=series.label,
            marker=marker,
            markersize=3,
        )
        return
    axes.plot(series.steps[::stride], values[::stride], color=series.colour, alpha=0.3, linewidth=0.8)
    axes.plot(
        series.steps[::stride],
        _smooth(values, window)[::stride],
        color=series.colour,
        linewidth=1.6,
        label=series.label,
    )


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
