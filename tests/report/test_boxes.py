"""Boxes as rectangles: where they are, in which colour, over which image, in the report and in pictures."""

import base64
import io
import re
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from desp.errors import RunError
from desp.report.chains import GRID, chain_payload
from desp.report.figures.boxes import CLASS_COLOURS, BoxPanel, box_picture, class_name, image_of
from desp.report.figures.grid import prediction_grid
from desp.report.figures.points import Axes2D
from desp.report.page import write_report

BLUE, RED = "#0072b2", "#d55e00"
BOX = [0.1, 0.2, 0.4, 0.8]
AXES = {"names": ["left", "top", "right", "bottom"], "boxes": [0, 4], "extent": [1, 1], "row_first": False}
CLASSES = AXES | {"boxes": [1, 5], "categories": [5, 8], "classes": ["cat", "dog"]}


def uri(width: int = 6, height: int = 4) -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), (10, 200, 30)).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def samples(axes: dict[str, Any], truth: Any, prediction: Any, **more: Any) -> dict[str, Any]:
    item = {"label": "a", "truth": [truth], "samples": [{"set": prediction, "energy": None}] * 2, **more}
    return {"axes": axes, "examples": [item]}


def rectangles(panel: Any) -> list[tuple[list[float], str]]:
    """Corners and colour of each."""
    found = [item for item in panel.patches if isinstance(item, Rectangle)]
    places = [(*item.get_xy(), item.get_width(), item.get_height()) for item in found]
    colours = [to_hex(item.get_edgecolor()) for item in found]
    return [([x, y, x + wide, y + high], own) for (x, y, wide, high), own in zip(places, colours, strict=True)]


def test_boxes_are_rectangles_with_y_downwards_over_the_image(drawn: list[Figure]) -> None:
    moved = [0.5, 0.5, 0.9, 0.6]
    prediction_grid(samples(AXES, [BOX], [moved], image=uri()))
    truth, *predictions = drawn[0].axes
    for panel, box, colour in ((truth, BOX, BLUE), (predictions[0], moved, RED), (predictions[1], moved, RED)):
        ((corners, drawn_colour),) = rectangles(panel)
        assert (corners, drawn_colour) == (pytest.approx(box), colour)
        assert (panel.get_xlim(), panel.get_ylim()) == ((0, 1), (1, 0))  # the image, whose top is above
        (image,) = panel.images
        assert image.get_array().shape == (4, 6, 3)
        assert image.get_extent() == [0, 1, 1, 0]
        assert not panel.collections  # no points


def test_boxes_without_an_image_have_the_window_of_their_corners(drawn: list[Figure]) -> None:
    axes = {name: value for name, value in AXES.items() if name != "extent"}
    prediction_grid(samples(axes, [[10, 20, 30, 60]], []))
    panel = drawn[0].axes[0]
    assert rectangles(panel)[0][0] == [10, 20, 30, 60]
    (left, right), (bottom, top) = panel.get_xlim(), panel.get_ylim()
    assert left < 10 < 30 < right
    assert top < 20 < 60 < bottom
    assert not panel.images


def test_classes_have_colours_and_a_legend(drawn: list[Figure]) -> None:
    rows = [[9.0, *BOX, 0, 1, 0], [9.0, *BOX, 0, 0, 1]]
    prediction_grid(samples(CLASSES, rows, [], image=uri()))
    assert [colour for _, colour in rectangles(drawn[0].axes[0])] == list(CLASS_COLOURS[1:3])
    (legend,) = drawn[0].legends
    assert [text.get_text() for text in legend.get_texts()] == ["dog", "class 3"]
    assert class_name(0, Axes2D()) == "class 1"


def test_names_of_classes_are_no_formulas() -> None:
    axes = CLASSES | {"classes": ["$\\cat$", "dog"]}
    picture = prediction_grid(samples(axes, [[9.0, *BOX, 1, 0, 0]], []))
    assert "$\\cat$" in picture.decode()


def test_colours_of_classes_do_not_follow_the_theme() -> None:
    axes = AXES | {"boxes": [1, 5], "categories": [5, 11]}
    rows = [[9.0, *BOX, *(float(place == column) for column in range(6))] for place in range(6)]
    svg = prediction_grid(samples(axes, rows, [])).decode()
    assert all(colour in svg for colour in CLASS_COLOURS)


def test_an_svg_holds_an_image_once() -> None:
    svg = prediction_grid(samples(AXES, [BOX], [BOX], image=uri())).decode()
    names = re.findall(r'<image id="(\w+)"', svg)
    assert len(names) == svg.count("data:image/png") == 1
    assert svg.count(f'<use href="#{names[0]}"') == 3


@pytest.mark.parametrize("text", ["data:image/png;base64,AAAA", "data:image/png;base64,?"])
def test_broken_images_are_named(text: str) -> None:
    with pytest.raises(
        RunError,
        match=r"An image in samples.json cannot be read .*Delete the file and run `desp report RUN` again",
    ):
        image_of(text)
    assert image_of(None) is None


def test_older_files_name_rows_otherwise() -> None:
    assert Axes2D.from_samples({"axes": {"image_rows": True}}).row_first
    assert Axes2D.from_samples({"axes": {"row_first": True}}).downwards
    boxes = Axes2D.from_samples({"axes": AXES | {"row_first": True}})
    assert (boxes.row_first, boxes.downwards, boxes.across_and_up()) == (False, True, (0, 1))


def test_the_animation_gets_corners_in_thousandths_of_the_image() -> None:
    chain = {"frames": [[[9, *BOX, 0, 1, 0, 0.5]]], "steps": [0], "energies": [None]}
    payload = chain_payload(samples(CLASSES, [[9, *BOX, 0, 1, 0]], [], image=uri(), chain=chain), None)
    assert payload is not None
    assert payload["boxes"] is True
    assert payload["examples"][0]["frames"] == [[[round(GRID * value) for value in BOX] + [50]]]
    assert payload["examples"][0]["image"] == uri()


def test_the_page_draws_boxes(make_run: Any) -> None:
    chain = {"frames": [[[*BOX, 0.5]]], "steps": [0], "energies": [None]}
    content = samples(AXES, [BOX], [BOX], image=uri(), chain=chain)
    text = write_report(make_run(samples=content)).read_text()
    assert "Boxes are drawn over the input; x grows to the right and y downwards." in text
    assert '"boxes":true' in text
    assert "img-src data:" in text


def two_panels() -> bytes:
    axes = Axes2D.from_samples({"axes": CLASSES})
    points = np.array([[9.0, *BOX, 0, 1, 0]])
    image = np.zeros((20, 40, 3), dtype=np.uint8)
    return box_picture(image, [BoxPanel(points, "sample 1", (0.875,)), BoxPanel(np.zeros((0, 0)))], axes)


def test_a_picture_is_a_png_file() -> None:
    with Image.open(io.BytesIO(two_panels())) as picture:
        assert picture.format == "PNG"
        assert picture.width > 2 * picture.height


def test_a_picture_has_a_panel_for_each_set_with_classes_and_confidences(drawn: list[Figure]) -> None:
    two_panels()
    first, second = drawn[0].axes
    assert (first.get_title(), second.get_xlabel()) == ("sample 1", "empty")
    assert [text.get_text() for text in first.texts] == ["dog 0.88"]
    assert rectangles(second) == []


def test_labels_stay_within_the_image(drawn: list[Figure]) -> None:
    axes = Axes2D.from_samples({"axes": AXES})
    boxes = np.array([[-0.2, -0.1, 0.3, 0.4], [0.5, 0.5, 0.6, 0.6]])
    box_picture(None, [BoxPanel(boxes, confidence=(1.0, 0.6))], axes)
    outside, inside = drawn[0].axes[0].texts
    assert (outside.get_position(), outside.get_va()) == ((0, 0), "top")
    assert (inside.get_position(), inside.get_va()) == ((0.5, 0.5), "bottom")


def test_many_panels_are_wrapped(drawn: list[Figure]) -> None:
    box_picture(None, [BoxPanel(np.array([BOX]))] * 7, Axes2D.from_samples({"axes": AXES}))
    assert len([panel for panel in drawn[0].axes if rectangles(panel)]) == 7
    assert len({round(panel.get_position().y0, 3) for panel in drawn[0].axes}) == 2
