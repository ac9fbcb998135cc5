"""The library itself on a problem: what ``desp train custom`` and ``desp predict`` would do."""

import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from desp.benchmarks.own_data.problem import Problem, write_file
from desp.comparison.examples import Examples
from desp.comparison.scoring import SystemPredictions
from desp.runs.folder import RunFolder
from desp.runs.train import train_run
from desp.sets import SetBatch
from desp.settings import FilesSettings, RunSettings
from desp.tasks.files import FilesTask
from desp.training import TrainingCallback

# Steps that are run to measure how long one takes.
PROBED = 10


@dataclass(frozen=True)
class Split:
    """Indices of the examples of a file that `FilesTask` trains and validates on."""

    training: Tensor
    validation: Tensor

    @property
    def reference(self) -> Tensor:
        """Indices of all examples that a system may look at."""
        return torch.cat([self.training, self.validation])


class _Clock(TrainingCallback):
    """When steps ended."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_step(self, step: int) -> None:
        """Look at the clock."""
        del step
        self.times.append(time.perf_counter())

    @property
    def step_seconds(self) -> float:
        """What a step takes."""
        return statistics.median(after - before for before, after in zip(self.times, self.times[1:], strict=False))


class UserRun:
    """A problem as a user has it: a file in a folder, and a run trained on it.

    Args:
        problem: whose file.
        settings: of the run; its task is replaced by the task of the file.
        seed: of data and run.
        folder: for the file and the run.
    """

    def __init__(self, problem: Problem, settings: RunSettings, seed: int, folder: Path) -> None:
        self.examples, self.seed, self.folder = problem.file_examples(seed), seed, folder
        path = folder / f"{problem.name}.npz"
        write_file(self.examples, problem.input_kind(self.examples), path)
        task = FilesSettings(path=str(path), description=problem.description, split=problem.split)
        self.settings = replace(settings, task=task)
        test, validation, training = FilesTask(task, seed).parts
        del test  # the benchmark has fresh ones
        self.split = Split(*(torch.tensor(part.examples.places) for part in (training, validation)))

    def affordable(self, seconds: float) -> RunSettings:
        """The settings for so much time: a limit where they have no number of steps, else as many steps as fit."""
        training = self.settings.training
        if training.steps is None:
            return replace(self.settings, training=replace(training, minutes=seconds / 60))
        steps = self._affordable_steps(training.steps, seconds)
        return replace(self.settings, training=replace(training, steps=steps))

    def _affordable_steps(self, most: int, seconds: float) -> int:
        clock, training = _Clock(), self.settings.training
        short = replace(training, steps=PROBED, validate_every=0, patience=None)
        with TemporaryDirectory(dir=self.folder) as probe:
            train_run(
                replace(self.settings, training=short), self.seed, RunFolder(Path(probe) / "run"), callback=clock
            )
        return max(1, min(most, int(seconds / clock.step_seconds)))

    def predict(self, tests: Examples, samples: int, seconds: float) -> SystemPredictions:
        """Train within about the time, and predict the tests."""
        run = RunFolder(self.folder / "run")
        outcome = train_run(self.affordable(seconds), self.seed, run)
        began = time.perf_counter()
        predictor = run.load_predictor()
        predictions = predictor.predict(tests.inputs, samples, seed=self.seed)
        single = [item.sets[0] for item in predictor.predict(tests.inputs, best=True, seed=self.seed)]
        shape = self.examples.sets.max_size, self.examples.sets.features
        return SystemPredictions(
            SetBatch.from_ragged([item for prediction in predictions for item in prediction.sets], *shape),
            SetBatch.from_ragged(single, *shape),
            outcome.seconds,
            {
                "steps": outcome.steps,
                "wanted_steps": self.settings.training.steps,
                "kept_step": outcome.score_step,
                "stop_reason": outcome.stop_reason,
                "validation_score": outcome.score,
                "rollbacks": outcome.rollbacks,
                "engine": outcome.engine,
                "predict_seconds": round(time.perf_counter() - began, 2),
            },
        )
