"""Numbers in sentences on set-MNIST are those of the files that they come from."""

import json
import statistics
from typing import Any

import pytest

from desp.recipes import get_recipe
from shown_numbers import RECORDED, RESULTS, numbers, page, rows_with

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


def test_lengths_of_recorded_runs() -> None:
    _, *shown = rows_with(page("docs/set-mnist.md"), "| recipe | system | recorded length |")
    lengths = {name.strip("`"): length for name, _, length in shown}
    recorded = [item for item in RECORDED if item["table"] == "mnist"]
    assert set(lengths) == {item["recipe"] for item in recorded}
    for item in recorded:
        steps, full = item["training"]["steps"], get_recipe(item["recipe"]).build().training.steps
        text = f"{steps:,} steps, all" if steps == full else f"{steps:,} of {full:,} steps"
        assert lengths[item["recipe"]] == text, item["recipe"]


def test_sizes_by_the_released_rule() -> None:
    (*_, last), *rows = rows_with(page(PAGE), "| sets | digits | seed 21 |")
    assert (last, [item["seed"] for item in OURS]) == ("seed 24", [21, 22, 23, 24])
    assert len(rows) == 4
    for scoring, digits, *shown in rows:
        metric = {"first 1,000": "size_rmse_released", "all 10,000": "size_rmse_released_all"}[digits]
        assert list(map(float, shown)) == [pytest.approx(value, abs=0.0005) for value in each(scoring, metric)]
    wrong = [round(10_000 * (1 - share)) for share in each("returned", "right_size_all")]
    assert wrong == [1, 0, 0, 0]
    for scoring in SCORINGS:
        assert max(each(scoring, "chamfer_all") + each(scoring, "hungarian_all")) < 6e-5  # the paper's


def test_fractions_that_were_compared_on_validation_digits() -> None:
    training = rows("choices-training.json") | rows("choices-samplers.json")
    _, *shown = rows_with(page(PAGE), "| training digits translated | digits as they are |")
    of_rows = {
        "none": ("fraction0", 0, 1),
        "a tenth": ("fraction.1", 0.1, 2),
        "a tenth, Adam's beta_1 of .9": ("betas.9", 0.1, 1),
        "three tenths (`mnist-desp`)": ("fraction.3", 0.3, 2),
    }
    assert [name for name, *_ in shown] == list(of_rows)
    for name, as_they_are, at_edge, seeds in shown:
        runs_name, fraction, count = of_rows[name]
        runs = [training[f"{runs_name}-seed{seed}"] for seed in (30, 31)[:count]]
        assert int(seeds) == count
        assert {run["settings"]["task"]["translate_fraction"] for run in runs} == {fraction}
        usual = [run["scores"]["own"]["size_rmse_released"] for run in runs]
        assert usual == [pytest.approx(float(as_they_are))] * count
        edge = sorted(run["at_border"]["row and column 1"]["size_rmse_released"] for run in runs)
        assert list(map(float, at_edge.split(" to "))) == [pytest.approx(value, abs=0.006) for value in edge]


def test_samplers_that_were_compared_on_validation_digits() -> None:
    shown = numbers(
        r"mean of three of six chains \| (\d+) % farther \| "
        r"\| mean of twelve of twenty-four chains \| (\d+) % nearer \| "
        r"\| other noise \| (\d+) to (\d+) % farther \| "
        r"\| lowest energy of twelve chains \| (\d+) % farther \| "
        r"\| a single chain \| (\d+) % farther; by Hungarian (\d+) %",
        PAGE,
    )
    (row,) = rows("choices-samplers.json").values()
    scores = row["scores"]
    assert row["settings"]["task"]["translate_fraction"] == 0.1  # as both pages say

    def farther(name: str, metric: str = "chamfer") -> float:
        return 100 * (scores[name][metric] / scores["own"][metric] - 1)

    noises = sorted(farther(name) for name in ("noise .01", "noise .02", "constant noise"))
    single = [farther("a single chain"), farther("a single chain", metric="hungarian")]
    found = [
        farther("mean of 3 of 6"),
        -farther("mean of 12 of 24"),
        noises[0],
        noises[-1],
        farther("lowest energy of 12"),
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
    # The recipe still has the sampler that was chosen then, under the names of that time.
    names = {"last_noise": "final_noise_scale", "largest_step": "max_step_norm"}
    names |= {"tries": "restarts", "from_tries": "aggregate"}
    for item in before:
        sampler = item["settings"]["predictor"]["sampler"]
        then = {names.get(name, name): value for name, value in sampler.items()}
        assert [then] == [new["settings"]["method"]["sampler"] for new in OURS[:1]]


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
