"""How a model compares with what a user would try first, as tables and in words."""

from collections.abc import Sequence
from typing import Any

from desp.cli.common import number, show_table
from desp.comparison.features import Feature
from desp.comparison.words import IS, SYSTEMS, share


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
    columns = ("system", "energy score", "desp minus it", "verdict on desp", "best answer", "sizes right")
    rows = []
    for name, row in comparison["systems"].items():
        difference = with_error(row["difference"], row["difference_se"]) if "difference" in row else "-"
        rows.append(
            (
                SYSTEMS[name],
                _energy_score(row),
                difference,
                IS[row["verdict"]] if "verdict" in row else "-",
                with_error(row["best_error"], row["best_error_se"]),
                share(row["right_size"]),
            )
        )
    title = (
        f"Compared on {comparison['tests']} held-out examples, {comparison['samples']} predictions for each: "
        "lower is better, +- are two standard errors"
    )
    show_table(title, columns, rows)


def _show_features(comparison: dict[str, Any]) -> None:
    systems = comparison["systems"]
    features = [Feature.from_json(item) for item in comparison["features"]]
    rows = [
        (feature.label, *(feature_error(row["feature_errors"][place], feature) for row in systems.values()))
        for place, feature in enumerate(features)
    ]
    title = (
        "Error of each feature: mean absolute difference of matched elements; of categories, how many are wrong"
    )
    show_table(title, ("feature", *(SYSTEMS[name] for name in systems)), rows)


def feature_error(error: dict[str, Any], feature: Feature) -> str:
    """The error of a feature, with its standard error."""
    if error["mean"] is None:
        return "-"
    if feature.classes:
        return share(error["mean"])
    return number(error["mean"]) if error["se"] is None else with_error(error["mean"], error["se"])


def with_error(value: float, error: float | None) -> str:
    """A number with its standard error."""
    return number(value) if error is None else f"{value:.3g} +- {2 * error:.1g}"


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
    return "-" if system is None else with_error(system["energy_score"], system["energy_score_se"])
