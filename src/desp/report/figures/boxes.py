"""Boxes as rectangles, over the image that they were predicted for where it is known."""

import base64
import binascii
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from desp.errors import RunError
from desp.extras import require
from desp.report.figures.legend import draw_legend
from desp.report.figures.points import Axes2D, Points, window
from desp.report.figures.style import (
    INK,
    MUTED,
    PREDICTION,
    SAMPLES_RECOVERY_HINT,
    new_figure,
    plain_frame,
    render,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Image = NDArray[np.uint8]

# Okabe and Ito's colours without black and yellow, which few images show well; more classes begin anew. The first
# three differ by one from colours of the theme: replaced by the theme's, two classes could get the same colour.
CLASS_COLOURS = ("#d55e01", "#0072b3", "#009e74", "#cc79a7", "#e69f00", "#56b4e9")
_URI = "data:image/png;base64,"
# Inches of a panel's longer side, and panels in a row of a picture.
_PANEL, _IN_A_ROW = 3.2, 5
# Share of a panel's height that a label needs.
_ROOM = 0.06


def image_of(uri: Any) -> Image | None:
    """The image (height, width, 3) in a data URI of samples.json; None for None.

    Raises:
        RunError: it cannot be read.
    """
    if uri is None:
        return None
    image_module = require("PIL.Image", "viz", "draw pictures")
    try:
        content = base64.b64decode(str(uri).removeprefix(_URI), validate=True)
        with image_module.open(io.BytesIO(content)) as image:
            return np.array(image.convert("RGB"), dtype=np.uint8)
    except (binascii.Error, OSError) as error:
        raise RunError(f"An image in samples.json cannot be read ({error}). {SAMPLES_RECOVERY_HINT}") from error


def box_window(truth: Iterable[Points], predictions: Iterable[Points], axes: Axes2D) -> Points:
    """What all panels show, (2, 2): the image where its extent is known, else `window` of all corners."""
    if axes.extent is not None:
        return np.array([[0.0, 0.0], axes.extent])
    view = window(*([corners_of(points, axes).reshape(-1, 2) for points in sets] for sets in (truth, predictions)))
    return view if view.size else np.array([[0.0, 0.0], [1.0, 1.0]])


def corners_of(points: Points, axes: Axes2D) -> Points:
    """Left, top, right, bottom (n, 4) of the elements of a set."""
    first, end = axes.boxes or (0, 4)
    return points[:, first:end] if len(points) else np.zeros((0, 4))


def classes_of(points: Points, axes: Axes2D) -> list[int]:
    """The class of each element; none where elements have no class."""
    if axes.categories is None or len(points) == 0:
        return []
    first, end = axes.categories
    return [int(number) for number in points[:, first:end].argmax(axis=1)]


def class_colour(number: int) -> str:
    """The colour of a class of boxes."""
    return CLASS_COLOURS[number % len(CLASS_COLOURS)]


def class_name(number: int, axes: Axes2D) -> str:
    """As the data call it, else its number."""
    return axes.classes[number] if number < len(axes.classes) else f"class {number + 1}"


def draw_image(panel: "Axes", image: Image | None, view: Points) -> None:
    """Fill the window with the image; y grows downwards."""
    if image is not None:
        (left, top), (right, bottom) = view
        panel.set_box_aspect(image.shape[0] / image.shape[1])
        # Unsmoothed, an SVG holds the pixels as they are.
        panel.imshow(image, extent=(left, right, bottom, top), aspect="auto", interpolation="none", zorder=0)


def draw_boxes(
    panel: "Axes", points: Points, axes: Axes2D, colour: str, labels: Sequence[str] = (), width: float = 1.0
) -> None:
    """Draw a rectangle for each element, in the colour of its class where it has one.

    Args:
        panel: where; its limits are set already.
        points: the set (n, D).
        axes: where boxes and classes are among the features.
        colour: of elements without a class.
        labels: a text for each element, or none.
        width: of the lines, in points.
    """
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    classes = classes_of(points, axes)
    halo = [withStroke(linewidth=width + 1.0, foreground="white", alpha=0.75)]
    for index, (left, top, right, bottom) in enumerate(corners_of(points, axes).tolist()):
        if not np.isfinite([left, top, right, bottom]).all():
            continue
        own = class_colour(classes[index]) if classes else colour
        place, size = (left, top), (right - left, bottom - top)
        shown: dict[str, Any] = {"fill": False, "edgecolor": own, "linewidth": width, "path_effects": halo}
        panel.add_patch(Rectangle(place, *size, **shown, zorder=3))
        if labels and labels[index]:
            _label(panel, min(left, right), min(top, bottom), labels[index], own)


def _label(panel: "Axes", left: float, top: float, text: str, colour: str) -> None:
    """A text above a box, or inside it where there is no room above; within the panel, as the box may leave it."""
    (first, _), (bottom, ceiling) = panel.get_xlim(), panel.get_ylim()
    above = top - ceiling > _ROOM * (bottom - ceiling)
    words: dict[str, Any] = {"color": "white", "fontsize": 6.5, "va": "bottom" if above else "top", "ha": "left"}
    words |= {"bbox": {"facecolor": colour, "edgecolor": "none", "pad": 0.8}, "clip_on": True, "zorder": 4}
    panel.text(max(left, first), max(top, ceiling), text, parse_math=False, **words)


def class_legend(figure: "Figure", used: Iterable[int], axes: Axes2D) -> None:
    """The names of the classes in their colours, below all panels."""
    from matplotlib.patches import Patch

    handles = [Patch(edgecolor=class_colour(n), fill=False, label=class_name(n, axes)) for n in sorted(set(used))]
    draw_legend(figure, handles, gap=0.3)


# -- a picture of one image ------------------------------------------------------------------------------


@dataclass(frozen=True)
class BoxPanel:
    """A set of boxes to draw over an image.

    Attributes:
        points: (n, D).
        title: above it.
        confidence: of each element; none where that is not known.
    """

    points: Points
    title: str = ""
    confidence: tuple[float, ...] = ()


def box_picture(image: Image | None, panels: Sequence[BoxPanel], axes: Axes2D) -> bytes:
    """A PNG with the image and a set of boxes in each panel, side by side.

    Classes have colours, and are named with their confidence where either is known.
    """
    view = box_window([], [panel.points for panel in panels], axes)
    ratio = 1.0 if image is None else image.shape[0] / image.shape[1]
    width, height = (_PANEL, _PANEL * ratio) if ratio <= 1 else (_PANEL / ratio, _PANEL)
    columns = min(_IN_A_ROW, len(panels))
    rows = -(-len(panels) // columns)
    with style():
        figure = new_figure(width * columns * 1.04, (height + 0.3) * rows)
        grid = figure.subplots(rows, columns, squeeze=False)
        figure.subplots_adjust(left=0, right=1, bottom=0, top=1, wspace=0.04, hspace=0.3 / height)
        for place in list(grid.flat)[len(panels) :]:
            place.set_axis_off()
        for place, panel in zip(grid.flat, panels, strict=False):
            _fill(place, panel, image, view, axes)
        return render(figure, "png", dpi=110)


def _fill(place: "Axes", panel: BoxPanel, image: Image | None, view: Points, axes: Axes2D) -> None:
    plain_frame(place)
    place.set_xlim(view[0, 0], view[1, 0])
    place.set_ylim(view[1, 1], view[0, 1])
    draw_image(place, image, view)
    draw_boxes(place, panel.points, axes, PREDICTION, _labels(panel, axes), width=1.4)
    place.set_title(panel.title, fontsize=9, color=INK, parse_math=False)
    if len(panel.points) == 0:
        place.set_xlabel("empty", fontsize=8, color=MUTED, style="italic")


def _labels(panel: BoxPanel, axes: Axes2D) -> list[str]:
    names = [class_name(number, axes) for number in classes_of(panel.points, axes)] or [""] * len(panel.points)
    shares = [f"{share:.2f}" for share in panel.confidence] or [""] * len(panel.points)
    return [" ".join(filter(None, pair)) for pair in zip(names, shares, strict=True)]
