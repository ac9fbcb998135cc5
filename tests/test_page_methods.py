"""Numbers on the page on methods are those of the recorded files, or of the recipes."""

import statistics

import pytest

from desp.results import read_results
from shown_numbers import RECORDED, RESULTS, about, flat, numbers, page, published, record, rows_with


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


def scores_in(folder: str, recipe: str, scoring: str) -> list[float]:
    results = [item for item in read_results(RESULTS / folder) if item["recipe"] == recipe]
    return [item["scores"][scoring]["score"] for item in results]


def test_ten_seeds_of_the_fast_recipes() -> None:
    head = "| recipe | score, returned sets | raw | to compare with | standard deviation over seeds | raw |"
    _, *rows = rows_with(page("docs/methods.md"), head)
    assert [row[0] for row in rows] == ["`polygons-desp-fast`", "`digits-desp-fast`"]
    real = {item["real_data"]["score"] for item in RECORDED if item["task"] == "digits"}
    in_paper = published("polygons", "desp", "score")[0]
    for (*_, reference), value in zip([row[:4] for row in rows], (in_paper, statistics.fmean(real)), strict=True):
        assert float(reference.split(": ")[1]) == about(value, 6)
    for name, returned, raw, _, *spreads in rows:
        shown = {"returned": (returned, spreads[0]), "raw": (raw, spreads[1])}
        for scoring, (average, spread) in shown.items():
            scores = scores_in("robust", name.strip("`"), scoring)
            assert len(scores) == 10
            assert float(average) == pytest.approx(statistics.fmean(scores), abs=0.05e-5)
            assert spread == f"{round(100 * statistics.stdev(scores) / statistics.fmean(scores))} %"
