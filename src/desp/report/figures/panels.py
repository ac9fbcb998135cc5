"""One set in one panel: ticks on a line, points in a plane, or points coloured by their third feature."""

from typing import TYPE_CHECKING

import numpy as np

from desp.report.figures.points import Axes2D, Points, Window, by_angle
from desp.report.figures.style import COLOUR_MAP, FRAME, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def point_size(most_points: int) -> float:
    """Area of a marker, in square points: smaller where sets are larger."""
    return float(np.clip(130 / max(most_points, 1), 1.6, 18))


def prepare_panel(panel: "Axes", axes: Axes2D, window: Window) -> None:
    """Limits, scales and frame: the same for all panels of a picture."""
    panel.set_xticks([])
    panel.set_yticks([])
    for spine in panel.spines.values():
        spine.set_color(FRAME)
    if window.features == 1:
        panel.set_xlim(window.low[0], window.high[0])
        panel.set_ylim(0, 1)
    elif window.features >= 2:
        across, up = axes.across_and_up()
        panel.set_xlim(window.low[across], window.high[across])
        panel.set_ylim(window.low[up], window.high[up])
        if axes.image_rows:
            panel.invert_yaxis()
        panel.set_box_aspect(1)  # the window is square wherever the features share a unit


def draw_set(
    panel: "Axes", points: Points, colour: str, axes: Axes2D, window: Window, size: float, raster: bool
) -> None:
    """Draw one set that has elements, and count those the window does not show."""
    if window.features == 1:
        panel.axhline(0.5, color=FRAME, linewidth=0.8, zorder=1)
        panel.vlines(points[:, 0], 0.25, 0.75, color=colour, linewidth=1.3, rasterized=raster)
    else:
        _draw_plane(panel, points, colour, axes, window, size, raster)
    outside = window.outside(points)
    if outside:
        note = f"{outside} outside"
        panel.text(0.96, 0.04, note, transform=panel.transAxes, ha="right", fontsize=6.5, color=MUTED)


def _draw_plane(
    panel: "Axes", points: Points, colour: str, axes: Axes2D, window: Window, size: float, raster: bool
) -> None:
    across, up = axes.across_and_up()
    if axes.closed and len(points) > 1:
        ring = by_angle(points)
        ring = np.concatenate([ring, ring[:1]])
        panel.plot(ring[:, across], ring[:, up], color=colour, linewidth=0.9, alpha=0.45, rasterized=raster)
    if window.features >= 3:
        panel.scatter(
            points[:, across],
            points[:, up],
            s=size * 1.3,
            c=points[:, 2],
            cmap=COLOUR_MAP,
            vmin=window.low[2],
            vmax=window.high[2],
            edgecolors=MUTED,
            linewidths=0.3,
            zorder=3,
            rasterized=raster,
        )
        return
    panel.scatter(
        points[:, across], points[:, up], s=size, color=colour, linewidths=0, zorder=3, rasterized=raster
    )


def draw_empty_note(panel: "Axes") -> None:
    """Say that a set has no elements: a blank panel would look like a failure to draw."""
    panel.text(
        0.5,
        0.5,
        "empty",
        transform=panel.transAxes,
        ha="center",
        va="center",
        fontsize=8,
        color=MUTED,
        style="italic",
    )
