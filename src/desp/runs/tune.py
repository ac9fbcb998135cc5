"""Choose the sampler's settings of a trained run on validation data."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from desp.comparison.scoring import mean_and_error
from desp.errors import SettingsError
from desp.predictor import SetPredictor
from desp.predictor.saving import predictor_files
from desp.runs.folder import RunFolder
from desp.runs.provenance import provenance, synchronized_clock
from desp.settings import (
    EDMSettings,
    LabelSamplerSettings,
    LangevinSettings,
    MethodSettings,
    SamplerSettings,
    to_json,
)
from desp.storage import Write, json_bytes, with_content, without_nonfinite, write_together
from desp.tasks import EvaluationSetup
from desp.tasks.calibration import CALIBRATION_SAMPLES

Candidates = Callable[[Any], Iterable[SamplerSettings]]
"""From the best sampler so far to others that differ in one thing."""


def tune_run(
    folder: RunFolder, on_candidate: Callable[[dict[str, Any]], None] | None = None, protocol: str = "full"
) -> dict[str, Any]:
    """Try samplers on validation data, one setting after the other; the best is used from now on, if it is clearly
    better.

    Candidates start from the sampler that the run was begun with (`before`), also where another was chosen since.
    The measure is the task's own, `Task.validation_score`. Where it is a mean over examples, the best one is used
    only if it is better than `before` by more than the standard error of the difference, paired by examples
    (`gain`, `gain_se`); else the run keeps `before`.

    Args:
        folder: a finished run.
        on_candidate: called with every sampler that was scored.
        protocol: how many examples are predicted for, by name.

    Raises:
        SettingsError: the method has no sampler to choose, or the task no validation data.
        RunError: another process trains or tunes in the folder.
        StorageError: the choice cannot be written; the run is as it was.
    """
    folder.load_settings()  # a folder that is none stays as it is
    with folder.locked():
        return _tune(folder, on_candidate, protocol)


def _tune(
    folder: RunFolder, on_candidate: Callable[[dict[str, Any]], None] | None, protocol: str
) -> dict[str, Any]:
    before = tunable_sampler(folder)
    run = folder.open()
    settings, seed = run.settings, run.seed
    task, predictor = run.task, run.predictor
    counts = task.protocol(protocol)
    examples = task.validation_batch(seed, counts.calibration_examples)
    if examples is None:
        raise SettingsError(
            "The run has no validation examples, so nothing can be tuned: its data are too few, or `fit` was "
            "given none (pass validation_data=(inputs, sets))."
        )
    tried: dict[SamplerSettings, dict[str, Any]] = {}
    each: dict[SamplerSettings, Tensor] = {}

    def score(sampler: SamplerSettings) -> float:
        if sampler not in tried:
            began = synchronized_clock(predictor.device)
            setup = EvaluationSetup(predictor, seed, CALIBRATION_SAMPLES, counts, sampler)
            keep = partial(each.__setitem__, sampler)
            value = task.validation_score(replace(setup, keep_each=keep), examples)
            seconds = synchronized_clock(predictor.device) - began
            tried[sampler] = {"sampler": to_json(sampler), "score": value, "seconds": round(seconds, 3)}
            if on_candidate:
                on_candidate(tried[sampler])
        found = float(tried[sampler]["score"])
        return found if math.isfinite(found) else math.inf

    best = before
    score(best)
    for change in _CHANGES[type(best)]:
        candidates = [item for item in change(best) if is_allowed(settings.method, item)]
        best = min([best, *candidates], key=score)
    gain = _gain(each.get(before), each.get(best)) if best != before and math.isfinite(score(before)) else {}
    if gain and not _is_clear(gain):
        best = before
    tuning = {
        "recipe": settings.recipe,
        "seed": seed,
        "sampler": to_json(best),
        "before": to_json(before),
        "protocol": protocol,
        "examples": len(examples.x),
        **gain,
        "candidates": [without_nonfinite(candidate) for candidate in tried.values()],
        **provenance(predictor.device),
    }
    _use(folder, predictor, best, {folder.tuning_file: with_content(json_bytes(tuning))})
    return tuning


def tunable_sampler(folder: RunFolder) -> SamplerSettings:
    """The sampler that a finished run was begun with; reads neither model nor data.

    Raises:
        SettingsError: the method has none that can be tuned.
        RunError: not a run, or training has not ended yet.
    """
    settings, _ = folder.load_settings()
    sampler = settings.method.prediction_sampler
    if sampler is None or type(sampler) not in _CHANGES:
        raise SettingsError(
            f"The method '{settings.method.kind}' has no sampler that can be tuned (langevin, edm or labels)."
        )
    folder.check_trained()
    return sampler


def _gain(before: Tensor | None, best: Tensor | None) -> dict[str, float | None]:
    """How much lower the scores of the best sampler are on the same examples, and the standard error of that; it
    is unknown with a single example. Empty without scores of examples."""
    if before is None or best is None:
        return {}
    if len(before) < 2:
        return {"gain": float((before - best).mean()), "gain_se": None}
    return dict(mean_and_error("gain", before - best))


def _is_clear(gain: dict[str, float | None]) -> bool:
    mean, error = gain["gain"], gain["gain_se"]
    return mean is not None and error is not None and mean > error


def reset_run(folder: RunFolder) -> SamplerSettings:
    """Go back to the sampler that the run was begun with.

    Raises:
        SettingsError: the method has none that could have been tuned.
        RunError: not a run, or training has not ended yet.
    """
    sampler = tunable_sampler(folder)
    with folder.locked():
        _use(folder, folder.load_predictor(), sampler, {})
    return sampler


def _use(folder: RunFolder, predictor: SetPredictor, sampler: SamplerSettings, more: Mapping[Path, Write]) -> None:
    """Save the predictor with a sampler, and `more` with it; what was measured with another one goes."""
    present, chosen = predictor.method_settings, predictor.method_settings.with_part("sampler", sampler)
    predictor.method_settings = chosen
    outdated = (folder.tuning_file,) if chosen == present else folder.measurements
    write_together({**predictor_files(predictor, folder.model), **more}, outdated)


def is_allowed(method: MethodSettings, sampler: SamplerSettings) -> bool:
    """Whether a method takes the sampler; a tagger takes only two values of `min_probability`."""
    try:
        method.with_part("sampler", sampler)
    except SettingsError:
        return False
    return True


def _each(name: str, *values: float) -> Candidates:
    """Other values of one setting."""
    return lambda sampler: [replace(sampler, **{name: value}) for value in values]


def _ratios(sampler: LangevinSettings) -> Iterator[LangevinSettings]:
    for ratio in (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0):
        yield replace(sampler, stochastic_steps=round(ratio * sampler.steps))


def _noises(sampler: LangevinSettings) -> Iterator[LangevinSettings]:
    for factor in (0.5, 0.7, 1.0, 1.4):
        last = None if sampler.final_noise_scale is None else factor * sampler.final_noise_scale
        yield replace(sampler, noise_scale=factor * sampler.noise_scale, final_noise_scale=last)


def _lengths(sampler: LangevinSettings) -> Iterator[LangevinSettings]:
    ratio = sampler.stochastic_steps / sampler.steps
    for factor in (0.5, 1.0, 2.0):
        steps = max(round(factor * sampler.steps), 1)
        yield replace(sampler, steps=steps, stochastic_steps=round(ratio * steps))


def _momenta(sampler: LangevinSettings) -> Iterable[SamplerSettings]:
    """Momentum is for steps without noise."""
    return _each("momentum", 0.0, 0.5, 0.8)(sampler) if sampler.stochastic_steps < sampler.steps else ()


def _restarts(sampler: LangevinSettings) -> Iterator[LangevinSettings]:
    """Restarts raise accuracy where one answer is right, and reduce diversity where several are."""
    if sampler.restarts > 1:
        yield replace(sampler, restarts=1)
        yield replace(sampler, aggregate="lowest" if sampler.aggregate == "mean" else "mean")


def _thresholds(sampler: LabelSamplerSettings) -> Iterator[LabelSamplerSettings]:
    """Independent samples, or the most probable answers; independent samples alone where one answer is predicted,
    as by a tagger."""
    for least in (None,) if sampler.deterministic else (None, 1.0, 0.02, 0.03, 0.05, 0.07, 0.1):
        yield replace(sampler, min_probability=least)


# What is varied, in this order, each from the best so far.
_CHANGES: dict[type, tuple[Candidates, ...]] = {
    LangevinSettings: (_ratios, _noises, _lengths, _momenta, _restarts),
    EDMSettings: (_each("steps", 10, 20, 40), _each("churn", 0.0, 0.2, 0.5)),
    LabelSamplerSettings: (_thresholds,),
}
