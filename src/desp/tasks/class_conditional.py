"""Tasks whose input is one of a few classes, each of which has many right sets."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from desp.data.base import Batch
from desp.errors import DataError
from desp.metrics.calibration import CALIBRATION_ERROR
from desp.metrics.distribution import DISTRIBUTION_METRICS
from desp.predictor import DataShape, SetPredictor
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.settings import Scaled
from desp.tasks.base import GeneratedTask, ShownExample
from desp.tasks.calibration import distribution_scores
from desp.tasks.scoring import Evaluation, EvaluationSetup

SPREAD_METRICS = (*DISTRIBUTION_METRICS, CALIBRATION_ERROR)
"""Metrics that every class-conditional task reports beside its own."""


Collections = tuple[dict[str, SetBatch], dict[str, SetBatch]]
"""True and predicted sets, by class."""


class ClassConditionalTask(GeneratedTask):
    """An input is written as one of `inputs`, and one-hot as a tensor.

    Attributes:
        inputs: all of them, as users write them.
        labels: their names in reports.
        max_size: elements of the largest set; elements have two features.
        shown: how many examples to draw for a report, and how many of each class to show.
    """

    compares_collections = True
    protocols = MappingProxyType(
        {
            name: replace(base, test_examples=(4000,), predictions_per_input=1000)
            for name, base in GeneratedTask.protocols.items()
        }
    )
    inputs: Sequence[Any]
    labels: Sequence[str]
    max_size: int
    shown: tuple[int, int]

    @abstractmethod
    def scorer(self, predictor: SetPredictor) -> Callable[[Tensor, Tensor], Tensor]:
        """A function from zero-padded sets (B, N, 2) and the numbers of their classes (B,) to scores (B,)."""

    @abstractmethod
    def collections(self, setup: EvaluationSetup, real: Batch, predicted: Batch) -> Collections:
        """True and predicted sets by class, at least as many as are compared; from these batches, or new ones."""

    @abstractmethod
    def measure(
        self, setup: EvaluationSetup, predicted: Batch, scores: Tensor, collections: Collections
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """The task's own scores and details, from predictions with scores (B,), and from its collections."""

    def one_hot(self, classes: Tensor | list[int]) -> Tensor:
        """Inputs (B, classes), one-hot, from the numbers of their classes."""
        return F.one_hot(torch.as_tensor(classes), len(self.inputs)).float()

    def shape(self, max_size: int | None, scaling: Scaled) -> tuple[DataShape, None]:
        """A number for each class, and as many rows as the largest set has elements."""
        del scaling
        if max_size not in (None, self.max_size):
            raise DataError(
                f"Sets have {self.max_size} rows, but representation.max_size is {max_size}. Leave it out."
            )
        return DataShape((len(self.inputs),), features=2, max_size=self.max_size), None

    def read_input(self, value: Any, where: str, folder: Path, shape: DataShape) -> Tensor:
        """One of `inputs`."""
        del folder, shape
        if isinstance(value, bool) or value not in self.inputs:
            known = ", ".join(f"{item} ({label})" for item, label in zip(self.inputs, self.labels, strict=True))
            raise DataError(f"{where}: expected one of {known}, got {value!r}.")
        return self.one_hot([self.inputs.index(value)])[0]

    def shown_examples(self, seed: int) -> list[ShownExample]:
        """Every class, with a few true sets each."""
        drawn, each = self.shown
        truth = self.draw(drawn, make_generator(seed, "examples"))
        classes, sets = truth.x.argmax(dim=1), truth.sets.to_ragged()
        return [
            ShownExample(
                label=self.labels[number],
                input=value,
                x=self.one_hot([number])[0],
                truth=[sets[i] for i in (classes == number).nonzero().flatten()[:each].tolist()],
            )
            for number, value in enumerate(self.inputs)
        ]

    def evaluate(self, setup: EvaluationSetup) -> Evaluation:
        """Score, the task's own numbers, distribution and calibration, predictions for all classes in turn."""
        predictor, protocol = setup.predictor, setup.protocol
        count = protocol.test_examples[0] or 0
        classes = torch.arange(count, device=predictor.device) % len(self.inputs)
        x = self.one_hot(classes)
        setup.tell("predicting", 0, 5)
        code, raw = setup.sample([x], 1, "test chains")
        predicted = Batch(x, predictor.sets_from_tensor(raw).packed())
        real = self.draw(count, make_generator(f"real {self.name}"))  # always the same
        score = self.scorer(predictor)
        setup.tell("scoring single sets", 1, 5)
        returned = score(predicted.sets.elements, classes)
        setup.tell("comparing collections of sets", 2, 5)
        both = self.collections(setup, real, predicted)
        own, own_details = self.measure(setup, predicted, returned, both)
        true, found = ({name: sets.first(setup.collection_size) for name, sets in part.items()} for part in both)
        spread, spread_details = distribution_scores(true, found, setup.distance)
        setup.tell("calibration", 3, 5)
        truth = self.draw(protocol.calibration_examples, make_generator(setup.seed, f"calibration {self.name}"))
        ranks, rank_details = setup.calibration(truth)
        setup.tell("scoring raw output and real data", 4, 5)
        return Evaluation(
            raw={"score": float(score(raw[..., :2], classes).mean())},
            returned={"score": float(returned.mean()), **own, **spread, **ranks},
            real_data={"score": float(score(real.sets.elements, real.x.argmax(dim=1)).mean())},
            details={**own_details, "distribution": spread_details, "calibration": rank_details},
            energy=float(predictor.raw_energy(code, raw).mean()),
        )
