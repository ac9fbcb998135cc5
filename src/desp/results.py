"""Recorded results: a JSON file for each run, and rows of tables made from them. Nothing here loads torch."""

import re
from pathlib import Path
from typing import Any

from desp.comparison.rows import comparison_rows
from desp.errors import RunError
from desp.metrics.base import split_key
from desp.metrics.over_seeds import over_seeds
from desp.older_results import migrate_result
from desp.raw_and_returned import metrics_of, raw_and_returned, real_data, scores_of
from desp.recipes import Recipe, all_recipes, get_recipe, get_table
from desp.recipes.registry import Scored
from desp.run_lengths import training_facts
from desp.settings import RunSettings
from desp.storage import read_object, write_json

Row = dict[str, Any]

# Written by `make test-gpu` into the same folder; not a result.
GPU_TESTS = "gpu-tests.json"
# The folder in a folder of results for baselines that need no training, such as constant velocity.
BASELINES = "baselines"
# The protocol of recorded results.
RECORDED = "full"


# -- files ---------------------------------------------------------------------------------------------


def data_slug(settings: RunSettings, found: str | None = None) -> str | None:
    """The key `data_source` of results: which data, as part of a file's name; None for the recipe's data.

    Args:
        settings: of the run.
        found: the name of the data, where their files tell it and settings do not.
    """
    name, usual = found or settings.task.data_name, get_recipe(settings.recipe).build().task.data_name
    return None if name == usual else re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "other-data"


def result_path(folder: Path, recipe: str, seed: int, data: str | None = None, variant: str | None = None) -> Path:
    """The file of the result of a recipe and seed, with the names of other data and of changed settings."""
    return folder / f"{'-'.join(filter(None, (recipe, data, variant)))}-seed{seed}.json"


def check_recordable(
    recipe: str, changes: list[str], protocol: str, data: str | None = None, variant: str | None = None
) -> None:
    """Refuse what would stand in a table under a false name.

    Raises:
        RunError: less was scored than in other results; settings differ from the recipe's and have no name; or the
            name cannot be used.
    """
    if protocol != RECORDED:
        raise RunError(
            f"Results are recorded by the protocol '{RECORDED}', not {protocol!r}. Leave --protocol out."
        )
    if changes and variant is None:
        raise RunError(
            f"Not recorded: this run differs from the recipe '{recipe}' ({'; '.join(changes)}). Give the changed "
            "settings a name: --variant NAME. Of shorter runs, only an exact beginning of the recipe needs none: "
            "constant learning rate, training.keep best, and steps that are a multiple of training.validate_every."
        )
    if variant is None:
        return
    if not changes:
        raise RunError(f"This run has the settings of the recipe '{recipe}'. Leave --variant out.")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", variant):
        raise RunError(f"--variant must be of small letters, digits and single dashes, got {variant!r}.")
    whole = "-".join(filter(None, (recipe, data, variant)))
    if any(item.name == whole for item in all_recipes()):
        raise RunError(f"'{whole}' is a recipe of its own. Choose another --variant.")


def write_result(folder: Path, result: dict[str, Any], variant: str | None = None) -> Path:
    """Record the result of a run; an older one of the same recipe, data, `variant` and seed is replaced.

    Raises:
        RunError: it would stand in a table under a false name, see `check_recordable`.
    """
    recipe, data = result["recipe"], result.get("data_source")
    check_recordable(recipe, result["changed_settings"], protocol_name(result), data, variant)
    path, written = result_path(folder, recipe, result["seed"], data, variant), {**result, "variant": variant}
    if path.exists():
        there = _read(path)
        if _is_ablation(there) != _is_ablation(written):
            kinds = ("an ablation", "scores") if _is_ablation(there) else ("scores", "an ablation")
            raise RunError(f"{path} holds {kinds[0]}, not {kinds[1]}. Record {kinds[1]} in another folder.")
        if _identity(there) != _identity(written):
            raise RunError(f"{path} holds a result of other data or settings. Choose another --variant or folder.")
    write_json(path, written)
    return path


def _is_ablation(result: dict[str, Any]) -> bool:
    return "rows" in result


def _identity(result: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(result.get(name) for name in ("recipe", "data_source", "variant"))


def read_results(folder: Path) -> list[dict[str, Any]]:
    """All results in `folder`, sorted by file; results of older versions get today's names of metrics.

    Raises:
        RunError: a file is damaged or lacks what a result must have.
    """
    paths = [path for path in sorted(folder.glob("*.json")) if path.name != GPU_TESTS]
    return [migrate_result(_read(path, "scores", "real_data")) for path in paths]


def _read(path: Path, *needed: str) -> dict[str, Any]:
    again = "Record it again, or use a folder that holds results only."
    result = read_object(path, again)
    missing = [name for name in ("recipe", "seed", *needed) if name not in result]
    if missing:
        raise RunError(f"{path} is no result of desp: it has no {', '.join(missing)}. {again}")
    return result


def write_baseline(folder: Path, result: dict[str, Any]) -> Path:
    """Record what a baseline without training scored; an older result of the same table, task and system is
    replaced.

    Args:
        folder: of results; baselines have a folder of their own in it.
        result: `table`, `task`, `system`, `data`, `scores`, the `metrics` they are, and where they come from.
    """
    path = folder / BASELINES / f"{'-'.join(result[name] for name in ('table', 'task', 'system'))}.json"
    write_json(path, result)
    return path


def read_baselines(folder: Path) -> list[Row]:
    """Table rows of the baselines that are recorded beside results.

    Raises:
        RunError: a file is damaged.
    """
    again = "Record it again, or remove it."
    files = [read_object(path, again) for path in sorted((folder / BASELINES).glob("*.json"))]
    return [
        make_row(
            result["table"],
            result["task"],
            result["system"],
            metric,
            scored="returned",
            protocol=RECORDED,
            value=value,
            returned=value,
            data=result.get("data"),
        )
        | {key: metric_facts(metric, result.get("metrics"))[key] for key in ("unit", "direction")}
        for result in files
        for metric, value in result["scores"].items()
    ]


# -- what older files lack -------------------------------------------------------------------------------


def protocol_name(result: dict[str, Any]) -> str:
    """The protocol of a result. Before protocols had names, all results were recorded with what is `full` now."""
    protocol = result.get("protocol")
    return str(protocol["name"]) if isinstance(protocol, dict) else RECORDED


def metric_facts(metric: str, described: dict[str, Any] | None = None) -> dict[str, Any]:
    """Unit and direction of a metric, from its description in a result, else from its name.

    Args:
        metric: its key among the scores.
        described: what a result says about its metrics; older results say nothing.
    """
    if described and metric in described:
        return dict(described[metric]) | ({"direction": "near 0.5"} if "nearest_neighbour" in metric else {})
    name = metric.lower()
    higher = r"accuracy|precision|recall|f1|^m?ap(@|\d|_|$)|average precision|right_size|coverage|rarest_style"
    lower = r"score|chamfer|hungarian|distance|rmse|error|risk|kuiper|calibration"
    patterns = {"near 0.5": "nearest_neighbour", "higher": higher, "lower": lower}
    direction = next((word for word, pattern in patterns.items() if re.search(pattern, name)), None)
    return {"unit": 1e-5 if name in ("score", "chamfer", "hungarian") else 1.0, "direction": direction}


# -- rows ----------------------------------------------------------------------------------------------


def make_row(table: str | None, task: str, system: str, metric: str, **known: Any) -> Row:
    """A row of a table; what is not given was not measured.

    `raw` is the mean over `n` seeds for the sampler's output, which the paper scores; `returned` is the mean for
    the sets a user gets. Each has half of its 95 % interval, and its median over predictions where that is known.
    `value` is one of the two: a metric ending in `_raw` or `_returned` says which; without an ending it is the one
    that `scored` names, or the other one where that has no such metric. Rows of results have the `scored` of
    their recipe, and the `protocol` that they were scored by, such as `full`.
    """
    facts = metric_facts(metric)
    return {
        "table": table,
        "task": task,
        "system": system,
        "recipe": None,
        "variant": None,
        "scored": "raw",
        "protocol": None,
        "metric": metric,
        "unit": facts["unit"],
        "direction": facts["direction"],
        "value": None,
        "std": None,
        "ci95": None,
        "n": 0,
        "raw": None,
        "raw_ci95": None,
        "raw_median": None,
        "returned": None,
        "returned_ci95": None,
        "returned_median": None,
        "seeds": [],
        "steps": None,
        "epochs": [],
        "ended_by": None,
        "rollbacks": None,
        "devices": None,
        "commits": None,
        "paper": None,
        "real_data": None,
        "data": None,
        **known,
    }


def ablation_headings(ablation: dict[str, Any]) -> dict[str, str]:
    """Headings of an ablation's columns, which say what was scored: the sampler's raw output, or returned sets."""
    scored = ablation.get("scored", "raw")  # own data have returned scores alone
    of = dict.fromkeys(("score", "hungarian", "precision", "recall", "f1"), scored) | {"energy": "raw"}
    of |= {"score_returned": "returned", "size_rmse": "returned", "size_rmse_released": "returned"}
    return {name: f"{name.removesuffix('_returned')} ({which})" for name, which in of.items()}


def variant_of(result: dict[str, Any]) -> str | None:
    """The names of data and settings of a result that are not its recipe's; None if all are."""
    return ", ".join(filter(None, (result.get("data_source"), result.get("variant")))) or None


def recipe_label(row: Row) -> str:
    """How a table names a row's recipe."""
    name = row["recipe"] or f"{row['task']}, {row['system']}"
    label = f"{name} ({row['variant']})" if row["variant"] else name
    return f"{label}: {row['baseline']}" if row.get("baseline") else label


def metric_label(row: Row) -> str:
    """How a list of rows names a metric: behind the part of the examples it is about, if that is not all of
    them."""
    task = row["task"] if row["recipe"] is None else get_recipe(row["recipe"]).task
    return str(row["metric"]) if row["task"] == task else f"{row['task']}/{row['metric']}"


def rows_of(results: list[dict[str, Any]]) -> list[Row]:
    """Table rows of the results of one recipe and variant, averaged over seeds.

    Metrics score the sampler's raw output or the sets that a user gets, as the recipe says; metrics of the other
    one end in `_raw` or `_returned`, unless it alone has the metric.
    """
    if not results:
        return []
    recipe = get_recipe(results[0]["recipe"])
    variant = variant_of(results[0])
    common = {
        "recipe": recipe.name,
        "variant": variant,
        "scored": recipe.scored,
        "protocol": protocol_name(results[0]),
        "seeds": [result["seed"] for result in results],
        "n": len(results),
        **training_facts(results),
        "data": results[0].get("data"),
    }
    rows = []
    outputs: tuple[Scored, ...] = ("raw", "returned") if recipe.scored == "raw" else ("returned", "raw")
    for output in outputs:
        for metric in metrics_of(results, output):
            plain = output == recipe.scored or metric not in results[0]["scores"][recipe.scored]
            facts = metric_facts(metric, results[0].get("metrics"))
            part, name = split_key(metric)
            task = part or recipe.task
            rows.append(
                make_row(recipe.table, task, _system(recipe, results[0]), name if plain else f"{name}_{output}")
                | common
                | {key: facts[key] for key in ("unit", "direction")}
                | over_seeds(scores_of(results, output, metric))
                | {"n": len(scores_of(results, output, metric))}
                | raw_and_returned(results, metric)
                | {"paper": _published(recipe, task, name, variant), "real_data": real_data(results, metric)}
            )
    first = make_row(recipe.table, recipe.task, _system(recipe, results[0]), "score") | common
    return rows + comparison_rows(results, first)


def _system(recipe: Recipe, result: dict[str, Any]) -> str:
    """The recipe's system; for own data the method, where the run has another one than the recipe."""
    kind = result.get("settings", {}).get("method", {}).get("kind")
    other = recipe.table is None and kind not in (None, recipe.build().method.kind)
    return str(kind) if other else recipe.system


def _published(recipe: Recipe, task: str, metric: str, variant: str | None) -> float | None:
    """The published number; None for other data and settings than the recipe's own."""
    if recipe.table is None or variant is not None:
        return None
    return get_table(recipe.table).value(task, recipe.system, metric)
