"""How long recorded runs were trained, what ended training, how often they rolled back. What a file does not say
is unknown, not zero. Nothing here loads torch."""

from collections.abc import Iterable
from typing import Any

from desp.errors import DespError
from desp.recipes import get_recipe
from desp.settings import RunSettings, from_json, migrate_run

UNKNOWN = "unknown"
# What ended training, by what its summary calls it.
_ENDINGS = {"converged": "convergence", "overfitted": "overfitting", "out of time": "time"}


def training_facts(results: list[dict[str, Any]]) -> dict[str, Any]:
    """What rows say about the training of one recipe's results, one for each seed.

    Returns:
        `steps` in words: how many, of how many if fewer than the recipe's were asked for, and the best one;
        `epochs`, a number for each seed; `ended_by`; `rollbacks` of all seeds together; `devices`; `commits`, and
        how they are known.
    """
    texts = [text for result in results if (text := _length(result)) is not None]
    return {
        "steps": "; ".join(dict.fromkeys(texts)) or None,
        "epochs": [_epochs(result) for result in results],
        "ended_by": _joined(_ended_by(result) for result in results),
        "rollbacks": _rollbacks(results),
        "devices": "; ".join(dict.fromkeys(str(_training(result).get("device") or UNKNOWN) for result in results)),
        "commits": _commits(results),
    }


def epoch_words(row: dict[str, Any]) -> str:
    """The epochs of each seed; nothing where every batch is new."""
    return "; ".join(dict.fromkeys(_round(epochs) for epochs in row["epochs"] if epochs is not None))


def _round(epochs: float | str) -> str:
    return epochs if isinstance(epochs, str) else f"{epochs:.3g}"


def trained_words(row: dict[str, Any]) -> str:
    """Steps, epochs, ending and roll-backs in one cell of a table; nothing for what was not trained."""
    if not row["steps"]:
        return ""
    epochs = epoch_words(row)
    parts = (row["steps"], f"epochs: {epochs}" if epochs else "", f"ended by: {row['ended_by']}")
    return ". ".join(filter(None, (*parts, f"roll-backs: {row['rollbacks']}")))


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts))


def _training(result: dict[str, Any]) -> dict[str, Any]:
    return result.get("training") or {}


def _asked(result: dict[str, Any]) -> dict[str, Any]:
    """The settings of training."""
    return (result.get("settings") or {}).get("training") or {}


def _length(result: dict[str, Any]) -> str | None:
    training = _training(result)
    if training.get("steps") is None:
        return None
    cut = f" of {get_recipe(result['recipe']).build().training.steps:,}" if _is_shortened(result) else ""
    best = training.get("kept_step")
    best = f", best {best:,}" if best is not None and best != training["steps"] else ""
    return f"{training['steps']:,}{cut}{best}"


def _epochs(result: dict[str, Any]) -> float | str | None:
    """How often each example was drawn on average; None where every batch is new."""
    steps, batch = _training(result).get("steps"), _asked(result).get("batch_size")
    task = (recorded_settings(result) or get_recipe(result["recipe"]).build()).task
    examples = _training(result).get("examples") or task.training_examples
    if examples is None and task.location is None and not task.own_data:
        return None
    if steps is None or batch is None or examples is None or _asked(result).get("elements_per_batch"):
        return UNKNOWN  # batches of large sets are smaller than batch_size
    processes = _training(result).get("processes") or 1  # each has batches of its own
    return float(steps * batch * processes / examples)


def recorded_settings(result: dict[str, Any]) -> RunSettings | None:
    """The settings of the run that a result is of; None where the result has none that can be read."""
    try:
        return from_json(RunSettings, migrate_run(result["settings"]))
    except (DespError, KeyError):
        return None


def _ended_by(result: dict[str, Any]) -> str:
    """`steps` if all steps were made, `shortened` if the recipe has more, `patience` if validation no longer
    improved, `time`, ..."""
    training, asked = _training(result), _asked(result)
    if training.get("stop_reason") in _ENDINGS:
        return _ENDINGS[training["stop_reason"]]
    if training.get("stopped_early"):
        return "patience"
    reached = training.get("steps") is not None and training["steps"] == asked.get("steps")
    # Older files do not say it; without patience only the steps could end training.
    certain = training.get("stopped_early") is False or ("patience" in asked and asked["patience"] is None)
    if not (reached and certain):
        return UNKNOWN
    return "shortened" if _is_shortened(result) else "steps"


def _is_shortened(result: dict[str, Any]) -> bool:
    full = get_recipe(result["recipe"]).build().training.steps
    asked = _asked(result).get("steps", full)
    return asked is not None and full is not None and bool(asked < full)


def _rollbacks(results: list[dict[str, Any]]) -> int | str:
    """The roll-backs of all seeds together; a seed that does not say how many is not taken for none."""
    counts = [_training(result).get("rollbacks") for result in results]
    known = [count for count in counts if count is not None]
    if len(known) == len(counts):
        return sum(known)
    return f"{sum(known)} or more" if sum(known) else UNKNOWN


def _commits(results: list[dict[str, Any]]) -> str:
    """The commits that trained, and whether git told them or a variable of the environment."""
    by_source: dict[str, list[str]] = {}
    # A run that was resumed has several parts.
    parts = [part for result in results for part in _training(result).get("parts") or [_training(result)]]
    for part in parts:
        commit = str(part.get("commit") or UNKNOWN)
        short = commit if commit == UNKNOWN else commit[:7] + ("-dirty" if commit.endswith("-dirty") else "")
        by_source.setdefault(part.get("commit_source") or "source unknown", []).append(short)
    return "; ".join(f"{_joined(commits)} ({source})" for source, commits in by_source.items())
