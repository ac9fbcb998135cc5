"""Results, logs and summaries of older versions, under today's names: pure functions from dict to dict.

Until schema 5 of settings, `size_rmse` and `size_rmse_pooled` on set-MNIST meant today's `size_rmse_released` and
`size_rmse`; `calibration` meant `calibration_error`. Other names changed later; the old ones mean nothing else
today, so they are known without a schema.
"""

import re
from collections.abc import Callable
from typing import Any

FIRST_SCHEMA_WITH_CURRENT_NAMES = 6
"""Schema of the settings in a result, from which on its metrics have today's names."""

SET_MNIST = "set-mnist"
_NAMES = {"calibration": "calibration_error"}
_NAMES_OF_SET_MNIST = {"size_rmse_pooled": "size_rmse", "size_rmse": "size_rmse_released"}
# How many digits were scored and from which codes; in rows of tables, which sets were.
_SUFFIX = r"((?:_bfloat16_code)?(?:_all|_first\d+)?(?:_raw|_returned)?)"
_NAMES_OF_LOG = {"validation_error": "validation_score_se"}
_NAMES_OF_TRAINING = {
    "best_score": "kept_score",
    "best_step": "kept_step",
    "best_error": "kept_score_se",
    "verdict": "stop_reason",
}
_NAMES_OF_SYSTEM = {"best_error": "single_error", "best_error_se": "single_error_se"}
_VERDICTS = {"worse": "clearly worse"}


def migrate_metric(name: str, task: str | None) -> str:
    """Today's name of a metric of an older version, with or without a suffix such as ``_all``."""
    names = _NAMES | (_NAMES_OF_SET_MNIST if task == SET_MNIST else {})
    found = re.fullmatch(f"({'|'.join(names)}){_SUFFIX}", name)
    return name if found is None else names[found[1]] + found[2]


def migrate_log_line(line: dict[str, Any]) -> dict[str, Any]:
    """A line of ``log.jsonl`` of any version."""
    return _with_names(line, _NAMES_OF_LOG)


def migrate_training(facts: dict[str, Any]) -> dict[str, Any]:
    """How training went, in ``summary.json`` or a result of any version."""
    return _with_names(facts, _NAMES_OF_TRAINING)


def migrate_result(result: dict[str, Any]) -> dict[str, Any]:
    """A recorded result of any version, under today's names."""
    result = _with(result, training=migrate_training, comparison=_migrate_comparison)
    if not _is_older(result):
        return result
    task = result.get("task")
    renamed = {
        "scores": {of: _renamed(scores, task) for of, scores in result["scores"].items()},
        "real_data": _renamed(result["real_data"], task),
    }
    if "metrics" in result:
        renamed["metrics"] = _migrate_facts(result["metrics"], task)
    return result | renamed


def _migrate_facts(metrics: dict[str, Any], task: str | None) -> dict[str, Any]:
    """What a result says of its metrics."""
    facts = {
        name: item | {key: migrate_metric(item[key], task) for key in ("name",) if key in item}
        for name, item in metrics.items()
    }
    return _renamed(facts, task)


def _migrate_comparison(comparison: dict[str, Any]) -> dict[str, Any]:
    """A model beside baselines, as results have it."""
    return _with(comparison, systems=_migrate_systems)


def _migrate_systems(systems: dict[str, Any]) -> dict[str, Any]:
    return {name: _migrate_verdict(_with_names(row, _NAMES_OF_SYSTEM)) for name, row in systems.items()}


def _migrate_verdict(row: dict[str, Any]) -> dict[str, Any]:
    """With today's word of a comparison with a baseline; a whole sentence stays."""
    word = row.get("verdict")
    return row | {"verdict": _VERDICTS[word]} if isinstance(word, str) and word in _VERDICTS else row


def migrate_benchmark(record: dict[str, Any]) -> dict[str, Any]:
    """A record of the own-data benchmark of any version."""
    return _migrate_verdict(_with(_migrate_comparison(record), systems=_migrate_benchmarked))


def _migrate_benchmarked(systems: dict[str, Any]) -> dict[str, Any]:
    """What only rows of the benchmark have, not of a comparison: paired differences, and how training went."""
    return {
        name: migrate_training(_with(row, minus_knn=lambda paired: _with_names(paired, _NAMES_OF_SYSTEM)))
        for name, row in systems.items()
    }


def migrate_evaluation(evaluation: dict[str, Any]) -> dict[str, Any]:
    """What ``evaluation.json`` of any version holds, under today's names."""
    evaluation = _with(
        evaluation,
        rows=lambda rows: [_migrate_compared(row) for row in rows],
        result=lambda result: _with(result, training=migrate_training, comparison=_migrate_comparison),
    )
    if not evaluation.get("rows") or not _is_older(evaluation.get("result")):
        return evaluation
    found = evaluation | {"rows": [_migrate_row(row) for row in evaluation["rows"]]}
    result = evaluation.get("result")
    if isinstance(result, dict) and isinstance(result.get("metrics"), dict):
        found["result"] = result | {"metrics": _migrate_facts(result["metrics"], result.get("task"))}
    return found


def _migrate_compared(row: dict[str, Any]) -> dict[str, Any]:
    """A row, of a comparison or not."""
    named = {"metric": "single_error"} if row.get("metric") == "best_error" else {}
    return _migrate_verdict(row | named) if row.get("compared") else row


def _migrate_row(row: dict[str, Any]) -> dict[str, Any]:
    name = row.get("metric")
    return row | {"metric": migrate_metric(name, row.get("task"))} if isinstance(name, str) else row


def migrate_ablation(ablation: dict[str, Any], task: str | None) -> dict[str, Any]:
    """An ablation of any version, its columns under today's names.

    Of set-MNIST, only older ones have a column `size_rmse`: the present ones have `size_rmse_released`.
    """
    ablation = _with(ablation, training=migrate_training)
    if not ablation.get("rows"):
        return ablation
    return ablation | {"rows": [_renamed(row, task) for row in ablation["rows"]]}


def _is_older(result: Any) -> bool:
    settings = result.get("settings") if isinstance(result, dict) else None
    schema = settings.get("schema", 1) if isinstance(settings, dict) else 1
    return isinstance(schema, int) and schema < FIRST_SCHEMA_WITH_CURRENT_NAMES


def _renamed(values: dict[str, Any], task: str | None) -> dict[str, Any]:
    return {migrate_metric(name, task): value for name, value in values.items()}


def _with(values: dict[str, Any], **migrate: Callable[[Any], Any]) -> dict[str, Any]:
    """With each part, where there is one, as its function returns it; the same object if nothing changes."""
    parts = {name: of(values[name]) for name, of in migrate.items() if isinstance(values.get(name), dict | list)}
    changed = {name: part for name, part in parts.items() if part != values[name]}
    return values | changed if changed else values


def _with_names(values: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in values.items()}
