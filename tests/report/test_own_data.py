"""The page of a run on own data: a verdict, baselines, cases with every feature, sizes."""

import base64
import io
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from desp.comparison.features import Feature
from desp.errors import RunError
from desp.report.figures.own_sets import layout_of, own_sets_picture
from desp.report.numbers import MINUS
from desp.report.page import write_report

MakeRun = Callable[..., Path]

X, Y, Z = Feature("x", "m", (0, 1)), Feature("y", "", (1, 2)), Feature("z", "s", (2, 3))


def kind(first: int, *classes: str) -> Feature:
    return Feature("kind", "", (first, first + len(classes)), classes or ("a", "b"))


def numbers(count: int, unit: str = "") -> list[Feature]:
    return [Feature(f"f{place}", unit, (place, place + 1)) for place in range(count)]


LAYOUTS: dict[str, list[Feature]] = {
    "line": [X],
    "counts": [kind(0, "apple", "pear")],
    "strip": [X, kind(1, "apple", "pear")],
    "plane": [X, Y],
    "plane, coloured": [X, Y, Z],
    "plane, kinds": [X, Y, kind(2, "apple", "pear")],
    "pairs": numbers(5),
    "pairs, kinds": [X, Y, Z, kind(3, "apple", "pear")],
    "profile": numbers(9),
    "profile, one unit": numbers(9, "nm"),
}


def element(features: list[Feature], place: int) -> list[float]:
    values: list[float] = []
    for feature in features:
        width = len(feature.classes)
        values += [float(place % width == column) for column in range(width)] if width else [place + 0.5]
    return values


def example(features: list[Feature], group: str | None = "best", **more: Any) -> dict[str, Any]:
    elements = [element(features, place) for place in range(3)]
    found: dict[str, Any] = {
        "label": "held-out example 4",
        "input": [0.25, 7.0],
        "truth": [elements],
        "samples": [{"set": elements[:2], "energy": 1.0}, {"set": [], "energy": 2.0}],
        **more,
    }
    return found if group is None else {**found, "group": group, "energy_score": 0.125}


def shown(features: list[Feature], *examples: dict[str, Any], **axes: Any) -> dict[str, Any]:
    described = [feature.as_json() for feature in features]
    names = [f"c{place}" for place in range(features[-1].columns[1])]
    return {
        "axes": {"names": names, "features": described, "input_names": ["width", "depth"], **axes},
        "examples": list(examples) or [example(features), example(features, "worst")],
    }


def system(score: float, verdict: str | None = None, right: float = 0.75) -> dict[str, Any]:
    row: dict[str, Any] = {"energy_score": score, "energy_score_se": 0.01}
    row |= {"single_error": 0.2, "single_error_se": 0.02}
    row |= {"right_size": right, "right_size_se": 0.01}
    row["feature_errors"] = [{"mean": 10 * score, "se": 0.05}, {"mean": score, "se": None}]
    if verdict:
        row |= {"difference": 0.1 - score, "difference_se": 0.01, "verdict": verdict}
    return row


def evaluation(**replaced: Any) -> dict[str, Any]:
    features = LAYOUTS["strip"]
    comparison = {
        "tests": 60,
        "known": 500,
        "samples": 10,
        "distance": "hungarian",
        "one_answer": True,
        "features": [feature.as_json() for feature in features],
        "systems": {
            "desp": system(0.1),
            "knn": system(0.3, "clearly better"),
            "random": system(0.5, "clearly better"),
            "mlp": system(0.11, "tie"),
        },
        "sizes": {"sizes": [[1, 1], [2, 3]], "counts": [[30, 10], [0, 20]], "too_few": 0.0, "too_many": 0.15},
    }
    verdict = {"sentence": "Clearly better than <b>nearest neighbours</b>; sizes right in 75%."}
    row = {"recipe": "custom", "metric": "score", "value": 0.5, "direction": "lower", "seeds": [0]}
    ranks = {"inputs": 200, "samples": 9, "histogram": [0.6 / 5] * 5 + [0.4 / 5] * 5, "p_value": 0.3}
    result = {"comparison": comparison, "verdict": verdict, **replaced}
    compared = {"metric": "energy_score", "value": 0.1, "compared": True, "verdict": "only in its section"}
    rows = [row, {**row, **compared}]
    return {"rows": rows, "details": {"calibration": ranks}, "result": result, **shown(features)}


def page(make_run: MakeRun, **files: Any) -> str:
    return write_report(make_run(ablation=None, **files)).read_text(encoding="utf-8")


def words(html: str) -> str:
    return " ".join(unescape(html).split())


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_feature_has_its_place(name: str) -> None:
    assert layout_of(LAYOUTS[name]) == name.partition(",")[0]


def texts(figures: list[Figure]) -> str:
    """All words in pictures."""
    from matplotlib.text import Text

    return " | ".join(item.get_text() for figure in figures for item in figure.findobj(Text))


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_picture_names_its_features_and_has_numbers(name: str, drawn: list[Figure]) -> None:
    features = LAYOUTS[name]
    own_sets_picture(shown(features))
    said = texts(drawn)
    if not name.startswith("profile"):
        for feature in features:
            expected = feature.classes[:2] if feature.classes else (feature.label,)
            assert all(word in said for word in expected), feature
    assert "width = 0.250" in said
    assert "energy score 0.125" in said
    ticks = [
        label.get_text() for axes in drawn[0].axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())
    ]
    assert any(text.strip(MINUS).replace(".", "").isdigit() for text in ticks)


def test_the_amount_beside_a_kind_is_drawn(drawn: list[Figure]) -> None:
    own_sets_picture(shown(LAYOUTS["strip"], example(LAYOUTS["strip"])))
    (truth,) = [axes for axes in drawn[0].axes if axes.collections and len(axes.collections[0].get_offsets()) == 3]
    assert np.asarray(truth.collections[0].get_offsets()).tolist() == [[0.5, 0.0], [1.5, 1.0], [2.5, 0.0]]


def test_no_two_categories_look_the_same(drawn: list[Figure]) -> None:
    names = [f"k{place}" for place in range(14)]
    features = [X, Y, kind(2, *names)]
    own_sets_picture(shown(features, example(features, truth=[[element(features, place) for place in range(14)]])))
    (legend,) = drawn[0].legends
    looks = {(handle.get_marker(), handle.get_color()) for handle in legend.legend_handles}
    assert [item.get_text() for item in legend.get_texts()] == sorted(names, key=lambda name: int(name[1:]))
    assert len(looks) == 14


def test_categories_with_commas_and_dollars_in_their_names(drawn: list[Figure]) -> None:
    names = ["chair, red", "$cost^$", "chair"]
    features = [X, Y, kind(2, *names)]
    own_sets_picture(shown(features, example(features)))
    (legend,) = drawn[0].legends
    assert [item.get_text() for item in legend.get_texts()] == names
    assert not any(item.get_parse_math() for item in legend.get_texts())


def test_an_image_or_a_set_stands_beside_its_row(drawn: list[Figure]) -> None:
    from PIL import Image

    content = io.BytesIO()
    Image.new("RGB", (4, 4), (255, 0, 0)).save(content, "PNG")
    uri = f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
    own_sets_picture(shown([X, Y], example([X, Y], input_image=uri)))
    own_sets_picture(shown([X, Y], example([X, Y], input_elements=[[1.0, 2.0], [3.0, 4.0]])))
    first, second = ([axes for axes in figure.axes if axes.get_title() == "input"] for figure in drawn)
    assert len(first[0].images) == 1
    assert len(second[0].collections[0].get_offsets()) == 2
    assert "width" not in texts(drawn)  # it is drawn instead


def test_sets_of_other_features_are_refused() -> None:
    wrong = shown([X, Y], example([X, Y], truth=[[[1.0, 2.0, 3.0]]]))
    with pytest.raises(RunError, match="another number of features"):
        own_sets_picture(wrong)


@pytest.mark.usefixtures("undrawn")
def test_the_page_begins_with_the_verdict_and_all_systems(make_run: MakeRun) -> None:
    html = page(make_run, evaluation=evaluation())
    assert "<b>nearest neighbours</b>" not in html  # text of a file is no HTML
    said = words(html)
    assert "Clearly better than <b>nearest neighbours</b>; sizes right in 75%." in said
    for name in ("This model", "Nearest neighbours", "Random training sets", "MLP"):
        assert f"<dt>{name}</dt>" in html
    assert ">0.110</data><small>± 0.020, the model" in html  # to the same place
    assert "± 0.020, the model's single answer is not clearly different" in said  # two standard errors; of the MLP
    assert "is compared too, by the distance of its single answer" in said
    assert "0.200" not in said.partition("Compared with baselines")[0]
    assert f"{MINUS}0.200 ± 0.020" in said  # the model less neighbours, paired
    assert "only in its section" not in html


@pytest.mark.usefixtures("undrawn")
def test_errors_of_features_are_in_their_units(make_run: MakeRun) -> None:
    said = words(page(make_run, evaluation=evaluation()))
    assert "x (m)" in said
    assert "1.00 ± 0.10" in said
    assert "10% wrong" in said
    assert "The error of x is 20% of the error of random training sets" in said


@pytest.mark.usefixtures("undrawn")
def test_sizes_are_shown_as_shares_of_true_ones(make_run: MakeRun) -> None:
    html = page(make_run, evaluation=evaluation())
    said = words(html)
    assert "The size is right in 75%, too small in 0%, too large in 15%." in said
    assert "2 to 3" in said
    assert 'title="30 of 40">75%' in html
    fixed = evaluation()
    fixed["result"]["comparison"]["sizes"] = None
    assert 'id="sizes"' not in page(make_run, evaluation=fixed)


@pytest.mark.usefixtures("undrawn")
def test_calibration_has_a_verdict(make_run: MakeRun) -> None:
    said = words(page(make_run, evaluation=evaluation()))
    assert "Predictions are slightly too wide. The mean rank of the truth is 0.44 of 0 to 1" in said


@pytest.mark.usefixtures("undrawn")
def test_cases_take_the_place_of_the_first_examples(make_run: MakeRun) -> None:
    said = words(page(make_run, evaluation=evaluation(), samples=shown([X], example([X], None))))
    assert "those it predicted best, those in the middle, and the worst" in said
    assert "<h3>worst: held-out example 4</h3>" in said
    assert "apple" in said  # a category by its name


@pytest.mark.usefixtures("undrawn")
def test_before_it_is_scored_a_page_shows_the_first_examples(make_run: MakeRun) -> None:
    before = words(page(make_run, evaluation=None, samples=shown([X], example([X], None))))
    assert "The first held-out examples" in before


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("held_out", [True, False])
def test_examples_that_were_trained_on_are_not_called_held_out(make_run: MakeRun, held_out: bool) -> None:
    task = {"kind": "given", "path": "given.npz", "held_out": held_out}
    settings = {"recipe": "fit", "seed": 0, "settings": {"schema": 4, "task": task}}
    said = words(page(make_run, evaluation=None, settings=settings, samples=shown([X], example([X], None))))
    assert ("which the model was not trained on" in said) == held_out
    assert ("The first training examples." in said) != held_out


@pytest.mark.usefixtures("undrawn")
def test_what_was_not_compared_says_why(make_run: MakeRun) -> None:
    alone = evaluation(comparison=None, verdict={"sentence": "", "not_compared": "There are too few."})
    html = page(make_run, evaluation=alone)
    assert "There are too few." in html
    assert 'id="compared"' not in html


@pytest.mark.usefixtures("undrawn")
def test_errors_of_many_features_are_folded(make_run: MakeRun) -> None:
    many = evaluation()
    comparison = many["result"]["comparison"]
    comparison["features"] = [feature.as_json() for feature in numbers(20)]
    for row in comparison["systems"].values():
        row["feature_errors"] = [{"mean": 1.0, "se": 0.1}] * 20
    assert "<summary>All 20 features</summary>" in page(make_run, evaluation=many)


def test_pictures_follow_the_theme_of_the_page() -> None:
    for name in ("plane", "strip", "pairs"):
        svg = own_sets_picture(shown(LAYOUTS[name])).decode()
        assert "var(--truth)" in svg
        assert "var(--ink)" in svg
        assert "#1f2328" not in svg
