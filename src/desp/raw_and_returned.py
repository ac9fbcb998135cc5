"""Scores of results of one recipe, raw and returned, over seeds. Nothing here loads torch."""

import statistics
from typing import Any

from desp.metrics.over_seeds import over_seeds
from desp.recipes.registry import Scored


def metrics_of(results: list[dict[str, Any]], output: Scored) -> list[str]:
    """The metrics that raw output or returned sets have, the score first."""
    names = set().union(*(result["scores"].get(output, {}) for result in results))
    return sorted(names, key=lambda name: (name != "score", name))


def real_data(results: list[dict[str, Any]], metric: str) -> float | None:
    """The metric of true sets as predictions, averaged over the seeds that have it."""
    known = [value for result in results if (value := result["real_data"].get(metric)) is not None]
    return statistics.fmean(known) if known else None


def scores_of(results: list[dict[str, Any]], output: Scored, metric: str) -> list[float | None]:
    """A metric of raw output or of returned sets, for each seed whose file has it (older files lack some); None:
    the number is not finite."""
    all_scores = [result["scores"].get(output, {}) for result in results]
    return [scores[metric] for scores in all_scores if metric in scores]


def raw_and_returned(results: list[dict[str, Any]], metric: str) -> dict[str, Any]:
    """A metric of raw output and of returned sets over seeds: means, intervals, and means of medians if known."""
    numbers: dict[str, Any] = {}
    outputs: tuple[Scored, ...] = ("raw", "returned")
    for output in outputs:
        mean = over_seeds(scores_of(results, output, metric))
        median = over_seeds(scores_of(results, output, f"{metric}_median"))
        numbers |= {output: mean["value"], f"{output}_ci95": mean["ci95"], f"{output}_median": median["value"]}
    return numbers


def is_shown_twice(row: dict[str, Any]) -> bool:
    """Whether the row repeats a column of another one: `score_raw` is the column `raw` of the row `score`."""
    other = "raw" if row["scored"] == "returned" else "returned"
    return str(row["metric"]).endswith(f"_{other}")
