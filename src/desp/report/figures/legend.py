"""Legends and colour bars below all panels of a picture."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure


def draw_legend(figure: "Figure", handles: "Sequence[Artist]", gap: float) -> None:
    """Name handles by their labels.

    Args:
        figure: with all its panels.
        handles: what is named; without any there is no legend.
        gap: inches below the panels.
    """
    if handles:
        options: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, _below(figure, gap))}
        options |= {"borderaxespad": 0.0, "fontsize": 8, "ncols": min(6, len(handles))}
        for text in figure.legend(handles=handles, **options).get_texts():
            text.set_parse_math(False)  # a name with dollars is no formula


def draw_colour_bar(
    figure: "Figure", limits: tuple[float, float], colour_map: Any, label: str, gap: float, ticks: Any = None
) -> None:
    """Say which numbers colours stand for.

    Args:
        figure: with all its panels.
        limits: numbers at both ends.
        colour_map: of matplotlib.
        label: what the numbers are.
        gap: inches from the panels to the lower edge of the bar.
        ticks: a locator; matplotlib's own if None.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    width = min(1.0, 2.5 / figure.get_figwidth())
    place = figure.add_axes((0.0, _below(figure, gap), width, 0.1 / figure.get_figheight()))
    colours = ScalarMappable(Normalize(*limits), colour_map)
    bar = figure.colorbar(colours, cax=place, orientation="horizontal", ticks=ticks)
    bar.set_label(label, fontsize=8, parse_math=False)
    bar.outline.set_visible(False)


def _below(figure: "Figure", gap: float) -> float:
    """A height below all panels, as a share of the figure."""
    lowest = min(panel.get_position().y0 for panel in figure.axes)
    return lowest - gap / figure.get_figheight()
