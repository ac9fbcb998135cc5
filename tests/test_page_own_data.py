"""Numbers on the page that scores the defaults are those of the recorded files."""

import re
from math import hypot
from statistics import NormalDist
from typing import Any

import pytest

from shown_numbers import RESULTS, about, flat, numbers, page, record, rows_with

PAGE = "docs/own-data-benchmark.md"


def own_data(folder: str = "own-data") -> dict[str, Any]:
    """The records of a folder, by problem."""
    return {path.stem: record(f"{folder}/{path.name}") for path in sorted((RESULTS / folder).glob("*.json"))}


def scores(system: str, metric: str, folder: str = "own-data") -> dict[str, float]:
    return {problem: item["systems"][system][metric] for problem, item in own_data(folder).items()}


def test_single_answers_beside_the_mlps() -> None:
    """In standard errors of the difference."""
    names = re.search(
        r"clearly nearer than the MLP's on (.*?), and clearly farther on (.*?)\. On the other seven there",
        flat(PAGE),
    )
    assert names is not None
    nearer, farther = (set(re.findall(r"`(\w+)`", group)) for group in names.groups())
    (desp, desp_se), (mlp, mlp_se) = (
        (scores(system, "best_error"), scores(system, "best_error_se")) for system in ("desp", "mlp")
    )
    errors = {name: (desp[name] - mlp[name]) / hypot(desp_se[name], mlp_se[name]) for name in desp}
    assert nearer == {name for name, error in errors.items() if error < -2}
    assert farther == {name for name, error in errors.items() if error > 2}
    assert len(errors) - len(nearer | farther) == 7


def test_sizes_on_own_data() -> None:
    (_, *columns), *rows = rows_with(page(PAGE), "| share of right sizes | desp |")
    systems = {"desp": "desp", "10-NN": "knn", "MLP": "mlp", "oracle": "oracle"}
    right = {column: scores(systems[column], "right_size") for column in columns}
    names = [name.split("`")[1] for name, *_ in rows]
    for name, (_, *shown) in zip(names, rows, strict=True):
        assert [float(number) for number in shown] == [about(right[column][name], 2) for column in columns]
    (least,) = numbers(r"much less often than those of the MLP \(by more than (\.\d)\)", PAGE)
    assert set(names) == {name for name, share in right["desp"].items() if right["MLP"][name] - share > least}
    assert abs(right["desp"]["clusters"] - right["10-NN"]["clusters"]) < 0.01
    assert right["desp"]["sensors"] < right["10-NN"]["sensors"] - 0.1


def test_seconds_of_training_on_own_data() -> None:
    *shown, both = numbers(
        r"it trained for (\d+) to (\d+) seconds, the MLP, which stops by its own rule, for (\d+) to (\d+) seconds"
        r", (\d+) to (\d+) times shorter; only on `ellipse` both took about (\d+) seconds",
        PAGE,
    )
    desp, mlp = (scores(system, "train_seconds") for system in ("desp", "mlp"))
    assert [desp.pop("ellipse"), mlp.pop("ellipse")] == [pytest.approx(both, abs=1)] * 2
    ratios = [desp[name] / mlp[name] for name in desp]
    found = [end(values) for values in (desp.values(), mlp.values(), ratios) for end in (min, max)]
    assert shown == [about(value) for value in found]


def test_calibration_on_own_data() -> None:
    pattern = (
        r"is (\.\d+) on `ellipse` \(of 50 test examples\), (\.\d+) on `divisors`, (\.\d+) on `roots`, (\.\d+) "
        r"on `few` and (\.\d+) on `sensors`, and at most (\.\d+) on the others\. "
        r"The oracle, whose errors are chance, has (\.\d+) to (\.\d+)"
    )
    *shown, most, lowest, highest = numbers(pattern, PAGE)
    named = ("ellipse", "divisors", "roots", "few", "sensors")
    errors = scores("desp", "calibration_error")
    assert shown == [round(errors.pop(problem), 2) for problem in named]
    assert most == round(max(errors.values()), 2)
    oracles = scores("oracle", "calibration_error").values()
    assert [lowest, highest] == [round(min(oracles), 2), round(max(oracles), 2)]


def test_verdicts_on_own_data() -> None:
    text = flat(PAGE)
    assert "clearly better than 10-NN on eight**, and ties on `sensors`. On the five others it ties" in text
    assert "was clearly better on seven of 14 and worse on none (`seed3/`)" in text
    for folder, best, ties in (("own-data", 8, 6), ("own-data/tried/seed3", 7, 7)):
        verdicts = [item["verdict"] for item in own_data(folder).values() if not item["held_out"]]
        assert (verdicts.count("clearly better"), verdicts.count("tie"), len(verdicts)) == (best, ties, 14)
        assert {item["verdict"] for item in own_data(folder).values() if item["held_out"]} == {"clearly better"}


def test_runs_that_were_out_of_time() -> None:
    ((named,),) = [re.findall(r"after five minutes \((.*?)\)", flat(PAGE))]
    late = [name for name, item in own_data().items() if item["systems"]["desp"]["verdict"] == "out of time"]
    assert sorted(re.findall(r"`(\w+)`", named)) == late


WITHOUT_HEADROOM = {"events", "orders", "incomes", "polygons", "repeated"}


def test_problems_without_headroom() -> None:
    text = flat(PAGE)
    assert "these are `events`, `orders`, `incomes`, `polygons` and `repeated`" in text
    assert "Of the nine problems with headroom that are not held out" in text
    ahead = {name: item["systems"]["oracle"]["minus_knn"] for name, item in own_data().items()}
    clear = {name for name, item in ahead.items() if item["energy_score"] < -2 * item["energy_score_se"]}
    assert set(ahead) - clear == WITHOUT_HEADROOM
    assert len([name for name in clear if not own_data()[name]["held_out"]]) == 9


def test_five_true_ties() -> None:
    """A tie is called clearly worse if a normal number exceeds two."""
    (chance,) = numbers(r"at least one is called \*clearly worse\* by chance is about (\d+) %", PAGE)
    assert chance == about(100 - 100 * NormalDist().cdf(2) ** len(WITHOUT_HEADROOM))


def test_the_unit_of_features() -> None:
    (width,) = numbers(r"\(90th . 10th percentile\) / (\d\.\d+) of its values", PAGE)
    assert width == about(2 * NormalDist().inv_cdf(0.9), 3)


def test_single_answers_of_ten_samples() -> None:
    """With seed 3, where one set is right."""
    (least,) = numbers(
        r"farther from the truth than the MLP's by more than (\d+) % on `boxes` and `clusters`, and on the "
        r"held-out `stars`",
        PAGE,
    )
    mlp, desp = (scores(system, "best_error", "own-data/tried/seed3") for system in ("mlp", "desp"))
    one_set = ("roots", "boxes", "few", "useless", "clusters", "spectra", "divisors", "stars")
    far = [name for name in one_set if desp[name] > (1 + least / 100) * mlp[name]]
    assert far == ["boxes", "clusters", "stars"]


def test_a_patience_of_four() -> None:
    (steps,) = numbers(
        r"patience of four validations `clusters` stopped after ([\d,]+) steps, and was worse", PAGE
    )
    stopped = record("own-data/tried/clusters-seed2.json")
    assert (stopped["systems"]["desp"]["steps"], stopped["verdict"]) == (steps, "worse")
