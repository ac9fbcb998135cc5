"""Pictures: they come out in every case a run can produce, and say what they should."""

import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from desp.errors import MissingExtraError, RunError
from desp.report.figures.grid import case_grid, prediction_grid
from desp.report.figures.plots import ablation_picture, calibration_picture, learning_curves
from desp.report.figures.points import Axes2D, as_points, by_angle, outside, window
from desp.report.folder import read_run
from desp.report.numbers import MINUS

MakeRun = Callable[..., Path]
PNG = b"\x89PNG\r\n\x1a\n"


def lift(data: dict[str, Any], features: int) -> dict[str, Any]:
    """The same sets with another number of features."""

    def change(points: list[list[float]]) -> list[list[float]]:
        return [[*point, 0.3, 0.4][:features] for point in points]

    for item in data["examples"]:
        item["truth"] = [change(points) for points in item["truth"]]
        item["samples"] = [{**sample, "set": change(sample["set"])} for sample in item["samples"]]
        item["chain"]["frames"] = [change(points) for points in item["chain"]["frames"]]
    data["axes"] = {"names": ["a", "b", "c", "d"][:features], "closed": False, "row_first": False}
    return data


def svg_texts(svg: bytes) -> list[str]:
    return ["".join(item.itertext()).strip() for item in ElementTree.fromstring(svg).iter("text")]  # noqa: S314


def test_grid_names_truth_predictions_energies_and_empty_sets(sample_data: dict[str, Any]) -> None:
    texts = svg_texts(prediction_grid(sample_data))
    assert {"truth", "predictions", "3 corners", "4 corners", f"E = {MINUS}0.250", "empty"} <= set(texts)


@pytest.mark.parametrize("features", [1, 2, 3, 4])
def test_grid_of_any_number_of_features(sample_data: dict[str, Any], features: int) -> None:
    assert prediction_grid(lift(sample_data, features)).startswith(b"<svg")


def test_grid_shows_the_name_of_the_coloured_feature(sample_data: dict[str, Any]) -> None:
    assert "c" in svg_texts(prediction_grid(lift(sample_data, 3)))


def test_grid_of_empty_sets_only(sample_data: dict[str, Any]) -> None:
    sample_data["examples"] = [{"label": "nothing", "truth": [[]], "samples": [{"set": [], "energy": 0.0}]}]
    assert svg_texts(prediction_grid(sample_data)).count("empty") == 2


def test_grid_of_large_sets_stays_small(sample_data: dict[str, Any]) -> None:
    cloud = np.random.default_rng(0).random((400, 2)).tolist()
    sample_data["examples"][0]["truth"] = [cloud] * 3
    sample_data["examples"][0]["samples"] = [{"set": cloud, "energy": 0.0}] * 6
    sample_data["axes"]["row_first"] = True
    assert len(prediction_grid(sample_data)) < 400_000


def test_grid_survives_unknown_and_far_values(sample_data: dict[str, Any]) -> None:
    sample_data["examples"][0]["samples"][0]["set"] = [[None, 0.5], [1e9, 0.5], [0.5, 0.5]]
    assert "2 outside" in svg_texts(prediction_grid(sample_data))


@pytest.mark.parametrize("label", ["$x", r"$\frac{$", "<b>&", "五角形"])
def test_labels_are_drawn_as_they_are(sample_data: dict[str, Any], label: str) -> None:
    sample_data["examples"][0]["label"] = label
    assert label in svg_texts(prediction_grid(sample_data))


@pytest.mark.parametrize("examples", [[], [{"label": "x", "truth": [], "samples": []}]])
def test_grid_of_nothing(sample_data: dict[str, Any], examples: list[Any]) -> None:
    with pytest.raises(
        RunError, match=r"no examples to draw\. Delete the file and run `desp report RUN` again\.$"
    ):
        prediction_grid({**sample_data, "examples": examples})


@pytest.mark.parametrize("broken", [[[1, 2], [3]], [1, 2], [["a", "b"]]])
def test_damaged_set(sample_data: dict[str, Any], broken: Any) -> None:
    sample_data["examples"][0]["truth"] = [broken]
    with pytest.raises(
        RunError, match=r"^A set to draw is not a list of equally long lists .* delete its samples"
    ):
        prediction_grid(sample_data)


def test_sets_of_different_features(sample_data: dict[str, Any]) -> None:
    sample_data["examples"][0]["truth"] = [[[1.0]]]
    with pytest.raises(
        RunError, match=r"different numbers of features\. Delete the file and run `desp report RUN` again\.$"
    ):
        prediction_grid(sample_data)


def test_calibration() -> None:
    texts = svg_texts(calibration_picture([0.2, 0.3, 0.5], inputs=40))
    for text in ("0", "1", "2", "share of inputs"):
        assert text in texts


def test_ablation(ablation_data: dict[str, Any]) -> None:
    assert ablation_picture(ablation_data, "png").startswith(PNG)
    texts = svg_texts(ablation_picture(ablation_data))
    assert {"energy", "Hungarian to the nearest true polygon", "real data"} <= set(texts)


def test_ablation_over_decades_and_with_gaps(ablation_data: dict[str, Any]) -> None:
    ablation_data["rows"][0]["score"] = 1.0
    ablation_data["rows"][1]["energy"] = None
    ablation_data["real_data"] = None
    assert "real data" not in svg_texts(ablation_picture(ablation_data))


def test_a_perfect_score_of_zero_is_not_drawn(ablation_data: dict[str, Any]) -> None:
    ablation_data["real_data"] = 0.0
    assert "real data" not in svg_texts(ablation_picture(ablation_data))


def test_energies_over_decades_have_a_logarithmic_scale(ablation_data: dict[str, Any]) -> None:
    def exponents(lowest: float) -> int:
        for row in ablation_data["rows"]:
            row["energy"] = 1.0
        ablation_data["rows"][0]["energy"] = lowest
        return sum("10" in text for text in svg_texts(ablation_picture(ablation_data)))

    assert exponents(1e-4) > exponents(0.5)


def test_ablation_with_both_distances(ablation_data: dict[str, Any]) -> None:
    assert "Hungarian distance" not in svg_texts(ablation_picture(ablation_data))
    for row in ablation_data["rows"]:
        row["hungarian"] = 2 * row["score"]
    texts = svg_texts(ablation_picture(ablation_data))
    assert {ablation_data["score_name"], "Hungarian distance", "distance", "energy"} <= set(texts)


def test_ablation_without_rows() -> None:
    with pytest.raises(RunError, match=r"no rows.*desp ablate"):
        ablation_picture({"steps": 4, "rows": []})


def titles_of(curves: list[tuple[bytes, str]]) -> list[str]:
    """What is drawn, as descriptions begin with it."""
    return [description.partition(" over training: ")[0] for _, description in curves]


def test_curves_of_a_contrastive_run(make_run: MakeRun) -> None:
    curves = learning_curves(read_run(make_run()))
    assert titles_of(curves) == ["Loss", "Energies", "Validation score", "Gradient norm"]
    assert "real sets from -0.1 at step 1 to -0.1 at step 30" in curves[1][1]
    assert all(image.startswith(b"<svg") for image, _ in curves)


def test_curves_of_a_risk_run_with_unknown_values(make_run: MakeRun) -> None:
    lines = [{"step": step, "loss": None, "risk": 1.0, "gradient_norm": 0.0} for step in range(5)]
    curves = learning_curves(read_run(make_run(log=lines)))
    assert titles_of(curves) == ["Risk", "Gradient norm"]


def test_curves_of_a_long_run_are_thinned(make_run: MakeRun) -> None:
    lines = [{"step": step, "loss": float(np.sin(step))} for step in range(20_000)]
    lines[5]["loss"] = 1e6
    ((image, _),) = learning_curves(read_run(make_run(log=lines)))
    assert len(image) < 150_000
    assert any("axis cut" in text for text in svg_texts(image))


def test_curves_of_nothing(make_run: MakeRun) -> None:
    assert learning_curves(read_run(make_run(log=None))) == []


def test_matplotlib_is_left_as_it_was(sample_data: dict[str, Any]) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    prediction_grid(sample_data)
    assert dict(matplotlib.rcParams) == before


def test_missing_matplotlib(
    sample_data: dict[str, Any],
    ablation_data: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"desp\[viz\]"):
        prediction_grid(sample_data)
    with pytest.raises(MissingExtraError, match=r"desp\[viz\]"):
        ablation_picture(ablation_data, "png")


def test_by_angle_makes_a_simple_polygon() -> None:
    square = as_points([[0, 0], [1, 1], [1, 0], [0, 1]])
    ordered = by_angle(square)
    sides = np.linalg.norm(ordered - np.roll(ordered, 1, axis=0), axis=1)
    np.testing.assert_allclose(sides, 1.0)


def test_window_is_square_and_ignores_far_predictions() -> None:
    view = window([as_points([[0, 0], [1, 0.5]])], [as_points([[1.2, 0.1], [50, 50]])])
    size = view[1] - view[0]
    assert size[0] == pytest.approx(size[1])
    assert 1.2 < view[1, 0] < 1.4
    assert outside(as_points([[1.2, 0.1], [50, 50]]), view) == 1


def test_window_keeps_different_units_apart() -> None:
    view = window([as_points([[0, 0], [1, 1000]])], [])
    assert view[1, 0] < 2


def test_window_of_nothing_and_of_one_point() -> None:
    assert window([], []).shape == (2, 0)
    point = as_points([[3.0, 3.0]])
    assert outside(point, window([point], [])) == 0


# -- cases -------------------------------------------------------------------------------------------------

IMAGE_AXES = Axes2D(("row", "column"), row_first=True)


def case(group: str, index: int, **replaced: Any) -> dict[str, Any]:
    points = [[0.1, 0.2], [0.9, 0.4]]
    return {
        "group": group,
        "index": index,
        "label": "7",
        "score": 1.5e-5,
        "truth": points,
        "prediction": points,
        **replaced,
    }


def test_cases_are_named_with_their_distances() -> None:
    cases = [case("best", 3), case("best", 4, prediction=[]), case("worst", 9, score=None)]
    texts = svg_texts(case_grid(cases, IMAGE_AXES))
    assert {"best", "worst", "test 3: 7", "test 4: 7", "test 9: 7", f"1.50e{MINUS}5", "empty"} <= set(texts)


def test_rows_of_cases_grow_downwards() -> None:
    """A point in a high row is drawn below one in a low row."""
    low, high = (
        case_grid([case("best", 0, truth=[[row, 0.5], [0.0, 0.0], [1.0, 1.0]])], IMAGE_AXES) for row in (0.2, 0.8)
    )

    def lowest_marks(svg: bytes) -> list[float]:
        # One marker an element; that of the first point of the truth is the one that moves.
        return [float(item.get("y") or 0) for item in ElementTree.fromstring(svg).iter("use")]  # noqa: S314

    moved = [(a, b) for a, b in zip(lowest_marks(low), lowest_marks(high), strict=True) if a != b]
    assert len(moved) == 1
    assert moved[0][1] > moved[0][0]


def test_cases_without_any_points() -> None:
    texts = svg_texts(case_grid([case("best", 0, truth=[], prediction=[])], IMAGE_AXES))
    assert texts.count("empty") == 2
