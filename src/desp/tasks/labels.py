"""Tasks whose input is one of a few labels, each of which has many right sets."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from desp.data.base import Batch
from desp.errors import DataError
from desp.metrics.calibration import CALIBRATION
from desp.metrics.distribution import DISTRIBUTION_METRICS
from desp.predictor import DataShape, SetPredictor
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.settings import SamplerSettings
from desp.tasks.base import Example, GeneratedTask
from desp.tasks.calibration import calibration_scores, distribution_scores, sample_each, truth_and_predictions
from desp.tasks.scoring import Evaluation, Protocol

SPREAD_METRICS = (*DISTRIBUTION_METRICS, CALIBRATION)
"""What every such task reports beside its own."""


class Measured(NamedTuple):
    """What a task measures beside score and calibration; sets are by label, at least as many as are compared."""

    scores: dict[str, float]
    details: dict[str, Any]
    true: dict[str, SetBatch]
    predicted: dict[str, SetBatch]


class LabelTask(GeneratedTask):
    """An input is written as one of `inputs`, and one-hot as a tensor.

    Attributes:
        inputs: all of them, as users write them.
        labels: their names in reports.
        max_size: elements of the largest set; elements have two features.
        shown: how many examples to draw for a report, and how many of each label to show.
    """

    compares_collections = True
    protocols = MappingProxyType(
        {name: replace(base, tests=(4000,), per_input=1000) for name, base in GeneratedTask.protocols.items()}
    )
    inputs: Sequence[Any]
    labels: Sequence[str]
    max_size: int
    shown: tuple[int, int]

    @abstractmethod
    def scorer(self, predictor: SetPredictor) -> Callable[[Tensor, Tensor], Tensor]:
        """A function from zero-padded sets (B, N, 2) and the numbers of their labels (B,) to scores (B,)."""

    @abstractmethod
    def measure(self, tests: "LabelTests", scores: Tensor) -> Measured:
        """The task's own numbers, from predictions and the scores (B,) of what is returned for them."""

    def one_hot(self, kinds: Tensor | list[int]) -> Tensor:
        """Inputs (B, labels) from the numbers of their labels."""
        return F.one_hot(torch.as_tensor(kinds), len(self.inputs)).float()

    def shape(self, max_size: int | None, scaling: bool) -> tuple[DataShape, None]:
        """A number for each label, and as many rows as the largest set has elements."""
        del max_size, scaling
        return DataShape((len(self.inputs),), features=2, max_size=self.max_size), None

    def read_input(self, value: Any, where: str, folder: Path, shape: DataShape) -> Tensor:
        """One of `inputs`."""
        del folder, shape
        if isinstance(value, bool) or value not in self.inputs:
            known = ", ".join(f"{item} ({label})" for item, label in zip(self.inputs, self.labels, strict=True))
            raise DataError(f"{where}: expected one of {known}, got {value!r}.")
        return self.one_hot([self.inputs.index(value)])[0]

    def examples(self, seed: int) -> list[Example]:
        """Every label, with a few true sets each."""
        drawn, each = self.shown
        truth = self.draw(drawn, make_generator(seed, "examples"))
        kinds, sets = truth.x.argmax(dim=1), truth.sets.to_ragged()
        return [
            Example(
                label=self.labels[kind],
                input=value,
                x=self.one_hot([kind])[0],
                truth=[sets[i] for i in (kinds == kind).nonzero().flatten()[:each].tolist()],
            )
            for kind, value in enumerate(self.inputs)
        ]

    def evaluate(
        self,
        predictor: SetPredictor,
        *,
        seed: int,
        samples: int,
        protocol: Protocol,
        sampler: SamplerSettings | None = None,
    ) -> Evaluation:
        """Score, the task's own numbers, distribution and calibration."""
        del samples
        tests = LabelTests(self, predictor, seed, protocol, sampler)
        score = self.scorer(predictor)
        returned = score(tests.sets.elements, tests.kinds)
        own, count = self.measure(tests, returned), protocol.collection(self.compared_by)
        true, predicted = (
            {name: sets.first(count) for name, sets in part.items()} for part in (own.true, own.predicted)
        )
        spread, spread_details = distribution_scores(true, predicted, self.compared_by)
        truth = self.draw(protocol.calibrated, make_generator(seed, f"calibration {self.name}"))
        distances = truth_and_predictions(predictor, truth, seed, sampler=sampler)
        ranks, rank_details = calibration_scores(distances, seed)
        real = tests.real
        return Evaluation(
            raw={"score": float(score(tests.raw[..., :2], tests.kinds).mean())},
            returned={"score": float(returned.mean()), **own.scores, **spread, **ranks},
            real_data={"score": float(score(real.sets.elements, real.x.argmax(dim=1)).mean())},
            details={**own.details, "distribution": spread_details, "calibration": rank_details},
            energy=float(predictor.raw_energy(tests.code, tests.raw).mean()),
        )


class LabelTests:
    """Predictions to score, for all labels in turn, and as many real sets.

    Attributes:
        kinds: (B,) numbers of the labels.
        code: of their inputs.
        raw: (B, N, C) what the sampler gave.
        sets: the same as a user gets it.
        real: fresh data, always the same, on the CPU.
    """

    def __init__(
        self,
        task: LabelTask,
        predictor: SetPredictor,
        seed: int,
        protocol: Protocol,
        sampler: SamplerSettings | None,
    ) -> None:
        self.task, self.predictor, self.seed = task, predictor, seed
        self.protocol, self.sampler = protocol, sampler
        count = protocol.tests[0] or 0
        self.kinds = torch.arange(count, device=predictor.device) % len(task.inputs)
        generator = make_generator(seed, "test chains", device=predictor.device)
        self.code, self.raw = sample_each(predictor, [task.one_hot(self.kinds)], 1, generator, sampler)
        self.sets = predictor.decode_sets(self.raw).packed()
        self.real: Batch = task.draw(count, make_generator(f"real {task.name}"))

    def more(self, kind: int, count: int, *name: str | int) -> SetBatch:
        """`count` more predictions for one label, from a generator of that name."""
        generator = make_generator(self.seed, *name, device=self.predictor.device)
        _, raw = sample_each(self.predictor, [self.task.one_hot([kind])], count, generator, self.sampler)
        return self.predictor.decode_sets(raw).packed()
