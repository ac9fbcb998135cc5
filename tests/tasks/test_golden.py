"""All numbers of every task, for predictors that are near the truth, as text.

They change only when what is measured, or on which data, does. After a wanted change, write them anew and look at
the difference::

    DESP_GOLDEN=write python -m pytest tests/tasks/test_golden.py
"""

import json
import os
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from desp.settings import LangevinSettings, TrainingSettings
from desp.tasks import EvaluationSetup, Protocol, Task, calibration, make_task
from desp.tasks.calibration import CALIBRATION_SAMPLES
from desp.tasks.digits import DigitsTask
from desp.tasks.files import FilesTask
from desp.tasks.mnist import PUBLISHED_TESTS, SetMnistTask
from desp.tasks.polygons import PolygonsTask

GOLDEN = Path(__file__).parents[1] / "golden"
SEED = 3
OTHER = LangevinSettings(noise_scale=0.02)


def digest(values: Tensor) -> list[float]:
    """How many numbers, their sum, and one that tells their order."""
    numbers = values.double().flatten()
    return [len(numbers), float(numbers.sum()), float((numbers * torch.linspace(0, 1, len(numbers))).sum())]


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Numbers and words by their path; tensors by their digest."""
    if isinstance(value, dict):
        return {key: item for part in value for key, item in flat(value[part], f"{name}/{part}").items()}
    if isinstance(value, list | tuple) and value and isinstance(value[0], list) and isinstance(value[0][0], float):
        value = torch.tensor(value)  # the points of a set
    if isinstance(value, Tensor):
        value = digest(value)
    if isinstance(value, list | tuple):
        return {key: item for i, part in enumerate(value) for key, item in flat(part, f"{name}/{i}").items()}
    return {name: value}


def numbers(problem: Any) -> dict[str, Any]:
    task, predictor = problem
    protocol = task.protocol("quick")
    shape, statistics = task.shape(None, True)
    training = TrainingSettings(batch_size=8)
    batches = list(islice(task.source(shape, training, SEED, Accelerator(cpu=True)).batches(0), 2))
    examples = task.shown_examples(SEED)
    chosen_by = task.validation_batch(SEED, 9)
    tuned_by = task.validation_batch(SEED, protocol.calibration_examples)
    return flat(
        {
            "shape": [*shape.input_shape, shape.features, shape.max_size, shape.input_kind],
            "scaling": [*shape.scaling.offset, *shape.scaling.span],
            "inputs": [] if statistics is None else list(statistics),
            "training": [item for batch in batches for item in (batch.x, batch.sets.elements, batch.sets.sizes)],
            "validation batch": [chosen_by.x, chosen_by.sets.elements, chosen_by.sets.sizes],
            "examples": {item.label: {"input": item.input, "x": [item.x, *item.truth]} for item in examples},
            "evaluation": asdict(
                task.evaluate(EvaluationSetup(predictor, seed=SEED, samples=3, protocol=protocol))
            ),
            "with another sampler": asdict(
                task.evaluate(EvaluationSetup(predictor, seed=SEED, samples=1, protocol=protocol, sampler=OTHER))
            ),
            "validation": task.validation(SEED)(predictor),
            "sampler score": [
                len(tuned_by.x),
                task.validation_score(
                    EvaluationSetup(predictor, SEED, CALIBRATION_SAMPLES, protocol, OTHER), tuned_by
                ),
            ],
            "words": [task.name, task.data_label, task.score_name, task.compares_collections, task.axes],
        }
    )


def assert_as_on_file(name: str, found: dict[str, Any]) -> None:
    """Numbers to three digits and words as they are; or write them, if that is asked for."""
    file = GOLDEN / f"{name}.json"
    if os.environ.get("DESP_GOLDEN") == "write":
        file.write_text(json.dumps(found, indent=1) + "\n")
    expected = json.loads(file.read_text())
    assert found.keys() == expected.keys()
    for path, value in expected.items():
        wanted = pytest.approx(value, rel=5e-4, abs=1e-10) if isinstance(value, int | float) else value
        assert found[path] == wanted, path


@pytest.mark.parametrize("problem", ["polygons", "digits", "files", "mnist"], indirect=True)
def test_numbers_are_those_on_file(problem: Any) -> None:
    assert_as_on_file(f"task-{problem.task.name}", numbers(problem))


@pytest.mark.parametrize("problem", ["polygons", "digits"], indirect=True)
def test_distributions_by_assignment_are_those_on_file(problem: Any) -> None:
    task, predictor = problem
    protocol = task.protocol("quick")
    evaluation = task.evaluate(EvaluationSetup(predictor, SEED, 1, protocol, distance="hungarian"))
    found = {name: value for name, value in evaluation.returned.items() if name.endswith("_hungarian")}
    assert_as_on_file(f"task-{task.name}-hungarian", flat([found, evaluation.details["distribution"]]))


@pytest.mark.parametrize("problem", ["mnist"], indirect=True)
def test_translated_digits_are_as_they_were(problem: Any) -> None:
    shape, _ = problem.task.shape(None, True)
    moving = make_task(replace(problem.task.settings, translate_fraction=0.5))
    source = moving.source(shape, TrainingSettings(batch_size=8), SEED, Accelerator(cpu=True))
    found = [digest(item) for batch in islice(source.batches(0), 2) for item in (batch.x, batch.sets.elements)]
    expected = [[384, 187.88889, 94.914419], [256, 105.88889, 54.353087]]
    expected += [[384, 150.55556, 62.971569], [256, 72.555556, 29.824982]]
    assert found == [pytest.approx(numbers, rel=1e-6) for numbers in expected]


@pytest.mark.parametrize(
    ("task", "full", "quick"),
    [
        (
            PolygonsTask,
            {"test_examples": (4000,), "predictions_per_input": 1000},
            {"test_examples": (4000,), "predictions_per_input": 1000},
        ),
        (
            DigitsTask,
            {"test_examples": (4000,), "predictions_per_input": 1000},
            {"test_examples": (4000,), "predictions_per_input": 1000},
        ),
        (
            SetMnistTask,
            {"test_examples": (1000, None), "validation_examples": 500},
            {"test_examples": (100, 200), "calibration_examples": 50, "validation_examples": 50},
        ),
        (FilesTask, {}, {}),
    ],
)
def test_as_many_are_scored_as_in_recorded_results(
    task: type[Task], full: dict[str, Any], quick: dict[str, Any]
) -> None:
    common = {
        "test_examples": (None,),
        "predictions_per_input": None,
        "sets_per_collection_hungarian": 200,
        "validation_examples": 200,
    }
    assert {name: task.protocols[name] for name in ("full", "quick")} == {
        "full": Protocol(**{**common, "sets_per_collection": 1000, "calibration_examples": 500, **full}),
        "quick": Protocol(**{**common, "sets_per_collection": 200, "calibration_examples": 200, **quick}),
    }
    assert PUBLISHED_TESTS == 1000
    assert (calibration.CALIBRATION_SAMPLES, calibration.MIN_CALIBRATION_EXAMPLES) == (9, 50)
