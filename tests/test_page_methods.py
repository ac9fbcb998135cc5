"""Numbers on the page on methods are those of the recorded files, or of the recipes."""

import statistics
from typing import Any

import pytest

from desp.recipes import get_recipe
from desp.results import read_results
from shown_numbers import RECORDED, RESULTS, about, flat, numbers, page, published, record, rows_with, same


def test_weights_of_two_recipes() -> None:
    weights = {item["recipe"]: item["training"]["parameters"] for item in RECORDED if item["table"] == "toy"}
    shown = numbers(
        r"1,024 sets and (\.?[\d.]+) million weights, `polygons-desp` 12,000 of 200 and (\.?[\d.]+) million",
        "docs/methods.md",
    )
    recipes = ("polygons-denoising", "polygons-desp")
    assert shown == [pytest.approx(weights[name] / 1e6, abs=0.005) for name in recipes]
    for task in ("polygons", "digits"):
        assert 2 < weights[f"{task}-denoising"] / weights[f"{task}-desp-paper"] < 2.3


def test_poolings_on_validation_data() -> None:
    _, *lines = rows_with(page("docs/methods.md"), "| task | seed | softmax | FSPool |")
    assert len(lines) == 4
    rows = {
        (row["recipe"], row["seed"], row["pooling"]): row["validation_energy_score"]
        for row in record("pooling/validation.json")["rows"]
    }
    for task, seed, *shown in lines:
        for number, pooling in zip(shown, ("softmax", "fspool"), strict=True):
            assert float(number) == round(rows[f"{task.lower()}-denoising", int(seed), pooling], 4)
    text = flat("docs/methods.md")
    assert "no worse than the worst recorded seed of `polygons-denoising`" in text
    recorded = [item["scores"]["returned"]["score"] for item in RECORDED if item["recipe"] == "polygons-denoising"]
    files = [f"pooling/{path.name}" for path in (RESULTS / "pooling").glob("polygons-*.json")]
    four = [record(file)["scores"]["returned"]["score"] for file in files]
    assert len(four) == 4
    assert max(four) <= max(recorded)


def results_of(recipe: str) -> list[dict[str, Any]]:
    """Of the fast recipes the ten seeds, of others the main results."""
    results = read_results(RESULTS / "robust") if recipe.endswith("-fast") else RECORDED
    return [item for item in results if item["recipe"] == recipe]


def test_fast_recipes_beside_others() -> None:
    _, *rows = rows_with(page("docs/methods.md"), "| recipe | steps | score (1e-5), raw |")
    assert len(rows) == 8
    for name, steps, *cells in rows:
        recipe = name.split("`")[1]
        results = results_of(recipe)
        assert steps == f"{get_recipe(recipe).build().training.steps:,}"
        for shown, scoring in zip(cells[:2], ("raw", "returned"), strict=True):
            scores = [item["scores"][scoring]["score"] for item in results]
            average, _, spread = shown.partition(" ± ")
            assert same(average, statistics.fmean(scores) / 1e-5), (recipe, scoring)
            if recipe.endswith("-fast"):
                assert len(scores) == 10
                assert spread == f"{round(100 * statistics.stdev(scores) / statistics.fmean(scores))} %"
        for shown, metric in zip(cells[2:], ("rarest_style", "nearest_neighbour_accuracy"), strict=True):
            values = [item["scores"]["returned"].get(metric) for item in results]
            if shown != "none":
                assert all(
                    same(number, end(values)) for number, end in zip(shown.split(" to "), (min, max), strict=True)
                )
            else:
                assert None in values


def test_what_fast_recipes_are_compared_with() -> None:
    in_paper, real = numbers(
        r"`polygons-desp-paper` \(the paper: (\d\.\d)\).*?\(real data: (\d\.\d)\)", "docs/methods.md"
    )
    assert in_paper == about(published("polygons", "desp", "score")[0] / 1e-5, 1)
    scores = {item["real_data"]["score"] for item in RECORDED if item["task"] == "digits"}
    assert [real] * len(scores) == [about(score / 1e-5, 1) for score in scores]


def test_seeds_that_neglect_a_style() -> None:
    least, most = numbers(
        r"four of ten seeds of `digits-desp-fast` neglect a style: it comes in only (\d+) to (\d+) % of a digit's",
        "docs/methods.md",
    )
    shares = sorted(100 * item["scores"]["returned"]["rarest_style"] for item in results_of("digits-desp-fast"))
    assert [least, most] == [about(shares[0]), about(shares[3])]
    assert shares[4] > 44
    assert "neglects a style with four of ten seeds" in flat("docs/deviations.md")
    assert (
        "the scores of its recorded seeds](methods.md#when-contrastive-training-diverges), four of which"
        in flat("docs/reproduce.md")
    )


def test_times_of_boxes_in_images() -> None:
    shown = numbers(
        r"`clevr-detector` takes ([\d.]+) ms for an image and ([\d.]+) ms for 100, "
        r"`clevr-box-denoiser` (\d+) and (\d+) ms",
        "docs/methods.md",
    )
    rows = record("bench/predict-clevr-cuda.json")["rows"]
    assert [(row["task"], row["predictions"]) for row in rows] == [
        (f"clevr-{name}", count) for name in ("detector", "box-denoiser") for count in (1, 100)
    ]
    assert shown == [about(row["ms"], places) for row, places in zip(rows, (1, 1, 0, 0), strict=True)]
