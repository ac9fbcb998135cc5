"""What plots show, read off their axes: which numbers, where, in which colour, under which name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from desp.report.figures.plots import ablation_picture, calibration_picture, learning_curves
from desp.report.folder import read_run

MakeRun = Callable[..., Path]
BLUE, RED, GREEN, INK, GREY = "#0072b2", "#d55e00", "#009e73", "#1f2328", "#6e7781"


def colour_of(line: Line2D) -> str:
    return to_hex(line.get_color())


def points_of(line: Line2D) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


# -- calibration -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shares", [[0.2, 0.3, 0.5], [1.0, 0.0], [0.1] * 9 + [0.1]])
def test_calibration_has_a_bar_for_every_rank_and_the_level_of_all(
    drawn: list[Figure], shares: list[float]
) -> None:
    """Ranks of K predictions and the truth are 0 to K: K + 1 bars, and a level of 1 / (K + 1)."""
    calibration_picture(shares, inputs=40)
    (axes,) = drawn[0].axes
    (bars,) = axes.containers
    assert [bar.get_height() for bar in bars] == shares
    assert [bar.get_x() + bar.get_width() / 2 for bar in bars] == pytest.approx(range(len(shares)))
    assert {bar.get_y() for bar in bars} == {0}
    assert {to_hex(bar.get_facecolor()) for bar in bars} == {RED}
    assert {bar.get_visible() for bar in bars} == {True}
    (level,) = axes.get_lines()
    assert list(level.get_ydata()) == pytest.approx([1 / len(shares)] * 2)
    assert colour_of(level) == BLUE
    assert axes.get_xticks().tolist() == list(range(len(shares)))
    assert axes.get_ylabel() == "share of inputs"
    assert "rank" in axes.get_xlabel()


@pytest.mark.parametrize("inputs", [1, 40, 1000])
def test_the_band_of_calibration_holds_what_chance_does(drawn: list[Figure], inputs: int) -> None:
    calibration_picture([0.25] * 4, inputs)
    (axes,) = drawn[0].axes
    (band,) = [patch for patch in axes.patches if patch not in axes.containers[0].patches]
    deviation = np.sqrt(0.25 * 0.75 / inputs)
    assert band.get_y() == pytest.approx(0.25 - 1.96 * deviation)
    assert band.get_height() == pytest.approx(2 * 1.96 * deviation)
    assert to_hex(band.get_facecolor()) == BLUE


def test_calibration_of_no_inputs_is_drawn() -> None:
    assert calibration_picture([0.5, 0.5], inputs=0).startswith(b"<svg")


# -- learning curves -------------------------------------------------------------------------------------


def curve_of(
    drawn: list[Figure], make_run: MakeRun, values: list[Any], key: str = "gradient_norm"
) -> list[Line2D]:
    """The lines of one quantity, logged at the steps 10, 20 and so on."""
    log = [{"step": 10 * (place + 1), key: value} for place, value in enumerate(values)]
    assert len(learning_curves(read_run(make_run(log=log)))) == 1
    (axes,) = drawn[-1].axes
    return list(axes.get_lines())


def mean_around(values: list[float | None], place: int, width: int) -> float:
    """The mean of what is known among `width` values around a place; NaN where nothing is."""
    first = place - width // 2
    near = [values[index] for index in range(first, first + width) if 0 <= index < len(values)]
    known = [value for value in near if value is not None]
    return sum(known) / len(known) if known else float("nan")


@pytest.mark.parametrize("count", [80, 81, 119, 120, 200, 799])
@pytest.mark.parametrize("gaps", [False, True])
def test_the_strong_line_is_the_running_mean(
    drawn: list[Figure], make_run: MakeRun, count: int, gaps: bool
) -> None:
    """Over 1/40 of the run; near the ends, and near values that cannot be drawn, over what there is."""
    values = np.random.default_rng(count).uniform(0.5, 2.0, count).tolist()
    width = count // 40
    if gaps:  # a logarithmic axis has no place for zero: at both ends, alone, and longer than the mean
        for place in (0, 1, 2, 20, *range(40, 42 + 2 * width), count - 2, count - 1):
            values[place] = 0.0
    faint, strong = curve_of(drawn, make_run, values)
    known = [value or None for value in values]
    expected = [mean_around(known, place, width) for place in range(count)]
    assert np.isnan(expected).any() == gaps
    np.testing.assert_allclose(strong.get_ydata(), expected, rtol=1e-12)
    np.testing.assert_array_equal(faint.get_ydata(), [np.nan if value is None else value for value in known])
    for line in (faint, strong):
        assert list(line.get_xdata()) == [10 * (place + 1) for place in range(count)]
    assert (faint.get_alpha() or 1) < (strong.get_alpha() or 1)
    assert faint.get_linewidth() < strong.get_linewidth()
    assert strong.get_label() == "gradient norm"


@pytest.mark.parametrize(("count", "marked"), [(1, True), (2, True), (20, True), (21, False), (79, False)])
def test_a_short_series_is_shown_as_it_is(
    drawn: list[Figure], make_run: MakeRun, count: int, marked: bool
) -> None:
    """A single value is a dot: a line through it would not be seen."""
    values = [1.0 + 1 / (place + 1) for place in range(count)]
    (line,) = curve_of(drawn, make_run, values)
    assert points_of(line) == [(10.0 * (place + 1), value) for place, value in enumerate(values)]
    assert (line.get_marker() == "o") == marked


@pytest.mark.parametrize(("count", "stride"), [(800, 1), (801, 2), (1600, 2), (1601, 3)])
def test_a_long_series_is_thinned_after_it_is_smoothed(
    drawn: list[Figure], make_run: MakeRun, count: int, stride: int
) -> None:
    values = np.random.default_rng(0).uniform(0.5, 2.0, count).tolist()
    faint, strong = curve_of(drawn, make_run, values)
    kept = range(0, count, stride)
    assert points_of(faint) == [(10.0 * (place + 1), values[place]) for place in kept]
    expected = [mean_around(list(values), place, count // 40) for place in kept]
    np.testing.assert_allclose(strong.get_ydata(), expected, rtol=1e-12)


def test_values_that_are_not_finite_are_left_out(drawn: list[Figure], make_run: MakeRun) -> None:
    (line,) = curve_of(drawn, make_run, [1.0, None, float("nan"), 3, float("inf"), "x", 2.0], "loss")
    assert points_of(line) == [(10, 1), (40, 3), (70, 2)]


def test_every_curve_shows_its_own_numbers(drawn: list[Figure], make_run: MakeRun) -> None:
    keys = ("loss", "energy_real", "energy_sampled", "risk", "gradient_norm")
    lines: list[dict[str, Any]] = [
        {"step": step, **{key: float(place + 2 * step) for place, key in enumerate(keys, start=1)}}
        for step in (1, 2)
    ]
    lines.append({"step": 2, "validation_score": 9.0})
    curves = learning_curves(read_run(make_run(log=lines)))
    shown = {
        axes.get_title(loc="left"): [(item.get_label(), colour_of(item), points_of(item)) for item in axes.lines]
        for figure in drawn
        for axes in figure.axes
    }
    assert [description.partition(" over training: ")[0] for _, description in curves] == list(shown)
    assert shown == {
        "Loss": [("loss", INK, [(1, 3), (2, 5)])],
        "Energies": [("real sets", BLUE, [(1, 4), (2, 6)]), ("sampled sets", RED, [(1, 5), (2, 7)])],
        "Risk": [("risk", RED, [(1, 6), (2, 8)])],
        "Validation score": [("validation", GREEN, [(2, 9)])],
        "Gradient norm": [("gradient norm", GREY, [(1, 7), (2, 9)])],
    }
    scales = {axes.get_title(loc="left"): axes.get_yscale() for figure in drawn for axes in figure.axes}
    assert [title for title, scale in scales.items() if scale == "log"] == ["Gradient norm"]
    named = [axes.get_title(loc="left") for figure in drawn for axes in figure.axes if axes.get_legend()]
    assert named == ["Energies"]
    assert {axes.get_xlabel() for figure in drawn for axes in figure.axes} == {"step"}


def test_rare_extremes_are_cut_and_told(drawn: list[Figure], make_run: MakeRun) -> None:
    values = [float(place % 10) for place in range(300)]
    curve_of(drawn, make_run, values, "loss")
    assert drawn[-1].axes[0].get_ylim()[1] < 10  # nothing to cut
    assert not drawn[-1].axes[0].texts
    for highest, cut in ((53.0, False), (55.0, True)):  # from six times the usual range on
        curve_of(drawn, make_run, [*values, highest], "loss")
        assert bool(drawn[-1].axes[0].texts) == cut
    values[7], values[150] = -500.0, 1000.0
    curve_of(drawn, make_run, values, "loss")
    (axes,) = drawn[-1].axes
    low, high = axes.get_ylim()
    assert (low, high) == pytest.approx((-9.45, 18.45))  # the usual range, 0 to 9, once more on either side
    assert [text.get_text() for text in axes.texts] == ["axis cut: values reach from -500 to 1e+03"]


# -- ablation --------------------------------------------------------------------------------------------


def test_ablation_shows_energy_on_the_left_and_the_score_on_the_right(
    drawn: list[Figure], ablation_data: dict[str, Any]
) -> None:
    rows = [(0.5, 7.0, 2e-4), (0.0, 5.0, 1e-4), (1.0, 6.0, 3e-4)]
    ablation_data["rows"] = [{"ratio": ratio, "energy": e, "score": score} for ratio, e, score in rows]
    ablation_picture(ablation_data)
    left, right = drawn[0].axes
    (energy,), (score, reference) = left.get_lines(), right.get_lines()
    assert points_of(energy) == [(0.0, 5.0), (0.5, 7.0), (1.0, 6.0)]  # in the order of the ratios
    assert points_of(score) == [(0.0, 1e-4), (0.5, 2e-4), (1.0, 3e-4)]
    assert list(reference.get_ydata()) == [5e-5, 5e-5]
    assert (left.get_ylabel(), right.get_ylabel()) == ("energy", ablation_data["score_name"])
    assert "S/T" in left.get_xlabel()
    assert (colour_of(energy), colour_of(score), colour_of(reference)) == (BLUE, RED, GREY)
    assert [to_hex(axes.yaxis.label.get_color()) for axes in (left, right)] == [BLUE, RED]
    assert (left.get_yscale(), right.get_yscale()) == ("linear", "linear")
    assert right.get_ylim()[0] == 0
    assert [text.xy for text in right.texts] == [(0.0, 5e-5)]


def test_each_axis_of_an_ablation_has_the_scale_of_its_own_numbers(
    drawn: list[Figure], ablation_data: dict[str, Any]
) -> None:
    scales = []
    for column, value in (("energy", 20.0), ("score", 1.0), ("hungarian", 1.0)):
        data = {**ablation_data, "rows": [{"ratio": 0.5, "energy": 1.0, "score": 1e-4}]}
        data["rows"] = [*data["rows"], {"ratio": 1.0, "energy": 1.0, "score": 1e-4, column: value}]
        ablation_picture(data)
        scales.append([axes.get_yscale() for axes in drawn[-1].axes])
    assert scales == [["log", "linear"], ["linear", "log"], ["linear", "log"]]
    ablation_picture({**ablation_data, "real_data": 1e-6})  # real data count as well
    assert drawn[-1].axes[1].get_yscale() == "log"


def test_both_distances_of_an_ablation_are_named(drawn: list[Figure], ablation_data: dict[str, Any]) -> None:
    for row in ablation_data["rows"]:
        row["hungarian"] = 2 * row["score"]
    ablation_picture(ablation_data)
    _, right = drawn[0].axes
    legend = right.get_legend()
    names = [text.get_text() for text in legend.get_texts()]
    assert names == [ablation_data["score_name"], "Hungarian distance"]
    score, hungarian, _ = right.get_lines()
    assert list(hungarian.get_ydata()) == [2 * value for value in score.get_ydata()]
    markers = [handle.get_marker() for handle in legend.get_lines()]
    assert markers == [score.get_marker(), hungarian.get_marker()]
    assert markers[0] != markers[1]
    assert right.get_ylabel() == "distance"


def test_precision_recall_and_f1_of_an_ablation_stand_together(
    drawn: list[Figure], ablation_data: dict[str, Any]
) -> None:
    for number, row in enumerate(ablation_data["rows"]):
        row |= {"precision": 0.6, "recall": 0.5 + number / 100, "f1": 0.55, "score": 0.55, "hungarian": None}
    ablation_picture({**ablation_data, "real_data": 1.0})
    _, right = drawn[0].axes
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["precision", "recall", "F1"]
    precision, recall, f1 = right.get_lines()  # and no line of a perfect score
    assert set(precision.get_ydata()) == {0.6}
    assert list(recall.get_ydata()) == [row["recall"] for row in ablation_data["rows"]]
    assert set(f1.get_ydata()) == {0.55}
    assert len({line.get_marker() for line in (precision, recall, f1)}) == 3
    assert right.get_ylabel() == "share"
