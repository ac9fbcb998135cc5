"""Measured numbers: one JSON file a run, and the tables made of them. Nothing here loads torch."""

import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from desp.errors import RunError
from desp.recipes import PUBLISHED, all_recipes, get_recipe
from desp.recipes.published import TABLE_METRICS, published_value
from desp.storage import write_json

Row = dict[str, Any]

# What `make test-gpu` writes; it lies beside the results and is none.
GPU_TESTS = "gpu-tests.json"


def result_path(folder: Path, recipe: str, seed: int) -> Path:
    """Where the result of a recipe and seed lies."""
    return folder / f"{recipe}-seed{seed}.json"


def check_recordable(recipe: str, changes: list[str], protocol: str) -> None:
    """Refuse what would stand in a table under a false name.

    Raises:
        RunError: the run's settings are not those of its recipe, or less was scored than in other results.
    """
    if protocol != "full":
        raise RunError(f"Results are recorded by the protocol 'full', not {protocol!r}. Leave --protocol out.")
    if changes:
        raise RunError(
            f"Not recorded: this run differs from the recipe '{recipe}' ({'; '.join(changes)}). Results are "
            "recorded for unchanged recipes; those with a constant learning rate and validation may be shorter, "
            "by whole validations."
        )


def protocol_name(result: dict[str, Any]) -> str:
    """By which protocol a result was scored. Before they had names, all were recorded with what is `full` now."""
    protocol = result.get("protocol")
    return str(protocol["name"]) if isinstance(protocol, dict) else "full"


def scored_name(result: dict[str, Any]) -> str | None:
    """What a result's table shows: ``raw`` or ``returned``. Older ones say that by the key `protocol`."""
    old = {"paper": "raw", "ours": "returned"}.get(str(result.get("protocol")))
    return result.get("scored", old)


def write_result(folder: Path, result: dict[str, Any]) -> Path:
    """Record the result of a run; an older one of the same recipe and seed is replaced.

    Raises:
        RunError: the run's settings are not those of its recipe, so it would stand in a table under a false name.
    """
    check_recordable(result["recipe"], result["changed_settings"], protocol_name(result))
    path = result_path(folder, result["recipe"], result["seed"])
    write_json(path, result)
    return path


def read_results(folder: Path) -> list[dict[str, Any]]:
    """All results in `folder`, by name.

    Raises:
        RunError: a file is damaged or lacks what a result must have.
    """
    results = []
    for path in sorted(folder.glob("*.json")):
        if path.name == GPU_TESTS:
            continue
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
            for name in ("recipe", "seed", "scores", "real_data"):
                result[name]
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise RunError(
                f"{path} is damaged, or no result of desp ({error!r}). Record it again, or point --results at a "
                "folder that holds results only."
            ) from error
        results.append(result)
    return results


def rows_of(results: list[dict[str, Any]]) -> list[Row]:
    """Table rows of the results of one recipe, averaged over seeds.

    The row `score` is the table's number: of the sampler's raw output, or of the sets that a user gets, as the
    recipe says. The other of the two stands beside it under a name of its own.
    """
    if not results:
        return []
    recipe = get_recipe(results[0]["recipe"])
    main, other = ("raw", "returned") if recipe.scored == "raw" else ("returned", "raw")
    rows = []
    for scoring in (main, other):
        for metric in _metrics(results, scoring):
            name = metric if scoring == main or metric not in results[0]["scores"][main] else f"{metric}_{scoring}"
            values = [result["scores"].get(scoring, {}).get(metric) for result in results]
            rows.append(_row(results, recipe.name, name, values, real=_real(results, metric)))
    return rows


def table_rows(results: list[dict[str, Any]]) -> list[Row]:
    """The paper's tables: every published cell, measured or not, and what only we measure.

    At the end is what was measured beside them, of recipes of no table.
    """
    by_recipe: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for result in results:
        by_recipe[result["recipe"]].append(result)
    measured = [row for recipe in by_recipe.values() for row in rows_of(recipe)]
    done = {
        (row["table"], row["task"], row["system"], row["metric"]) for row in measured if row["scored"] == "raw"
    }
    open_rows = [
        _empty_row(cell.table, cell.task, cell.system, cell.metric, cell.value)
        for cell in PUBLISHED
        if (cell.table, cell.task, cell.system, cell.metric) not in done
    ]
    order = [*TABLE_METRICS, None]
    return sorted(measured + open_rows, key=lambda row: (order.index(row["table"]), row["task"], row["system"]))


def markdown_table(rows: list[Row]) -> str:
    """The measured cells of the paper's tables, and the same metrics of systems it has not, as markdown.

    Distances, all small, are in units of 1e-5.
    """
    lines = [
        "| task | recipe | metric | paper | ours | real data | seeds | steps |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row["value"] is None or row["metric"] not in TABLE_METRICS.get(row["table"], ()):
            continue
        unit = 1e-5 if row["metric"] in ("score", "chamfer", "hungarian") else 1.0
        paper, ours, spread, real = (
            "" if row[name] is None else _short(row[name] / unit)
            for name in ("paper", "value", "std", "real_data")
        )
        metric = f"{row['metric']} (1e-5)" if unit < 1 else row["metric"]
        ours = f"**{ours}** ± {spread}" if spread else f"**{ours}**"
        seeds = str(len(row["seeds"]))
        cells = (row["task"], f"`{row['recipe']}`", metric, paper, ours, real, seeds, row["steps"] or "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _short(value: float) -> str:
    """Two decimals, one from 10 on; three significant digits where that would leave nothing."""
    return f"{value:.3g}" if 0 < abs(value) < 0.01 else f"{value:.{1 if value >= 10 else 2}f}"


def _metrics(results: list[dict[str, Any]], scoring: str) -> list[str]:
    names = set().union(*(result["scores"].get(scoring, {}) for result in results))
    return sorted(names, key=lambda name: (name != "score", name))


def _real(results: list[dict[str, Any]], metric: str) -> float | None:
    values = [result["real_data"].get(metric) for result in results]
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _row(
    results: list[dict[str, Any]],
    recipe_name: str,
    metric: str,
    values: list[float | None],
    real: float | None,
) -> Row:
    recipe = get_recipe(recipe_name)
    # A seed without a number failed; a mean over the others would hide that.
    known = [value for value in values if value is not None]
    complete = len(known) == len(values)
    plain_metric = metric.removesuffix("_raw").removesuffix("_returned")
    return {
        "table": recipe.table,
        "task": recipe.task,
        "system": recipe.system,
        "recipe": recipe.name,
        "scored": recipe.scored,
        "protocol": protocol_name(results[0]),
        "metric": metric,
        "value": statistics.fmean(known) if complete else None,
        "std": statistics.stdev(known) if complete and len(known) > 1 else None,
        "seeds": [result["seed"] for result in results],
        "steps": _length(results),
        "paper": published_value(recipe.table, recipe.task, recipe.system, plain_metric),
        "real_data": real,
        "data": results[0].get("data"),
    }


def _length(results: list[dict[str, Any]]) -> str | None:
    """Steps of training, of how many where a run was ended early, which were best, how often it rolled back."""
    full = get_recipe(results[0]["recipe"]).build().training.steps
    texts = []
    for result in results:
        training = result.get("training", {})
        asked = result.get("settings", {}).get("training", {}).get("steps", full)
        if training.get("steps") is None:
            continue
        cut = f" of {full:,}" if asked < full else ""
        best = training.get("best_step")
        best = f", best {best:,}" if best is not None and best != training["steps"] else ""
        texts.append(f"{training['steps']:,}{cut}{best}")
    rollbacks = sum(result.get("training", {}).get("rollbacks") or 0 for result in results)
    back = f", rolled back {rollbacks} x" if rollbacks else ""
    return "; ".join(dict.fromkeys(texts)) + back or None


def _recipe_of(table: str, task: str, system: str) -> str | None:
    """The recipe that would measure a published cell."""
    wanted = (table, task, system, "raw")
    names = [r.name for r in all_recipes() if (r.table, r.task, r.system, r.scored) == wanted]
    return names[0] if names else None


def _empty_row(table: str, task: str, system: str, metric: str, paper: float) -> Row:
    return {
        "table": table,
        "task": task,
        "system": system,
        "recipe": _recipe_of(table, task, system),
        "scored": "raw",
        "protocol": None,
        "metric": metric,
        "value": None,
        "std": None,
        "seeds": [],
        "steps": None,
        "paper": paper,
        "real_data": None,
        "data": None,
    }
