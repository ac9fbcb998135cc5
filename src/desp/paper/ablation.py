"""The effect of stochastic prediction: score and energy against S / T (the paper's ablation figures)."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from desp.errors import SettingsError
from desp.metrics.base import describe
from desp.paper.reproduce import stochastic_sampler
from desp.results import data_slug
from desp.runs.evaluate import changed_settings
from desp.runs.folder import RunFolder
from desp.runs.provenance import provenance
from desp.settings import SCHEMA, to_json
from desp.storage import write_json
from desp.tasks import Evaluation, EvaluationSetup

# Columns of an ablation that are metrics.
METRICS = ("score", "size_rmse", "size_rmse_released", "hungarian", "precision", "recall", "f1")


def ablate_run(
    folder: RunFolder,
    ratios: Sequence[float],
    protocol: str = "quick",
    on_ratio: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Score a run's predictor for several fractions of stochastic steps; writes ``ablation.json``.

    Args:
        folder: a finished run.
        ratios: values of S / T between 0 and 1.
        protocol: how much is scored, by name.
        on_ratio: called after every ratio.

    Raises:
        SettingsError: no ratio, one outside [0, 1], or a system that has no stochastic steps.
    """
    _check_ratios(ratios)
    run = folder.open(data=False)
    settings, seed, task, predictor = run.settings, run.seed, run.task, run.predictor
    sampler = stochastic_sampler(predictor.method_settings)  # the one that was chosen, if any was
    if sampler is None:
        kind = settings.method.kind
        raise SettingsError(f"The method '{kind}' predicts without stochastic steps, so there is no S/T to vary.")
    folder.check_data(task)
    counts = task.protocol(protocol)
    rows: dict[int, dict[str, Any]] = {}  # by S: in a short chain, several fractions may be the same steps
    real, data, scored = None, task.data_label, "raw"
    for ratio in ratios:
        # No restarts: the best of several would hide what noise does to a chain.
        changed = replace(sampler, stochastic_steps=round(ratio * sampler.steps), restarts=1)
        if changed.stochastic_steps not in rows:
            evaluation = task.evaluate(EvaluationSetup(predictor, seed, 1, counts, changed))
            real, data = evaluation.real_data.get("score"), evaluation.data or task.data_label
            scored = "raw" if evaluation.raw else "returned"
            row = {"ratio": ratio, "stochastic_steps": changed.stochastic_steps, **_row(evaluation)}
            rows[changed.stochastic_steps] = row
        if on_ratio:
            on_ratio(ratio)
    ablation = {
        "recipe": settings.recipe,
        "seed": seed,
        "steps": sampler.steps,
        "sampler": to_json(replace(sampler, restarts=1)),
        "protocol": {"name": protocol, **asdict(counts)},
        "score_name": task.score_name,
        "scored": scored,
        "metrics": describe(task.metrics, METRICS),
        "real_data": real,
        "data": data,
        "data_source": data_slug(settings, task.data_name),
        "rows": list(rows.values()),
        "training": (folder.read_summary() or {}) | {"parts": folder.parts()},
        "settings": {"schema": SCHEMA, **to_json(replace(settings, method=predictor.method_settings))},
        "changed_settings": changed_settings(folder),
        **provenance(predictor.device),
    }
    write_json(folder.ablation_file, ablation)
    return ablation


def _check_ratios(ratios: Sequence[float]) -> None:
    if not ratios:
        raise SettingsError("--ratios needs at least one value between 0 and 1.")
    for ratio in ratios:
        if not 0 <= ratio <= 1:
            raise SettingsError(f"--ratios must lie between 0 and 1, got {ratio}.")


def _row(evaluation: Evaluation) -> dict[str, Any]:
    """Score and Hungarian distance of raw output, or of returned sets where the task scores these alone; see
    `ablation_headings`."""
    scores = evaluation.raw or evaluation.returned
    released = _metric_of_any_count(evaluation.returned, "size_rmse_released")
    over_all_sets = {"size_rmse": _metric_of_any_count(evaluation.returned, "size_rmse")}
    return {
        "score": scores["score"],
        "score_returned": evaluation.returned["score"],
        "energy": evaluation.energy,
        **(over_all_sets if released is None else {"size_rmse_released": released}),  # what the paper's table has
        "hungarian": _metric_of_any_count(scores, "hungarian"),
        **{name: scores[name] for name in ("precision", "recall", "f1") if name in scores},
    }


def _metric_of_any_count(scores: dict[str, float], metric: str) -> float | None:
    """A metric, also where it was measured on fewer sets than the paper's table has, as `NAME_first1000`."""
    return next(
        (value for name, value in scores.items() if name == metric or name.startswith(f"{metric}_first")), None
    )
