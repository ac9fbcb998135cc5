"""How a model compares with what a user would try first, as tables and in words."""

from collections.abc import Sequence
from typing import Any

from desp.cli.common import number, show_table
from desp.comparison.features import Feature
from desp.comparison.words import SYSTEMS, VERDICT_WORDS, share, with_interval


def show_verdict(result: dict[str, Any]) -> None:
    """Print the comparison of a result with baselines, where it has one, and the verdict."""
    verdict = result.get("verdict")
    if verdict is None:
        return
    comparison = result.get("comparison")
    if comparison is None:
        print(verdict["not_compared"])
    else:
        _show_systems(comparison)
        _show_features(comparison)
    if verdict["sentence"]:
        print(f"verdict: {verdict['sentence']}")


def _show_systems(comparison: dict[str, Any]) -> None:
    columns = ("system", "energy score", "desp minus it", "verdict on desp", "single answer", "sizes right")
    rows = []
    for name, row in comparison["systems"].items():
        difference = _interval(row["difference"], row["difference_se"]) if "difference" in row else "-"
        rows.append(
            (
                SYSTEMS[name],
                _energy_score(row),
                difference,
                VERDICT_WORDS[row["verdict"]] if "verdict" in row else "-",
                _interval(row["single_error"], row["single_error_se"]),
                share(row["right_size"]),
            )
        )
    title = (
        f"Compared on {comparison['tests']} held-out examples, {comparison['samples']} predictions for each: "
        "lower is better, of sizes right higher; ± are two standard errors"
    )
    if "mlp" in comparison["systems"]:
        title += "; of the MLP, which has no spread, the difference and the verdict are of single answers"
    show_table(title, columns, rows)


def _show_features(comparison: dict[str, Any]) -> None:
    systems = comparison["systems"]
    features = [Feature.from_json(item) for item in comparison["features"]]
    rows = [
        (feature.label, *(_feature_error(row["feature_errors"][place], feature) for row in systems.values()))
        for place, feature in enumerate(features)
    ]
    title = (
        "Error of each feature: mean absolute difference of matched elements; of categories, how many are wrong"
    )
    show_table(title, ("feature", *(SYSTEMS[name] for name in systems)), rows)


def _feature_error(error: dict[str, Any], feature: Feature) -> str:
    """The error of a feature, ± two standard errors; for a category the share that is wrong, without ±."""
    if error["mean"] is None:
        return "-"
    return share(error["mean"]) if feature.classes else _interval(error["mean"], error["se"])


def _interval(value: float, error: float | None) -> str:
    return number(value) if error is None else with_interval(value, error)


def show_comparisons(results: Sequence[dict[str, Any]]) -> None:
    """Print a row for each result that was compared with baselines."""
    compared = [result for result in results if result.get("comparison")]
    if not compared:
        return
    rows = []
    for result in compared:
        systems = result["comparison"]["systems"]
        scores = (_energy_score(systems.get(name)) for name in SYSTEMS)
        label = " ".join(filter(None, (result["recipe"], result.get("data_source"), result.get("variant"))))
        rows.append((label, str(result["seed"]), *scores, (result.get("verdict") or {}).get("sentence") or "-"))
    title = "Own data beside baselines: energy scores, lower is better"
    show_table(title, ("result", "seed", *SYSTEMS.values(), "verdict"), rows, wrapped=("verdict",))


def _energy_score(system: dict[str, Any] | None) -> str:
    return "-" if system is None else _interval(system["energy_score"], system["energy_score_se"])
