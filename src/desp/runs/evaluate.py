"""Score a trained run, and keep predictions to look at."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch

from desp.errors import SettingsError
from desp.metrics.base import describe
from desp.metrics.over_seeds import over_seeds
from desp.randomness import check_seed, make_generator
from desp.recipes import get_recipe
from desp.results import Row, data_slug, rows_of
from desp.runs.folder import LoadedRun, RunFolder, recipe_differences
from desp.runs.judge import Comparison, compare, verdict_of
from desp.runs.log import earlier_kept, read_log, training_words, validations
from desp.runs.provenance import provenance
from desp.runs.shown import chosen_cases, drawing_axes, paths_of, rounded, shown_values
from desp.sets import SetBatch
from desp.settings import SCHEMA, Distance, to_json
from desp.storage import without_nonfinite, write_json
from desp.tasks import EvaluationSetup, ShownExample
from desp.tasks.base import shown_example
from desp.tasks.scoring import Evaluation, Predicted
from desp.training.device import suitable_threads

# Frames of a chain that is shown.
FRAMES = 60
# Predictions of each of the best, median and worst examples.
SHOWN_SETS = 6
# What a result has of the summary of its training.
_TRAINING_FACTS = (
    *("command", "commit", "commit_source", "device", "engine", "versions", "seconds", "peak_memory_mb"),
    *("steps", "examples", "processes", "parameters"),
    *("kept_step", "stopped_early", "stop_reason", "rollbacks"),
)


def evaluate_run(
    folder: RunFolder,
    samples: int = 10,
    distance: Distance = "chamfer",
    protocol: str = "quick",
    progress: Callable[[str, int, int], None] | None = None,
    seeds: Sequence[int] = (),
) -> tuple[dict[str, Any], list[Row]]:
    """Score the predictor of a run, write ``evaluation.json``, and return the result and its table rows.

    Args:
        folder: a finished run.
        samples: predictions for each input, where the task's metrics use several.
        distance: the set distance of coverage and other comparisons of collections, where the task makes them.
        protocol: how much is scored, by name.
        progress: called with what is scored now, how many parts are done, and of how many.
        seeds: of chains and of test data that are drawn; the run's own if there are none. The first one gives the
            scores; if there are several, `reseeded` holds the scores of each, and their spread.

    Raises:
        SettingsError: `samples` is not positive, a seed is below 0, or the task has no such protocol.
    """
    if samples < 1:
        raise SettingsError(f"--samples must be at least 1, got {samples}.")
    run = folder.open()
    task, predictor = run.task, run.predictor
    if distance != "chamfer" and not task.compares_collections:
        raise SettingsError(
            f"The task '{task.name}' reports no coverage, minimum_matching_distance or "
            "nearest_neighbour_accuracy, which --distance is for. Leave it out."
        )
    counts, began = task.protocol(protocol), time.monotonic()
    kept: list[Predicted] = []
    shared: dict[str, Any] = {"distance": distance, "progress": progress, "keep": kept.append}
    seeds = [check_seed(seed) for seed in seeds] or [run.seed]
    setup = EvaluationSetup(predictor, seeds[0], samples, counts, **shared)
    evaluation = task.evaluate(setup)
    judged, examples = _judged(folder, run, setup, evaluation, kept)
    result: dict[str, Any] = {
        **_recipe_facts(run),
        "protocol": {"name": protocol, **asdict(counts)},
        "data": evaluation.data or task.data_label,
        "metrics": describe(task.metrics, [*evaluation.raw, *evaluation.returned]),
        "scores": {"raw": evaluation.raw, "returned": evaluation.returned},
        "real_data": evaluation.real_data,
        "details": evaluation.details,
        "energy": evaluation.energy,
        **judged,
        **_reseeded(run, setup, evaluation, seeds),
        **_training_facts(folder, run),
    }
    seconds = round(time.monotonic() - began, 2)
    result["evaluation"] = {"seconds": seconds, "seed": seeds[0], **provenance(predictor.device)}
    result = without_nonfinite(result)  # NaN is no JSON; tables take null for a number that could not be had
    rows = rows_of([result])
    written: dict[str, Any] = {"rows": rows, "details": evaluation.details, "result": result}
    written |= {"axes": task.axes, "cases": evaluation.cases} if evaluation.cases else {}
    written |= {"axes": drawing_axes(run), "examples": examples} if examples else {}
    write_json(folder.evaluation_file, written)
    return result, rows


def _reseeded(run: LoadedRun, setup: EvaluationSetup, first: Evaluation, seeds: Sequence[int]) -> dict[str, Any]:
    """The scores of each of several seeds, and their standard deviation: it is due to chance in prediction
    alone."""
    if len(seeds) < 2:
        return {}
    others = [run.task.evaluate(replace(setup, seed=seed, keep=None)) for seed in seeds[1:]]
    each = [{"raw": item.raw, "returned": item.returned} for item in (first, *others)]
    spread = {
        scoring: {name: over_seeds([scores[scoring].get(name) for scores in each])["std"] for name in numbers}
        for scoring, numbers in each[0].items()
    }
    return {"reseeded": {"seeds": list(seeds), "scores": each, "std": spread}}


def _recipe_facts(run: LoadedRun) -> dict[str, Any]:
    """The recipe, seed and data of a result."""
    recipe = get_recipe(run.settings.recipe)
    return {
        "recipe": recipe.name,
        **{name: getattr(recipe, name) for name in ("table", "task", "system", "scored")},
        "seed": run.seed,
        "data_source": data_slug(run.settings, run.task.data_name),
    }


def _training_facts(folder: RunFolder, run: LoadedRun) -> dict[str, Any]:
    """How a run was trained, and with what settings."""
    summary = folder.read_summary() or {}
    return {
        "training": {name: summary.get(name) for name in _TRAINING_FACTS} | {"parts": folder.parts()},
        "settings": {"schema": SCHEMA, **to_json(replace(run.settings, method=run.predictor.method_settings))},
        "changed_settings": changed_settings(folder),
    }


def _training_words(folder: RunFolder, run: LoadedRun) -> str:
    summary, training = folder.read_summary() or {}, run.settings.training
    kept = (summary.get(name) for name in ("kept_step", "steps", "kept_score_se"))
    return training_words(
        validations(read_log(folder.log_file)),
        summary.get("stop_reason"),
        worse_after=earlier_kept(training.keep, *kept),
        higher_is_better=training.validation_mode == "max",
    )


def _judged(
    folder: RunFolder, run: LoadedRun, setup: EvaluationSetup, evaluation: Evaluation, kept: list[Predicted]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The comparison with baselines and the verdict, for results, and the best, median and worst examples, for
    pictures; nothing for tasks without baselines."""
    pairs = run.task.baseline_data()
    if pairs is None or not kept:
        return {}, []
    scored = run.task.scored_examples(setup.seed, setup.protocol)
    found = compare(setup, kept[-1], scored, pairs)
    verdict = verdict_of(found, evaluation.details.get("calibration"), _training_words(folder, run))
    if not isinstance(found, Comparison):
        return {"comparison": None, "verdict": {**verdict, "not_compared": found}}, []
    examples = []
    for group, value, place in chosen_cases(found.ranking):
        own = slice(place * setup.samples, (place + 1) * setup.samples)
        returned = SetBatch(kept[-1].returned.elements[own], kept[-1].returned.mask[own])
        code, raw = kept[-1].code[place : place + 1], kept[-1].raw[own]
        energies = setup.predictor.predicted_energy(code, returned, raw, setup.samples)[:SHOWN_SETS]
        example = shown_example(f"held-out example {place + 1}", scored[place])
        shown = shown_values(run, example, returned.to("cpu").to_ragged()[:SHOWN_SETS], energies)
        examples.append({**shown, "group": group, "energy_score": value})
    return {"comparison": found.values, "verdict": verdict}, examples


def changed_settings(folder: RunFolder) -> list[str]:
    """How a run differs from its recipe, see `recipe_differences`."""
    settings, _ = folder.load_settings()
    if folder.model.is_dir():  # its sampler may have been chosen since
        settings = replace(settings, method=folder.load_predictor().method_settings)
    return recipe_differences(settings) + folder.irregularities()


def sample_run(folder: RunFolder, samples: int | None = None) -> None:
    """Predict sets for the task's examples and write them to ``samples.json``, with one more chain for each
    example to animate. By default the task says how many predictions an example has."""
    run = folder.open()
    task = run.task
    count = task.shown_predictions if samples is None else samples
    predictor, width = run.predictor, run.settings.method.width
    with suitable_threads(predictor.device, count, predictor.shape.max_size, width):
        examples = [_shown(run, example, count) for example in task.shown_examples(run.seed)]
    values = {"task": task.name, "one_answer": task.one_answer, "axes": drawing_axes(run), "examples": examples}
    write_json(folder.samples_file, values)


def _shown(run: LoadedRun, example: ShownExample, samples: int) -> dict[str, Any]:
    prediction = run.predictor.predict_one(example.x, samples, seed=run.seed)
    shown = shown_values(run, example, prediction.sets, prediction.energies)
    return {**shown, "chain": _chain(run, example)}


def _chain(run: LoadedRun, example: ShownExample) -> dict[str, Any]:
    """At most 60 frames of one chain, start and end among them, with all rows of the padded set, absent ones
    included."""
    predictor, seed = run.predictor, run.seed
    x = example.x.unsqueeze(0).to(predictor.device)
    code, presence = predictor.encode(x), predictor.given_presence(x)
    generator = make_generator(seed, "shown chain", device=predictor.device)
    _, info = predictor.sample(code, generator, record="sets", presence=presence)
    if info.trajectory is None:
        return {"frames": [], "steps": [], "energies": []}
    last = len(info.trajectory) - 1
    kept = sorted({round(i * last / (FRAMES - 1)) for i in range(FRAMES)})
    features, scaling = predictor.shape.features, predictor.shape.scaling
    shown = info.trajectory[kept, 0]
    energies = predictor.raw_energy(code.expand(len(kept), *code.shape[1:]), shown)
    drawn = scaling.unscale(shown[..., :features])
    if run.task.axes.get("paths"):
        everyone = example.x.expand(len(kept), *example.x.shape)
        drawn = paths_of(run, everyone, drawn).future[..., -1, :].to(shown.device)
    else:
        drawn = drawn[..., predictor.shape.description.columns_to_draw(features)]
    rows = torch.cat([drawn, shown[..., features:]], dim=-1).cpu()
    return {"frames": [rounded(frame) for frame in rows], "steps": kept, "energies": energies.tolist()}
