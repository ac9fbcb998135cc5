"""Comparisons as rows of tables. Nothing here loads torch."""

from typing import Any

from desp.comparison.words import SYSTEMS
from desp.metrics.over_seeds import over_seeds

# Metrics of a comparison that become table rows.
COMPARED = ("energy_score", "single_error")


def comparison_rows(results: list[dict[str, Any]], model: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each system and metric of results that all have a comparison, averaged over seeds.

    Of one seed they have the standard error over tests as `error`. The model's first one has the verdict in words.
    Those of baselines have the model's energy score minus theirs (of the MLP the difference of `single_error`, the
    error of the single answer), the standard error of that as `difference_error`, and what it says.

    Args:
        results: of one recipe and variant.
        model: what rows of the model have in common.
    """
    compared = [result.get("comparison") for result in results]
    if not compared or not all(isinstance(item, dict) for item in compared):
        return []
    systems_of = [item["systems"] for item in compared if item is not None]
    shared = [name for name in SYSTEMS if all(name in systems for systems in systems_of)]
    rows = []
    for name in shared:
        named = {} if name == "desp" else {"system": SYSTEMS[name], "baseline": SYSTEMS[name]}
        for metric in COMPARED:
            values = [systems[name][metric] for systems in systems_of]
            numbers = over_seeds(values)
            numbers |= {"returned": numbers["value"], "returned_ci95": numbers["ci95"]}
            rows.append(
                model | named | {"metric": metric, "unit": 1.0, "direction": "lower", "compared": True} | numbers
            )
        if len(results) == 1:
            rows[-2] |= _of_one(results[0], systems_of[0][name])
            rows[-1] |= {"error": systems_of[0][name]["single_error_se"]}
    return rows


def _of_one(result: dict[str, Any], system: dict[str, Any]) -> dict[str, Any]:
    found = {"error": system["energy_score_se"]}
    if "difference" in system:
        names = {"difference": "difference", "difference_error": "difference_se", "verdict": "verdict"}
        return found | {key: system[name] for key, name in names.items()}
    return found | {"verdict": (result.get("verdict") or {}).get("sentence")}


def is_compared(row: dict[str, Any]) -> bool:
    """Whether a row is of a comparison."""
    return bool(row.get("compared"))
