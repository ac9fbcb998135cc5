"""Comparisons as rows of tables. Nothing here loads torch."""

from typing import Any

from desp.comparison.words import SYSTEMS
from desp.metrics.over_seeds import over_seeds

# Metrics of a comparison that become table rows.
COMPARED = ("energy_score", "single_error")


def comparison_rows(results: list[dict[str, Any]], model: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each system and metric of results that all have a comparison, averaged over seeds.

    With a single seed, rows have the standard error over tests as `error`. The first row of the model has the
    verdict in words. The first row of each baseline has `difference`, the model's energy score minus the
    baseline's (for the MLP of `single_error`, the error of the single answer), its standard error
    `difference_error`, and `verdict`.

    Args:
        results: of one recipe and variant.
        model: values that all rows have in common.
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
    error = system["energy_score_se"]
    if "difference" not in system:
        return {"error": error, "verdict": (result.get("verdict") or {}).get("sentence")}
    difference = {"difference": system["difference"], "difference_error": system["difference_se"]}
    return {"error": error, **difference, "verdict": system["verdict"]}


def is_compared(row: dict[str, Any]) -> bool:
    """Whether `comparison_rows` made a row."""
    return bool(row.get("compared"))
