"""Data that a program gave to `SetPredictor.fit`, of which the run folder keeps examples."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from accelerate import Accelerator

from desp.data.arrays import Example
from desp.data.base import Batch, BatchSource
from desp.data.files import DataFile, read_data_file
from desp.errors import DataError, RunError
from desp.metrics import Metric
from desp.predictor import DataShape
from desp.predictor.saving import read_shape
from desp.settings import DataDescription, InMemorySettings, Scaled, TrainingSettings
from desp.tasks.base import SHOWN, ShownExample, Task, default_axes, first_answers, shown_example
from desp.tasks.scoring import Protocol, metrics_of


class InMemoryTask(Task):
    """The data of a program. The default scores, of `score_examples`, on the validation data of `fit`."""

    name = "given"

    def __init__(self, settings: InMemorySettings, seed: int) -> None:
        del seed
        self.path, self.held_out = Path(settings.path), settings.held_out
        self.data_label = "validation data" if self.held_out else "training data"

    @cached_property
    def description(self) -> DataDescription:
        """What inputs and features are, from the saved predictor."""
        return read_shape(self.path.parent / "model").description

    @property
    def metrics(self) -> tuple[Metric, ...]:  # type: ignore[override]
        """Where outputs are aligned with inputs, the score is another distance."""
        return metrics_of(self.description.aligned)

    @cached_property
    def kept(self) -> DataFile:
        """The examples in the run folder; they are few, so all their sets may be empty."""
        description = replace(self.description, input_columns=())  # inputs are numbers already
        return read_data_file(self.path, description, all_may_be_empty=True)

    def shape(self, max_size: int | None, scaling: Scaled) -> NoReturn:
        """Only the program that fitted the predictor knows."""
        del max_size, scaling
        self._not_here()

    def source(
        self, shape: DataShape, training: TrainingSettings, seed: int, accelerator: Accelerator
    ) -> BatchSource:
        """Only the program that fitted the predictor has the data."""
        del shape, training, seed, accelerator
        self._not_here()

    def _not_here(self) -> NoReturn:
        raise RunError(f"{self.path.parent} {InMemorySettings.resumed_by}")

    def scored_examples(self, seed: int, protocol: Protocol) -> Sequence[Example]:
        """All examples in the run folder, if they were not trained on."""
        del seed, protocol
        if not self.held_out:
            raise DataError(
                f"{self.path.parent} was fitted without validation data, so there is nothing to score on. Pass "
                "fit(..., validation_data=(inputs, sets)), or score in Python: predictor.score(inputs, sets)."
            )
        return self.kept.examples

    @cached_property
    def axes(self) -> dict[str, Any]:
        """As the examples in the run folder tell, whether they were trained on or not."""
        _, answers = self.kept.examples[0]
        return default_axes(answers[0].shape[1], self.kept.description.feature_columns)

    def shown_examples(self, seed: int) -> list[ShownExample]:
        """The first examples in the run folder, whether they were trained on or not."""
        del seed
        part = "held-out" if self.held_out else "training"
        some = self.kept.examples[:SHOWN]
        return [shown_example(f"{part} example {number}", item) for number, item in enumerate(some, start=1)]

    def validation_batch(self, seed: int, count: int) -> Batch | None:
        """The first held-out examples, by which the weights were chosen as well."""
        del seed
        return first_answers(self.kept.examples[:count]) if self.held_out else None
