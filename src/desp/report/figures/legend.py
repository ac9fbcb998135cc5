"""What colours and shapes mean in pictures of a user's own sets."""

from typing import TYPE_CHECKING, Any

from desp.report.figures.panels import MARKERS, View, class_colour, colour_map

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_legend(figure: "Figure", view: View) -> None:
    """Below all panels: which colour and shape a category has, or what colours mean."""
    height = figure.get_figheight()
    lowest = min(panel.get_position().y0 for panel in figure.axes) - 0.42 / height
    if view.categories:
        from matplotlib.lines import Line2D

        handles = [
            Line2D([], [], linestyle="", marker=MARKERS[n % len(MARKERS)], color=class_colour(n), label=name)
            for n, name in enumerate(view.category_names)
        ]
        options: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, lowest), "borderaxespad": 0.0}
        legend = figure.legend(handles=handles, ncols=min(6, len(handles)), fontsize=8, **options)
        for text in legend.get_texts():
            text.set_parse_math(False)  # a name with dollars is no formula
    elif len(view.numbers) == 3:
        _colour_bar(figure, view, lowest)


def _colour_bar(figure: "Figure", view: View, top: float) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.ticker import MaxNLocator

    feature = view.numbers[2]
    colours = ScalarMappable(Normalize(*view.range_of(feature)), colour_map())
    height = figure.get_figheight()
    place = figure.add_axes((0.0, top - 0.1 / height, min(1.0, 2.5 / figure.get_figwidth()), 0.1 / height))
    bar = figure.colorbar(colours, cax=place, orientation="horizontal", ticks=MaxNLocator(4))
    bar.set_label(feature.label, fontsize=8, parse_math=False)
    bar.outline.set_visible(False)
