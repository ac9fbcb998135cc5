"""Scores of results of one recipe, raw and returned, over seeds. Nothing here loads torch."""

import statistics
from typing import Any

from desp.metrics.over_seeds import over_seeds


def metrics_of(results: list[dict[str, Any]], scoring: str) -> list[str]:
    """The keys of what was scored, the score first."""
    names = set().union(*(result["scores"].get(scoring, {}) for result in results))
    return sorted(names, key=lambda name: (name != "score", name))


def real_data(results: list[dict[str, Any]], metric: str) -> float | None:
    """What true sets get, averaged over the seeds that say it."""
    known = [value for result in results if (value := result["real_data"].get(metric)) is not None]
    return statistics.fmean(known) if known else None


def scores_of(results: list[dict[str, Any]], scoring: str, metric: str) -> list[float | None]:
    """A metric of each seed; None where a file has none."""
    return [result["scores"].get(scoring, {}).get(metric) for result in results]


def both_scorings(results: list[dict[str, Any]], metric: str) -> dict[str, Any]:
    """A metric of raw output and of returned sets; the mean over seeds of medians beside means, where they are."""
    numbers: dict[str, Any] = {}
    for scoring in ("raw", "returned"):
        mean = over_seeds(scores_of(results, scoring, metric))
        median = over_seeds(scores_of(results, scoring, f"{metric}_median"))
        numbers |= {scoring: mean["value"], f"{scoring}_ci95": mean["ci95"], f"{scoring}_median": median["value"]}
    return numbers


def is_shown_twice(row: dict[str, Any]) -> bool:
    """Whether another row of the recipe has its value, too: that of `score_raw` is the `raw` of `score`."""
    other = "raw" if row["scored"] == "returned" else "returned"
    return str(row["metric"]).endswith(f"_{other}")
