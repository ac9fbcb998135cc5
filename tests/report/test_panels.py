"""Which set is drawn in which panel, where its points are, and in which colour."""

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from desp.report.chains import GRID, chain_payload
from desp.report.figures.grid import case_grid, point_size, prediction_grid
from desp.report.figures.points import Axes2D, as_points, outside, window
from desp.report.numbers import MINUS

BLUE, RED, TINT = "#0072b2", "#d55e00", "#eef4f9"
PLANE = {"names": ["x", "y"], "closed": False, "row_first": False}


def dot(across: float, up: float) -> list[list[float]]:
    """A set of one point, by which it is known again."""
    return [[across, up]]


def example(label: str, truth: list[Any], predictions: list[tuple[Any, float | None]]) -> dict[str, Any]:
    samples = [{"set": points, "energy": energy} for points, energy in predictions]
    return {"label": label, "truth": truth, "samples": samples}


def place(panel: Axes) -> tuple[float, float]:
    """Where a panel is: from the left, and from the top."""
    box = panel.get_position()
    return round(box.x0, 6), round(1 - box.y1, 6)


def shown(panel: Axes) -> tuple[list[list[float]], str]:
    """The points of a panel and their colour."""
    (marks,) = panel.collections
    return np.asarray(marks.get_offsets()).tolist(), to_hex(marks.get_facecolor()[0])


def ground(panel: Axes) -> str:
    return to_hex(panel.get_facecolor())


# -- the grid of predictions -----------------------------------------------------------------------------


def test_truth_stands_left_and_predictions_right_in_the_order_of_the_file(drawn: list[Figure]) -> None:
    rows = [
        example(
            name,
            [dot(0.1 * index, up) for index in range(5)],
            [(dot(0.1 * index, up + 0.5), float(index)) for index in range(8)],
        )
        for name, up in (("first", 0.0), ("second", 0.3))
    ]
    prediction_grid({"axes": PLANE, "examples": rows})
    (figure,) = drawn
    panels = sorted(figure.axes, key=lambda panel: (place(panel)[1], place(panel)[0]))
    assert len(panels) == 2 * (3 + 6)  # no more of either
    for line, up in enumerate((0.0, 0.3)):
        row = panels[9 * line : 9 * (line + 1)]
        assert [shown(panel) for panel in row] == [
            *((dot(0.1 * index, up), BLUE) for index in range(3)),
            *((dot(0.1 * index, up + 0.5), RED) for index in range(6)),
        ]
        assert [ground(panel) == TINT for panel in row] == [True] * 3 + [False] * 6
        energies = [f"E = {index}.00" if index else "E = 0" for index in range(6)]
        assert [panel.get_xlabel() for panel in row] == [""] * 3 + energies
    texts = {text.get_text(): text for text in figure.texts}
    assert list(texts) == ["first", "second", "truth", "predictions"]
    assert texts["first"].get_position()[1] > texts["second"].get_position()[1]
    middle = (place(panels[2])[0] + place(panels[3])[0]) / 2
    assert texts["truth"].get_position()[0] < middle < texts["predictions"].get_position()[0]
    assert [to_hex(texts[name].get_color()) for name in ("truth", "predictions")] == [BLUE, RED]


def test_as_many_columns_as_there_are_sets(drawn: list[Figure], sample_data: dict[str, Any]) -> None:
    prediction_grid(sample_data)
    assert len(drawn[0].axes) == 2 * (2 + 2)


@pytest.mark.parametrize(("truth", "predictions", "heads"), [(1, 0, ["truth"]), (0, 1, ["predictions"])])
def test_what_is_missing_has_no_heading(
    drawn: list[Figure], truth: int, predictions: int, heads: list[str]
) -> None:
    item = example("row", [dot(0, 0)] * truth, [(dot(1, 1), None)] * predictions)
    prediction_grid({"axes": PLANE, "examples": [item]})
    assert [text.get_text() for text in drawn[0].texts] == ["row", *heads]
    assert drawn[0].axes[0].get_xlabel() == ""  # an energy that is not known is not told


def test_all_panels_share_one_window(drawn: list[Figure], sample_data: dict[str, Any]) -> None:
    prediction_grid(sample_data)
    assert len({(panel.get_xlim(), panel.get_ylim()) for panel in drawn[0].axes}) == 1


@pytest.mark.parametrize("features", [1, 2, 3])
def test_points_have_numbers_below_the_lowest_row_and_beside_the_first_column(
    drawn: list[Figure], features: int
) -> None:
    rows = [example(name, [[[0.1] * features]], [([[0.7] * features], 1.0)]) for name in ("first", "second")]
    prediction_grid({"axes": {"names": ["x", "y", "z"][:features]}, "examples": rows})
    panels = drawn[0].axes[:4]
    assert [len(panel.get_xticks()) > 1 for panel in panels] == [False, False, True, True]
    assert [len(panel.get_yticks()) > 1 for panel in panels] == [features > 1, False] * 2


def test_boxes_and_empty_sets_have_no_numbers(drawn: list[Figure]) -> None:
    boxes = {"names": ["x1", "y1", "x2", "y2"], "boxes": [0, 4]}
    prediction_grid({"axes": boxes, "examples": [example("image", [], [([[0.1, 0.1, 0.4, 0.6]], None)])]})
    prediction_grid({"axes": PLANE, "examples": [example("row", [], [([], None)])]})
    assert [len(panel.get_xticks()) for figure in drawn for panel in figure.axes] == [0, 0]


@pytest.mark.parametrize("row_first", [False, True])
def test_rows_grow_downwards_and_columns_to_the_right(drawn: list[Figure], row_first: bool) -> None:
    points = [[0.0, 0.2], [1.0, 0.6]]
    item = example("row", [points], [])
    prediction_grid({"axes": {**PLANE, "row_first": row_first}, "examples": [item]})
    (panel,) = drawn[0].axes
    offsets, _ = shown(panel)
    assert offsets == [[b, a] if row_first else [a, b] for a, b in points]
    low, high = panel.get_ylim()
    assert (low > high) == row_first
    assert panel.get_xlim()[0] < panel.get_xlim()[1]


def test_corners_are_joined_to_a_closed_line(drawn: list[Figure]) -> None:
    corners = [[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    for closed in (True, False):
        item = example("square", [corners], [(corners, 0.0)])
        prediction_grid({"axes": {**PLANE, "closed": closed}, "examples": [item]})
    for panel, colour in zip(drawn[0].axes, (BLUE, RED), strict=True):
        (line,) = panel.get_lines()
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert len(x) == 5
        assert (x[0], y[0]) == (x[-1], y[-1])
        np.testing.assert_allclose(np.hypot(np.diff(x), np.diff(y)), 1.0)  # sides, no diagonal
        assert to_hex(line.get_color()) == colour
    assert not any(panel.get_lines() for panel in drawn[1].axes)


def test_a_third_feature_is_shown_by_colour(drawn: list[Figure]) -> None:
    truth, prediction = [[0.0, 0.0, 5.0], [1.0, 1.0, 9.0]], [[0.5, 0.5, 6.0]]
    item = example("row", [truth], [(prediction, 0.0)])
    prediction_grid({"axes": {"names": ["x", "y", "depth"]}, "examples": [item]})
    left, right, bar = drawn[0].axes
    (marks,), (others,) = left.collections, right.collections
    assert marks.get_array().tolist() == [5.0, 9.0]
    assert others.get_array().tolist() == [6.0]
    assert marks.get_clim() == others.get_clim() == bar.get_xlim()
    assert marks.get_clim()[0] < 5 < 9 < marks.get_clim()[1]
    assert bar.get_xlabel() == "depth"


def test_a_single_feature_is_shown_as_ticks(drawn: list[Figure]) -> None:
    item = example("row", [[[3.0], [5.0]]], [([[4.0]], 0.0)])
    prediction_grid({"axes": {"names": ["t"]}, "examples": [item]})
    for panel, values, colour in zip(drawn[0].axes, ([3.0, 5.0], [4.0]), (BLUE, RED), strict=True):
        (ticks,) = panel.collections
        assert [segment[0][0] for segment in ticks.get_segments()] == values
        assert to_hex(ticks.get_color()[0]) == colour
        assert panel.get_xlim()[0] < 3 < 5 < panel.get_xlim()[1]


def test_points_are_smaller_where_there_are_more() -> None:
    assert [point_size(count) for count in (0, 1, 10, 50, 1000)] == [18, 18, 13, 2.6, 1.6]


def test_points_have_one_size_that_follows_the_largest_set(drawn: list[Figure]) -> None:
    ten = [[0.1 * index, 0.5] for index in range(10)]
    rows = [example("", [ten, dot(0.5, 0.5)], [(ten, None)])]
    prediction_grid({"axes": PLANE, "examples": rows})
    assert [panel.collections[0].get_sizes().tolist() for panel in drawn[0].axes] == [[13]] * 3


# -- cases -----------------------------------------------------------------------------------------------


def test_cases_are_pairs_in_a_row_for_each_group(drawn: list[Figure]) -> None:
    cases = [
        {
            "group": group,
            "index": index,
            "label": None if index == 2 else "7",
            "score": 0.25 * index,
            "truth": dot(0.1 * index, 0.0),
            "prediction": dot(0.1 * index, 1.0),
        }
        for index, group in enumerate(("best", "worst", "best", "median"))
    ]
    case_grid(cases, Axes2D(("x", "y")))
    (figure,) = drawn
    panels = sorted(figure.axes, key=lambda panel: (place(panel)[1], place(panel)[0]))
    order = [0, 2, 1, 3]  # groups as they first came, their cases in the order of the file
    pairs = [(dot(0.1 * index, up), colour) for index in order for up, colour in ((0.0, BLUE), (1.0, RED))]
    assert [shown(panel) for panel in panels] == pairs
    assert [ground(panel) == TINT for panel in panels] == [True, False] * 4
    titles = ["test 0: 7", "0", "test 2", "0.500", "test 1: 7", "0.250", "test 3: 7", "0.750"]
    assert [panel.get_xlabel() for panel in panels] == titles
    heights = [(text.get_text(), text.get_position()[1]) for text in figure.texts]
    assert [name for name, _ in sorted(heights, key=lambda item: -item[1])] == ["best", "worst", "median"]
    assert len({(panel.get_xlim(), panel.get_ylim()) for panel in panels}) == 1


# -- the window ------------------------------------------------------------------------------------------


def test_the_window_has_a_margin_around_truth_and_near_predictions() -> None:
    view = window([as_points([[0.0, 0.0], [1.0, 1.0]])], [as_points([[1.5, -0.5], [1.51, 0.5], [0.5, -0.51]])])
    assert view[0].tolist() == pytest.approx([-0.09, -0.59])
    assert view[1].tolist() == pytest.approx([1.59, 1.09])
    only = window([], [as_points([[0.0, 0.0], [1.0, 1.0]])])  # without truth, predictions are all there is
    assert (only[0].tolist(), only[1].tolist()) == (pytest.approx([-0.06] * 2), pytest.approx([1.06] * 2))


def test_a_window_widens_its_smaller_side_about_its_middle() -> None:
    view = window([as_points([[0.0, 0.0], [4.0, 1.0]])], [])
    assert view[0].tolist() == pytest.approx([-0.24, -1.74])
    assert view[1].tolist() == pytest.approx([4.24, 2.74])
    kept = window([as_points([[0.0, 0.0], [5.1, 1.0]])], [])  # five times: they have different units
    assert (kept[1] - kept[0]).tolist() == pytest.approx([1.12 * 5.1, 1.12])


def test_points_on_the_edge_of_a_window_are_inside() -> None:
    view = np.stack([np.zeros(3), np.ones(3)])
    edge = as_points([[0.0, 1.0, 9.0], [1.0, 0.0, 0.5]])  # the third feature is no place
    assert outside(edge, view) == 0
    assert outside(as_points([[1.01, 0.5, 0.5], [0.5, -0.01, 0.5], [0.5, float("nan"), 0.5]]), view) == 3
    assert outside(np.zeros((0, 0)), view) == 0


def test_features_without_a_name_are_counted_from_zero() -> None:
    axes = Axes2D(("x",))
    assert [axes.name(feature) for feature in range(3)] == ["x", "column 1", "column 2"]


# -- chains ----------------------------------------------------------------------------------------------


def chained(frames: list[Any], truth: list[list[float]], **chain: Any) -> dict[str, Any]:
    item = {"label": "a", "truth": [truth], "samples": [], "chain": {"frames": frames, **chain}}
    return {"axes": PLANE, "examples": [item]}


def test_frames_are_placed_in_thousandths_of_the_window() -> None:
    corners = [[0.0, 0.0], [1.0, 1.0]]  # the window is [-0.06, 1.06] both ways
    frames = [[[0.0, 1.0], [0.5, 0.25]], [[1.0, 0.0], [50.0, -50.0]]]
    payload = chain_payload(chained(frames, corners, steps=[3, 9], energies=[1.23456789, float("nan")]), 7)
    assert payload is not None
    edge = round(GRID * 0.06 / 1.12)
    quarter = round(GRID * 0.31 / 1.12)
    (shown_example,) = payload["examples"]
    assert shown_example == {
        "label": "a",
        "steps": [3, 9],
        "energies": [1.2346, None],
        "frames": [
            [[edge, GRID - edge, 100], [500, quarter, 100]],
            [[GRID - edge, edge, 100], [2 * GRID, -GRID, 100]],
        ],
    }
    assert {name: payload[name] for name in ("grid", "features", "fades", "rowFirst", "stochasticSteps")} == {
        "grid": 1000,
        "features": 2,
        "fades": False,
        "rowFirst": False,
        "stochasticSteps": 7,
    }


def test_frames_without_steps_are_counted() -> None:
    payload = chain_payload(chained([dot(0, 0), dot(1, 1)], [[0.0, 0.0], [1.0, 1.0]]), None)
    assert payload is not None
    assert payload["examples"][0]["steps"] == [0, 1]
    assert payload["examples"][0]["energies"] == [None, None]
    assert payload["stochasticSteps"] is None


@pytest.mark.parametrize("features", [1, 2, 3, 4])
def test_presence_comes_after_all_features_shown_or_not(features: int) -> None:
    """The third is not shown, least of all as opacity; without presence every row is opaque."""
    row = [0.5, 0.5, 0.9, 0.8][:features]
    payload = chain_payload(chained([[[*row, 0.25]], [row]], [[0.0] * features, [1.0] * features]), None)
    assert payload is not None
    assert payload["fades"] is True
    place = [500, 500][:features]
    assert payload["examples"][0]["frames"] == [[[*place, 25]], [[*place, 100]]]


def test_rows_are_told_to_the_animation() -> None:
    samples = chained([dot(0, 0)], dot(1, 1))
    samples["axes"] = {**PLANE, "row_first": True}
    payload = chain_payload(samples, None)
    assert payload is not None
    assert payload["rowFirst"] is True


def test_a_heavy_chain_keeps_every_so_many_frames_with_their_numbers_and_the_last() -> None:
    frames = [[[0.001 * step, 0.5]] * 500 for step in range(100)]  # 150,000 numbers: every second frame
    steps, energies = [10 * step for step in range(100)], [float(step) for step in range(100)]
    payload = chain_payload(chained(frames, [[0.0, 0.0], [1.0, 1.0]], steps=steps, energies=energies), None)
    assert payload is not None
    (item,) = payload["examples"]
    kept = [*range(0, 100, 2), 99]
    assert item["steps"] == [10 * step for step in kept]
    assert item["energies"] == kept
    assert [frame[0][0] for frame in item["frames"]] == [
        round((0.001 * step + 0.06) / 1.12 * GRID) for step in kept
    ]


def test_negative_energies_have_a_real_minus_sign(drawn: list[Figure]) -> None:
    prediction_grid({"axes": PLANE, "examples": [example("row", [], [(dot(0, 0), -2.5)])]})
    assert drawn[0].axes[0].get_xlabel() == f"E = {MINUS}2.50"


def test_predictions_begin_in_one_column_whatever_is_left_of_them(drawn: list[Figure]) -> None:
    few = example("few", [dot(0.1, 0.1)], [(dot(0.5, 0.5), 1.0), (dot(0.6, 0.5), 2.0)])
    many = example("many", [dot(0.1, 0.1)] * 3, [(dot(0.5, 0.5), 1.0), (dot(0.6, 0.5), 2.0)])
    prediction_grid({"axes": PLANE, "examples": [few, many]})
    (figure,) = drawn
    columns: dict[float, list[float]] = {}
    for panel in figure.axes:
        if panel.collections and shown(panel)[1] == RED:
            left, top = place(panel)
            columns.setdefault(top, []).append(left)
    first, second = (sorted(column) for column in columns.values())
    assert first == second
