"""Score a trained run, and keep predictions to look at."""

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from desp.errors import SettingsError
from desp.metrics.base import describe
from desp.predictor import Prediction
from desp.randomness import make_generator
from desp.recipes import get_recipe
from desp.results import Row, data_slug, rows_of
from desp.runs.folder import LoadedRun, RunFolder, differences
from desp.runs.provenance import provenance
from desp.runs.shown import drawing_axes, file_uri, image_uri
from desp.sets import presence_mask
from desp.settings import SCHEMA, Distance, to_json
from desp.storage import without_nonfinite, write_json
from desp.tasks import EvaluationSetup, Paths, ShownExample

FRAMES = 60


def evaluate_run(
    folder: RunFolder,
    samples: int = 10,
    distance: Distance = "chamfer",
    protocol: str = "quick",
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[dict[str, Any], list[Row]]:
    """Score the predictor of a run, write ``evaluation.json``, and return the result and its table rows.

    Args:
        folder: a finished run.
        samples: predictions an input, where the task's metrics use several.
        distance: by which collections of true and predicted sets are compared, where the task does that.
        protocol: how much is scored, by name.
        progress: told what is scored now, how many parts are done, and of how many.

    Raises:
        SettingsError: `samples` is not positive, or the task has no such protocol.
    """
    if samples < 1:
        raise SettingsError(f"--samples must be at least 1, got {samples}.")
    run = folder.open()
    settings, task, predictor = run.settings, run.task, run.predictor
    if distance != "chamfer" and not task.compares_collections:
        raise SettingsError(
            f"The task '{task.name}' reports no coverage, minimum_matching_distance or "
            "nearest_neighbour_accuracy, which --distance is for. Leave it out."
        )
    counts, began = task.protocol(protocol), time.monotonic()
    setup = EvaluationSetup(predictor, run.seed, samples, counts, distance=distance, progress=progress)
    evaluation = task.evaluate(setup)
    summary = folder.read(folder.summary_file) or {}
    recipe = get_recipe(settings.recipe)
    result: dict[str, Any] = {
        "recipe": settings.recipe,
        "table": recipe.table,
        "task": recipe.task,
        "system": recipe.system,
        "scored": recipe.scored,
        "protocol": {"name": protocol, **asdict(counts)},
        "seed": run.seed,
        "data": evaluation.data or task.data_label,
        "data_source": data_slug(settings, task.data_name),
        "metrics": describe(task.metrics, [*evaluation.raw, *evaluation.returned]),
        "scores": {"raw": evaluation.raw, "returned": evaluation.returned},
        "real_data": evaluation.real_data,
        "details": evaluation.details,
        "energy": evaluation.energy,
        "training": {name: summary.get(name) for name in _TRAINING_FACTS} | {"parts": folder.parts()},
        "evaluation": {"seconds": round(time.monotonic() - began, 2), **provenance(predictor.device)},
        "settings": {"schema": SCHEMA, **to_json(replace(settings, method=predictor.method_settings))},
        "changed_settings": changed_settings(folder),
    }
    result = without_nonfinite(result)  # NaN is no JSON; tables take null for a number that could not be had
    rows = rows_of([result])
    written: dict[str, Any] = {"rows": rows, "details": evaluation.details, "result": result}
    if evaluation.cases:
        written |= {"axes": task.axes, "cases": evaluation.cases}
    write_json(folder.evaluation_file, written)
    return result, rows


_TRAINING_FACTS = (
    "command",
    "commit",
    "device",
    "engine",
    "versions",
    "seconds",
    "peak_memory_mb",
    "steps",
    "parameters",
    "best_step",
    "stopped_early",
    "rollbacks",
)


def changed_settings(folder: RunFolder) -> list[str]:
    """How a run differs from its recipe, but for where it ran and its data, which results tell by `data_slug`.

    A shorter run differs only if the recipe's would not have begun with the same steps; tables show its length.
    """
    settings, _ = folder.load_settings()
    if folder.model.is_dir():  # its sampler may have been chosen since
        settings = replace(settings, method=folder.load_predictor().method_settings)
    original = get_recipe(settings.recipe).build()
    same = replace(original, engine=settings.engine, device=settings.device)
    steps = settings.training.steps
    if steps < original.training.steps and original.training.may_end_at(steps):
        same = replace(same, training=replace(same.training, steps=steps))
    same = replace(same, task=same.task.with_data_of(settings.task))
    words = ("in the recipe", "in this run")
    return differences(to_json(same), to_json(settings), words) + folder.irregularities()


def sample_run(folder: RunFolder, samples: int | None = None) -> None:
    """Predict sets for the task's examples and write them to ``samples.json``, with one more chain for each
    example to animate; as many as the task shows, if no number is given."""
    run = folder.open()
    seed, task = run.seed, run.task
    count = task.shown_predictions if samples is None else samples
    examples = [_shown(run, example, count) for example in task.shown_examples(seed)]
    values = {"task": task.name, "one_answer": task.one_answer, "axes": drawing_axes(run), "examples": examples}
    write_json(folder.samples_file, values)


def _shown(run: LoadedRun, example: ShownExample, samples: int) -> dict[str, Any]:
    predictor, seed = run.predictor, run.seed
    prediction = predictor.predict_one(example.x, samples, seed=seed)
    if run.task.axes.get("paths"):
        return _shown_paths(run, example, prediction)
    columns = predictor.shape.description.columns_to_draw(predictor.shape.features)
    given = predictor.given_presence(example.x)
    # Where outputs are aligned with them, the elements of the input: each has its own in every set.
    elements = {} if given is None else {"elements": _rounded(example.x[given][:, :-1])}
    drawn_over = predictor.shape.input_kind == "image" and predictor.shape.description.boxes
    return {
        "label": example.label,
        "input": example.input,
        **({"image": image_uri(example.x)} if drawn_over else {}),
        **elements,
        **_items(example),
        "truth": [_rounded(item[:, columns]) for item in example.truth],
        "samples": [
            {"set": _rounded(item[:, columns]), "energy": float(energy)}
            for item, energy in zip(prediction.sets, prediction.energies, strict=True)
        ],
        "chain": _chain(run, example),
    }


def _shown_paths(run: LoadedRun, example: ShownExample, prediction: Prediction) -> dict[str, Any]:
    """Elements as paths, whole for pictures of their own; drawn as elements, where they end."""
    x = example.x[presence_mask(example.x)]
    true, predicted = ([_paths(run, x, item) for item in sets] for sets in (example.truth, prediction.sets))
    return {
        "label": example.label,
        "input": example.input,
        "paths": {
            "observed": [_rounded(path) for path in true[0].observed],
            "truth": [[_rounded(path) for path in item.future] for item in true],
            "samples": [[_rounded(path) for path in item.future] for item in predicted],
        },
        "truth": [_rounded(item.future[:, -1]) for item in true],
        "samples": [
            {"set": _rounded(item.future[:, -1]), "energy": float(energy)}
            for item, energy in zip(predicted, prediction.energies, strict=True)
        ],
        "chain": _chain(run, example),
    }


def _paths(run: LoadedRun, x: Tensor, elements: Tensor) -> Paths:
    found = run.task.paths(x.cpu(), elements.cpu())
    if found is None:
        raise TypeError(f"the task '{run.task.name}' draws paths, but gives none")
    return found


def _items(example: ShownExample) -> dict[str, Any]:
    """The elements as people know them, with small pictures, where a task tells."""
    if not example.items:
        return {}
    items = [
        {
            "name": item.name,
            "facts": list(item.facts),
            "image": None if item.image is None else file_uri(item.image),
        }
        for item in example.items
    ]
    return {"items": items, "reasons": list(example.reasons)}


def _chain(run: LoadedRun, example: ShownExample) -> dict[str, Any]:
    """Some 60 frames of one chain, start and end among them, all rows drawn."""
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
        drawn = _paths(run, everyone, drawn).future[..., -1, :].to(shown.device)
    else:
        drawn = drawn[..., predictor.shape.description.columns_to_draw(features)]
    rows = torch.cat([drawn, shown[..., features:]], dim=-1).cpu()
    return {"frames": [_rounded(frame) for frame in rows], "steps": kept, "energies": energies.tolist()}


def _rounded(values: Tensor) -> list[list[float]]:
    """Five significant digits are plenty for a picture and keep the page small."""
    return [[float(f"{number:.5g}") for number in row] for row in values.tolist()]
