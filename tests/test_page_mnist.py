"""Numbers in sentences on set-MNIST are those of the files that they come from."""

import json
import statistics
from typing import Any

import pytest

from desp.recipes import get_recipe
from shown_numbers import RECORDED, RESULTS, numbers

PAGE = "docs/deviations.md"
OURS = [item for item in RECORDED if item["recipe"] == "mnist-desp"]
SCORINGS = ("raw", "returned")


def rows(name: str) -> dict[str, Any]:
    return {row["run"]: row for row in json.loads((RESULTS / "mnist" / name).read_text())["rows"]}


def each(scoring: str, metric: str) -> list[float]:
    return [item["scores"][scoring][metric] for item in OURS]


def test_which_seeds_gave_a_model() -> None:
    first, last, *diverged = numbers(r"Seeds (\d+) to (\d+) were trained. With seed (\d+) more than 5 %", PAGE)
    seeds = {int(item["seed"]) for item in OURS}
    assert seeds == set(range(int(first), int(last) + 1)) - {int(diverged[0])}
    record = json.loads((RESULTS / "mnist" / f"diverged-seed{int(diverged[0])}.json").read_text())
    rates = [float(text.split("%")[0].rsplit(" ", 1)[1]) for text in record["said"]]
    assert len(rates) == 6
    assert min(rates) > 5
    assert [item["training"]["rollbacks"] for item in OURS if item["seed"] == 21] == [2]
    assert {item["settings"]["task"]["translate_fraction"] for item in OURS} == {0.3}
    own = get_recipe("mnist-desp").build()
    assert {item["settings"]["training"]["learning_rate"] for item in OURS} == {own.training.learning_rate}


def test_sizes_by_the_released_rule() -> None:
    shown = numbers(
        r"raw sets is (\S+) with seed 21 and (\S+) with the others on 1,000 digits, and (\S+), (\S+), (\S+) and "
        r"(\S+) on all; of returned sets (\S+), (\S+), (\S+) and (\S+), and (\S+), (\S+), (\S+) and (\.\d+)",
        PAGE,
    )
    raw = each("raw", "size_rmse_released")
    assert raw[1:] == [pytest.approx(shown[1])] * 3
    found = [raw[0], *raw[1:2], *each("raw", "size_rmse_released_all")]
    found += each("returned", "size_rmse_released") + each("returned", "size_rmse_released_all")
    assert shown == [pytest.approx(value, abs=0.0005) for value in found]
    wrong = [round(10_000 * (1 - share)) for share in each("returned", "right_size_all")]
    assert wrong == [1, 0, 0, 0]
    for scoring in SCORINGS:
        assert max(each(scoring, "chamfer_all") + each(scoring, "hungarian_all")) < 6e-5  # the paper's


def test_fractions_that_were_compared_on_validation_digits() -> None:
    shown = numbers(
        r"the error is (\S+) to (\S+) if a tenth of the training digits is translated, (\S+) to (\S+) if three "
        r"tenths",
        PAGE,
    )
    training = rows("choices-training.json") | rows("choices-samplers.json")
    border = "row and column 1"
    found: list[float] = []
    for fraction in (".1", ".3"):
        runs = [training[f"fraction{fraction}-seed{seed}"] for seed in (30, 31)]
        found += sorted(run["at_border"][border]["size_rmse_released"] for run in runs)
        expected = 0.04 if fraction == ".1" else 0
        assert [run["scores"]["own"]["size_rmse_released"] for run in runs] == [pytest.approx(expected)] * 2
        assert {run["settings"]["task"]["translate_fraction"] for run in runs} == {float(fraction)}
    assert shown == [pytest.approx(value, abs=0.006) for value in found]
    others = numbers(
        r"With none, the errors are (\.\d+) and (\d), with a tenth and Adam's beta_1 of .9 they are (\.\d+) and "
        r"(\d)",
        PAGE,
    )
    runs = [training[other] for other in ("fraction0-seed30", "betas.9-seed30")]
    assert [run["settings"]["task"]["translate_fraction"] for run in runs] == [0, 0.1]
    errors = [
        (run["at_border"][border]["size_rmse_released"], run["scores"]["own"]["size_rmse_released"])
        for run in runs
    ]
    assert others == [pytest.approx(error, abs=0.006) for both in errors for error in both]


def test_samplers_that_were_compared_on_validation_digits() -> None:
    shown = numbers(
        r"nearer than that of three of six by (\d+) % \(Chamfer\), twenty-four chains gain another (\d+) %, and "
        r"the lowest energy of twelve is (\d+) % farther; other noise is (\d+) to (\d+) % farther. A single chain "
        r"is (\d+) % farther, by Hungarian (\d+) %",
        PAGE,
    )
    (row,) = rows("choices-samplers.json").values()
    scores = row["scores"]
    assert row["settings"]["task"]["translate_fraction"] == 0.1  # as both pages say

    def farther(name: str, than: str = "own", metric: str = "chamfer") -> float:
        return 100 * (scores[name][metric] / scores[than][metric] - 1)

    noises = sorted(farther(name) for name in ("noise .01", "noise .02", "constant noise"))
    single = [farther("a single chain"), farther("a single chain", metric="hungarian")]
    found = [
        -farther("own", "mean of 3 of 6"),
        -farther("mean of 12 of 24"),
        farther("lowest energy of 12"),
        noises[0],
        noises[-1],
        *single,
    ]
    assert shown == [pytest.approx(value, abs=0.6) for value in found]
    assert 1000 * (1 - scores["a single chain"]["right_size"]) == pytest.approx(6)
    assert numbers(r"a single chain is (\d+) % farther by Chamfer and (\d+) % by Hungarian", "README.md") == [
        pytest.approx(value, abs=0.6) for value in single
    ]


def test_the_recording_that_was_replaced() -> None:
    low, high = numbers(r"its distances are (\d+) to (\d+) % smaller", PAGE)
    before = [json.loads(file.read_text()) for file in (RESULTS / "mnist" / "chosen-on-test-digits").iterdir()]
    assert len(before) == 3
    smaller = [
        100 * (1 - statistics.fmean(item["scores"][scoring][metric] for item in before) / statistics.fmean(now))
        for scoring in SCORINGS
        for metric in ("chamfer", "hungarian", "chamfer_all", "hungarian_all")
        if (now := each(scoring, metric))
    ]
    assert (round(min(smaller)), round(max(smaller))) == (low, high)
    # Older files call the released rule's error size_rmse.
    assert {item["scores"]["raw"]["size_rmse"] for item in before} == {0.01}
    assert {round(item["scores"]["raw"]["size_rmse_all"], 4) for item in before} == {0.007, 0.008}


def test_sets_from_rounded_codes() -> None:
    shown = numbers(
        r"gets are (\d+) to (\d+) % farther by Chamfer, which is about the paper's distance, and (\d+) to (\d+) % "
        r"by Hungarian; raw ones (\d+) to (\d+) and (\d+) to (\d+) %",
        PAGE,
    )
    found: list[float] = []
    for scoring in ("returned", "raw"):
        for metric in ("chamfer", "hungarian"):
            pairs = zip(each(scoring, f"{metric}_bfloat16_code"), each(scoring, metric), strict=True)
            farther = sorted(100 * (rounded / exact - 1) for rounded, exact in pairs)
            found += [farther[0], farther[-1]]
    assert shown == [pytest.approx(value, abs=0.6) for value in found]
