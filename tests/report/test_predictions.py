"""Pictures of what `desp predict` predicted."""

import warnings
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from desp.report.numbers import MINUS
from desp.report.predictions import draw_prediction, input_label
from desp.runs.shown import PlottedInput

AXES = {"names": ["x", "y"], "closed": False, "row_first": False}


@pytest.mark.parametrize(
    ("written", "names", "label"),
    [
        ([8.870010231418268, -0.2103], [], f"input 0 = 8.87\ninput 1 = {MINUS}0.210"),
        ([8.870010231418268, -0.2103], ["size", "shift"], f"size = 8.87\nshift = {MINUS}0.210"),
        ({"size": 0.25, "style": "old", "count": 3}, [], "size = 0.250\nstyle = old\ncount = 3"),
        ({"row": 7}, [], "row = 7"),
        ([0.5] * 9, [], "\n".join([*(f"input {number} = 0.500" for number in range(6)), "and 3 more"])),
        ([[0.1, 0.2]] * 17, [], "17 by 2 numbers"),
        ([[[0.1, 0.2]] * 8] * 3, [], "3 by 8 by 2 numbers"),
        ([], [], "0 numbers"),
        (5, [], "5"),
        (0.123456, [], "0.123"),
        ("photos/" * 9 + "cat.png", [], "…" + ("photos/" * 9 + "cat.png")[-31:]),
        ([21.5], ["temperature of the room in degrees"], "temperature of the room …" + " = 21.5"),
        ([21.5], ["n" * 25], "n" * 25 + " = 21.5"),
        (["b" * 40], ["kind"], "…" + "b" * 31),
    ],
)
def test_an_input_is_told_in_few_words(written: Any, names: list[str], label: str) -> None:
    assert input_label(written, names) == label


def test_a_picture_tells_its_input(drawn: list[Figure], tmp_path: Path) -> None:
    item = PlottedInput("0001", [8.870010231418268], None, [[[0.1, 0.2]]], [None], None)
    assert draw_prediction(tmp_path, item, {**AXES, "input_names": ["size"]}).is_file()
    assert [text.get_text() for text in drawn[0].texts] == ["size = 8.87", "predictions"]


PRICE = {"name": "price", "unit": "", "columns": (0, 1), "classes": ()}
KIND = {"name": "kind", "unit": "", "columns": (1, 3), "classes": ("chair", "lamp")}


def test_categories_have_rows_as_in_the_report(drawn: list[Figure], tmp_path: Path) -> None:
    sets = [[[10.0, 1.0, 0.0], [20.5, 0.0, 1.0]], [], *([[[9.0, 1.0, 0.0]]] * 6)]
    item = PlottedInput("0001", [5.25, 1.0], None, sets, [None] * len(sets), None)
    axes = {"names": ["price", "kind=chair", "kind=lamp"], "features": [PRICE, KIND], "input_names": []}
    assert draw_prediction(tmp_path, item, {**AXES, **axes}).is_file()
    figure = drawn[0]
    assert [text.get_text() for text in figure.texts] == ["input 0 = 5.25", "input 1 = 1.00", "predictions"]
    assert len(figure.axes) == 6
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["chair", "lamp"]
    assert figure.axes[0].get_xlabel() == "price"


def test_more_numbers_than_axes_have_panels_in_pairs(drawn: list[Figure], tmp_path: Path) -> None:
    numbers = [{"name": name, "unit": "", "columns": (n, n + 1), "classes": ()} for n, name in enumerate("wxyz")]
    item = PlottedInput("0001", "photo.png", None, [[[0.1, 0.2, 0.3, 0.4]]], [None], None)
    draw_prediction(tmp_path, item, {**AXES, "names": list("wxyz"), "features": numbers, "input_names": []})
    assert [(axes.get_xlabel(), axes.get_ylabel()) for axes in drawn[0].axes] == [("w", "x"), ("y", "z")]
    assert [text.get_text() for text in drawn[0].texts] == ["photo.png", "predictions"]


@pytest.mark.parametrize("features", [[PRICE, KIND], [{**KIND, "columns": (0, 2)}]], ids=["strip", "counts"])
def test_sets_that_are_all_empty_have_a_picture(features: list[Any], tmp_path: Path) -> None:
    item = PlottedInput("0001", 5, None, [[], []], [None, None], None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert draw_prediction(tmp_path, item, {**AXES, "features": features, "input_names": []}).is_file()


def test_every_element_of_a_category_is_inside_its_panel(drawn: list[Figure], tmp_path: Path) -> None:
    sets = [[[1.0, 0.0]] * 4 + [[0.0, 1.0]], [[0.0, 1.0]] * 2]
    item = PlottedInput("0001", 5, None, sets, [None, None], None)
    draw_prediction(tmp_path, item, {**AXES, "features": [{**KIND, "columns": (0, 2)}], "input_names": []})
    panels = drawn[0].axes
    counts = [
        float(place) for axes in panels for points in axes.collections for place in points.get_offsets().data[:, 0]
    ]
    assert sorted(counts) == [1, 1, 1, 2, 2, 3, 4]
    assert {axes.get_xlim() for axes in panels} == {(0.4, 4.6)}
