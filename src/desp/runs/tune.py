"""Choose how a trained energy becomes predictions: S/T, noise and steps, on validation data."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from desp.errors import SettingsError
from desp.predictors import EnergyPredictor
from desp.runs.folder import RunFolder
from desp.runs.provenance import provenance
from desp.settings import (
    DirectSettings,
    LangevinSettings,
    SamplerSettings,
    SetRiskSettings,
    SolverSettings,
    to_json,
)
from desp.storage import without_nonfinite, write_json

RATIOS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
NOISE_FACTORS = (0.5, 0.7, 1.0, 1.4)
STEP_FACTORS = (0.5, 1.0, 2.0)
MOMENTA = (0.0, 0.5, 0.8)
SOLVER_STEPS = (10, 20, 40)
STOCHASTICITIES = (0.0, 0.2, 0.5)
REFINEMENTS = (0, 2)


def tune_run(folder: RunFolder, on_candidate: Callable[[dict[str, Any]], None] | None = None) -> dict[str, Any]:
    """Try samplers on validation data, one setting after the other; the best is used from now on.

    The measure is the task's own, `Task.sampler_scores`.

    Args:
        folder: a finished run.
        on_candidate: told of every sampler that was scored.

    Raises:
        SettingsError: the system has no sampler to choose, or the task no validation data.
    """
    settings, seed = folder.load_settings()
    if isinstance(settings.predictor.estimator, SetRiskSettings | DirectSettings):
        raise SettingsError(f"'{settings.recipe}' predicts as in training, so there is no sampler to tune.")
    task, predictor = folder.load_task(), folder.load_predictor()
    folder.check_data(task)
    scores = task.sampler_scores(predictor, seed)
    if scores is None:
        raise SettingsError("There are too few examples to keep some apart for choices, so nothing can be tuned.")
    tried: dict[SamplerSettings, dict[str, Any]] = {}

    def score(sampler: SamplerSettings) -> float:
        if sampler not in tried:
            began = _clock(predictor.device)
            value = scores.score(sampler)
            seconds = _clock(predictor.device) - began
            tried[sampler] = {"sampler": to_json(sampler), "score": value, "seconds": round(seconds, 3)}
            if on_candidate:
                on_candidate(tried[sampler])
        found = float(tried[sampler]["score"])
        return found if math.isfinite(found) else math.inf

    best = settings.predictor.sampler
    score(best)
    for change in _CHANGES[type(best)]:
        best = min([best, *change(best)], key=score)
    tuning = {
        "recipe": settings.recipe,
        "seed": seed,
        "sampler": to_json(best),
        "before": to_json(settings.predictor.sampler),
        "examples": scores.examples,
        "candidates": [without_nonfinite(candidate) for candidate in tried.values()],
        **provenance(predictor.device),
    }
    _use(folder, predictor, best)
    write_json(folder.tuning_file, tuning)
    return tuning


def reset_run(folder: RunFolder) -> SamplerSettings:
    """Go back to the sampler that the run was begun with."""
    settings, _ = folder.load_settings()
    _use(folder, folder.load_predictor(), settings.predictor.sampler)
    return settings.predictor.sampler


def _use(folder: RunFolder, predictor: EnergyPredictor, sampler: SamplerSettings) -> None:
    """Save the predictor with another sampler; what was measured with the one before goes."""
    predictor.settings = replace(predictor.settings, sampler=sampler)
    folder.clear_measurements()
    predictor.save_pretrained(folder.model)


def _clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.monotonic()


def _ratios(sampler: LangevinSettings) -> Iterator[LangevinSettings]:
    for ratio in RATIOS:
        yield replace(sampler, stochastic_steps=round(ratio * sampler.steps))


def _noises(sampler: LangevinSettings) -> Iterator[LangevinSettings]:
    for factor in NOISE_FACTORS:
        last = None if sampler.last_noise is None else factor * sampler.last_noise
        yield replace(sampler, noise_scale=factor * sampler.noise_scale, last_noise=last)


def _lengths(sampler: LangevinSettings) -> Iterator[LangevinSettings]:
    ratio = sampler.stochastic_steps / sampler.steps
    for factor in STEP_FACTORS:
        steps = max(round(factor * sampler.steps), 1)
        yield replace(sampler, steps=steps, stochastic_steps=round(ratio * steps))


def _momenta(sampler: LangevinSettings) -> Iterator[LangevinSettings]:
    for momentum in MOMENTA if sampler.stochastic_steps < sampler.steps else ():
        yield replace(sampler, momentum=momentum)


def _tries(sampler: LangevinSettings) -> Iterator[LangevinSettings]:
    """Several tries sharpen where one answer is right, and thin out the rest where many are."""
    if sampler.tries > 1:
        yield replace(sampler, tries=1)
        yield replace(sampler, from_tries="lowest" if sampler.from_tries == "mean" else "mean")


def _solver_steps(sampler: SolverSettings) -> Iterator[SolverSettings]:
    for steps in SOLVER_STEPS:
        yield replace(sampler, steps=steps)


def _stochasticities(sampler: SolverSettings) -> Iterator[SolverSettings]:
    for value in STOCHASTICITIES:
        yield replace(sampler, stochasticity=value)


def _refinements(sampler: SolverSettings) -> Iterator[SolverSettings]:
    for value in REFINEMENTS:
        yield replace(sampler, refinement=value)


# What is varied, in this order, each from the best so far.
_CHANGES: dict[type, tuple[Callable[[Any], Iterator[SamplerSettings]], ...]] = {
    LangevinSettings: (_ratios, _noises, _lengths, _momenta, _tries),
    SolverSettings: (_solver_steps, _stochasticities, _refinements),
}
