"""Numbers on the page on CLEVR are those of the recorded files."""

import re
from typing import Any

import pytest

from desp.results import rows_of
from shown_numbers import RECORDED, about, flat, mean, numbers, page, record, rows_with, same

PAGE = "docs/clevr.md"
_WITH_SEEDS = "| | seeds | training steps | AP50 | AP60 | AP70 | AP80 | AP90 |"


@pytest.mark.parametrize(
    ("head", "data"),
    [(f"{_WITH_SEEDS}\n", "re-rendered"), (f"{_WITH_SEEDS} AP50, exact |", "generated")],
    ids=["re-rendered", "generated"],
)
def test_boxes_of_one_raw_sample(head: str, data: str) -> None:
    columns, *rows = rows_with(page(PAGE), head)
    assert len(rows) > 5
    for name, seeds, length, *shown in rows:
        recipe = re.findall(r"`(\S+)`", name)[0]
        steps = re.findall(r"(\d\d) steps", name)
        ending = f"_{steps[0]}_steps" if steps and steps[0] != "10" else ""
        for column, number in zip(columns[-len(shown) :], shown, strict=True):
            exact = "_exact" if "exact" in column else ""
            value, count = mean(recipe, data, "raw", f"{column[:4].lower()}{exact}{ending}")
            assert count == int(seeds), name
            assert same(number, value), (name, column, value)
        assert {f"{run['steps']:,}" for source, run in trainings(recipe) if source == data} == {length}


@pytest.mark.parametrize(
    ("head", "data", "metrics"),
    [
        ("| | test images | AP50 | AP60 | AP70 | AP80 | AP90 |", None, ("ap50", "ap60", "ap70", "ap80", "ap90")),
        ("| | any | 1 | .5 | .25 | .125 |", "generated", ("ap_inf", "ap1", "ap05", "ap025", "ap0125")),
    ],
    ids=["boxes", "states"],
)
def test_methods_with_spatial_features(head: str, data: str | None, metrics: tuple[str, ...]) -> None:
    """A table of several sources has a column that names them."""
    _, *rows = rows_with(page(PAGE), head)
    for name, *cells in rows:
        source, shown = (data, cells) if data else (cells[0].removesuffix(", exact boxes"), cells[1:])
        ending = "_exact" if "exact boxes" in cells[0] else ""
        scoring = "raw" if "one sample" in name else "returned"
        for number, metric in zip(shown, metrics, strict=True):
            value, count = mean(re.findall(r"`(\S+)`", name)[0], source, scoring, metric + ending)
            assert (count, same(number, value)) == (1, True), (name, metric, value)


def interval(data: str, scoring: str, metric: str) -> list[float]:
    """Mean and half-width of the 95 % interval of `clevr-desp`."""
    runs = [item for item in RECORDED if (item["recipe"], item.get("data_source")) == ("clevr-desp", data)]
    (row,) = (row for row in rows_of(runs) if row["metric"] == metric)
    return [row[scoring], row[f"{scoring}_ci95"]]


def pooled(recipe: str, data: str, metric: str) -> float:
    return mean(recipe, data, "returned", metric)[0]


def test_intervals_of_two_seeds() -> None:
    shown = numbers(
        r"the AP50 of `clevr-desp` is (\.\d+) ± (\.\d+) \(re-rendered\) and (\.\d+) ± (\.\d+) \(generated\)", PAGE
    )
    found = [value for data in ("re-rendered", "generated") for value in interval(data, "raw", "ap50")]
    assert shown == [about(value, 3) for value in found]


@pytest.mark.parametrize(
    ("start", "data"),
    [
        ("Ten samples of `clevr-desp`, pooled,", "re-rendered"),
        ("Here ten pooled samples of `clevr-desp`", "generated"),
    ],
)
def test_pooled_boxes_of_one_vector(start: str, data: str) -> None:
    shown = numbers(rf"{start} have an AP50 of (\.\d+), of `clevr-tspn` (\.\d+)", PAGE)
    assert shown == [about(pooled(recipe, data, "ap50"), 3) for recipe in ("clevr-desp", "clevr-tspn")]


HIDDEN = ("hidden_recall", "hidden_recall_of_5")


def test_mostly_hidden_objects() -> None:
    shown = numbers(
        r"One sample of `clevr-desp` finds (\.\d+) ± (\.\d+) of the mostly hidden objects, and at least one of "
        r"five samples finds (\.\d+) ± (\.\d+) of them",
        PAGE,
    )
    assert shown == [about(value, 2) for name in HIDDEN for value in interval("generated", "returned", name)]
    shown = numbers(
        r"one sample of `clevr-box-denoiser` finds (\.\d+) of the mostly hidden objects, and at least one of five "
        r"samples (\.\d+), which is one object more",
        PAGE,
    )
    one, five = (pooled("clevr-box-denoiser", "generated", name) for name in HIDDEN)
    assert shown == [about(one, 2), about(five, 2)]
    (objects,) = numbers(r"all recorded shares are multiples of 1/(\d+)", PAGE)
    assert (five - one) * objects == pytest.approx(1)
    scores = [item["scores"]["returned"] for item in RECORDED if item.get("data_source") == "generated"]
    found = [objects * item[name] for item in scores for name in HIDDEN if name in item]
    assert len(found) > 4
    assert found == [pytest.approx(round(count), abs=1e-4) for count in found]


def test_calibration_of_pooled_boxes() -> None:
    shown = numbers(
        r"The calibration error of its pooled boxes is (\.\d+)\. ### .*? "
        r"The calibration error of its pooled boxes is (\.\d+)\.",
        PAGE,
    )
    recipes = ("clevr-desp", "clevr-box-denoiser")
    assert shown == [about(pooled(recipe, "generated", "confidence_ece"), 3) for recipe in recipes]


SYSTEMS = ("desp", "dspn-chamfer", "dspn-hungarian", "c-dspn", "tspn", "desp-paper")
ONE_VECTOR = [f"clevr-{name}" for name in SYSTEMS]


def trainings(*recipes: str) -> list[tuple[str, dict[str, Any]]]:
    """Of recipes, each with its source of images."""
    return [(item["data_source"], item["training"]) for item in RECORDED if item["recipe"] in recipes]


def test_minutes_of_training() -> None:
    shown = numbers(
        r"took (\d+) to (\d+) minutes \(`clevr-desp-simple` on generated scenes, recorded later: (\d+)\)",
        PAGE,
    )
    simple = {data: run["seconds"] for data, run in trainings("clevr-desp-simple")}
    others = [run["seconds"] for _, run in trainings(*ONE_VECTOR)] + [simple["re-rendered"]]
    assert shown == [about(seconds / 60) for seconds in (min(others), max(others), simple["generated"])]
    shown = numbers(
        r"taking (\d) and (\d) minutes \(re-rendered\), or (\d) and (\d) minutes together with a third run", PAGE
    )
    detector, denoiser = (dict(trainings(name)) for name in ("clevr-detector", "clevr-box-denoiser"))
    found = [runs[data]["seconds"] for data in ("re-rendered", "generated") for runs in (detector, denoiser)]
    assert shown == [about(seconds / 60) for seconds in found]
    ((_, states),) = trainings("clevr-state-denoiser")
    assert numbers(r"trained in (\d) minutes on one H200", PAGE) == [about(states["seconds"] / 60)]


def test_steps_of_training() -> None:
    detector, denoiser, *others = numbers(
        r"after ([\d,]+) \(detector\) and ([\d,]+) steps of 64 images, where the others had ([\d,]+) to ([\d,]+)",
        PAGE,
    )
    assert {run["steps"] for _, run in trainings("clevr-detector")} == {detector}
    assert {run["steps"] for _, run in trainings("clevr-box-denoiser")} == {denoiser}
    found = [run["steps"] for _, run in trainings(*ONE_VECTOR, "clevr-desp-simple")]
    assert others == [min(found), max(found)]
    paper, simple = numbers(
        r"learns next to nothing in ([\d,]+) steps\. With the simpler set encoder it learns even less in "
        r"([\d,]+)",
        PAGE,
    )
    assert {run["steps"] for _, run in trainings("clevr-desp-paper")} == {paper}
    assert {run["steps"] for _, run in trainings("clevr-desp-simple")} == {simple}


def test_rates_of_training() -> None:
    assert "`-paper` and `-simple` have a constant rate and no EMA; the others have cosine decay and EMA" in flat(
        PAGE
    )
    for item in RECORDED:
        if item["recipe"] in (*ONE_VECTOR, "clevr-desp-simple"):
            settings, constant = item["settings"]["training"], item["recipe"].endswith(("-paper", "-simple"))
            assert settings["lr_schedule"] == ("constant" if constant else "cosine")
            assert (settings["ema_decay"] is None) == constant


def test_exact_boxes_are_rarely_reached() -> None:
    (usual, rare) = numbers(r"As boxes of the objects they reach an IoU of (\.\d), but rarely (\.\d)\.", PAGE)
    for recipe in ("clevr-detector", "clevr-box-denoiser"):
        assert pooled(recipe, "generated", f"ap{100 * usual:.0f}_exact") > 0.99
        assert pooled(recipe, "generated", f"ap{100 * rare:.0f}_exact") < 0.04


def test_size_of_the_cache() -> None:
    """Of 70,000 training and 15,000 validation images."""
    (size,) = numbers(r"decodes each image once into a cache of ([\d.]+) GB", PAGE)
    assert size == about(85_000 * 3 * 128 * 128 / 1e9, 1)


def test_generated_scenes_look_like_rendered_ones() -> None:
    pattern = r"reaches an AP50 of (\.\d+) and an AP90 of (\.\d+) on the 500 re-rendered test images"
    recorded = record("clevr/transfer.json")
    for shown, metric in zip(numbers(pattern, PAGE), ("ap50", "ap90"), strict=True):
        assert abs(shown - recorded["scores"]["returned"][metric]) <= 5.01e-4
    rate, batch = numbers(
        r"On an H200 ([\d,]+) of them are drawn and rendered a second, in batches of (\d+)", PAGE
    )
    measured = record("bench/scenes-cuda.json")["rows"]
    (images,) = (row["images_per_s"] for row in measured if row["batch"] == batch)
    assert rate == about(images, -2)
