"""The interface of a task: data, inputs, metrics, evaluation protocols."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from accelerate import Accelerator
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import Dataset

from desp.data.arrays import Example
from desp.data.base import Batch, BatchSource, DeviceSource
from desp.data.inputs import read_input
from desp.errors import SettingsError
from desp.metrics import Metric
from desp.predictor import DataShape, SetPredictor, inspect_dataset
from desp.predictor.energy_score import energy_scores_from_distances
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.settings import Scaled, TaskSettings, TrainingSettings
from desp.tasks.scoring import FULL, METRICS, QUICK, Evaluation, EvaluationSetup, Protocol, score_examples

SHOWN = 5
# Examples that are drawn to infer shapes and ranges; also the number of test examples if the protocol gives none.
DRAWN = 1000


def default_axes(features: int, known: Sequence[str] = ()) -> dict[str, Any]:
    """How to draw sets where nothing is known but the number of features, and maybe their names."""
    names = list(known) or [f"column {number}" for number in range(features)]
    return {"names": names, "closed": False, "row_first": False}


@dataclass(frozen=True)
class ShownItem:
    """An element of an aligned input, for people to read.

    Attributes:
        name: of the element.
        facts: its attributes, in words.
        image: a picture of it, if there is one.
    """

    name: str
    facts: tuple[str, ...] = ()
    image: Path | None = None


@dataclass(frozen=True)
class ShownExample:
    """An input to show, with its valid sets.

    Attributes:
        label: its caption.
        input: in words or numbers, where it is small; else None.
        x: the input tensor.
        truth: all valid sets that are known.
        items: its elements for people to read, where labels say which of them belong.
        reasons: why each of the valid sets is valid, where there are items.
    """

    label: str
    input: Any
    x: Tensor
    truth: list[Tensor]
    items: tuple[ShownItem, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Paths:
    """Elements as trajectories in the plane.

    Attributes:
        observed: (..., N, S, 2), past positions, from the input.
        future: (..., N, T, 2), future positions, from the set.
    """

    observed: Float[Tensor, "*b n s 2"]
    future: Float[Tensor, "*b n t 2"]


def shown_example(label: str, example: Example) -> ShownExample:
    """An example to show; a small input as numbers beside it."""
    x, answers = example
    return ShownExample(label, x.tolist() if x.numel() <= 64 else None, x, list(answers))


def first_answers(examples: Sequence[Example]) -> Batch | None:
    """Inputs, each with the first of its valid sets; None if there are no examples."""
    if not examples:
        return None
    sets = [answers[0] for _, answers in examples]
    return Batch(torch.stack([x for x, _ in examples]), SetBatch.from_ragged(sets, features=sets[0].shape[1]))


class Task(ABC):
    """A prediction problem."""

    name: str
    data_label: str
    """The data, under the key `data` of results: `generated`, or the name of a dataset or file."""
    data_name: str | None = None
    """Which data, where the files tell that and the settings do not; part of the file names of results."""
    metrics: tuple[Metric, ...] = METRICS
    """The metrics behind the keys of its scores; recipes are compared by the metric `score`."""
    protocols: Mapping[str, Protocol] = MappingProxyType({"full": FULL, "quick": QUICK})
    """Protocols by name; results are recorded with `full`."""
    one_answer: bool = False
    """Whether each input has a single valid set, so that predictions need no diversity; the report says so."""
    compares_collections: bool = False
    """Whether collections of true and predicted sets are compared."""
    set_column: str = "set"
    id_column: str = "id"
    """Columns of a prediction file that are not part of the input; the id is copied to the output."""
    shown_predictions: int = 6
    """How many predictions for an input a report shows."""

    @abstractmethod
    def shape(self, max_size: int | None, scaling: Scaled) -> tuple[DataShape, Tensor | None]:
        """Shapes of inputs and sets, and mean and standard deviation (2, ...) to standardise inputs by."""

    @abstractmethod
    def source(
        self, shape: DataShape, training: TrainingSettings, seed: int, accelerator: Accelerator
    ) -> BatchSource:
        """The training data, for a predictor built for `shape`."""

    def training_examples(self) -> int | None:
        """How many training examples there are, where the data tell that and the settings do not."""
        return None

    def read_input(self, value: Any, where: str, folder: Path, shape: DataShape) -> Tensor:
        """An input as a user writes it in a file, as a tensor for a predictor of `shape`.

        A number, a vector, a set, or the path of an image, as in data files, unless a task overrides it.

        Raises:
            DataError: it is not an input of this task; `where` names the place.
        """
        return read_input(value, shape.input_kind, shape.input_shape, folder, where)

    def written_sets(self, value: Any, x: Tensor, sets: list[Tensor]) -> list[Tensor]:
        """Predicted sets as a file holds them: as they are, unless a task overrides it.

        Args:
            value: the input as it was written.
            x: the same input as a tensor, from `read_input`.
            sets: predictions for it.
        """
        del value, x
        return sets

    def paths(self, x: Tensor, elements: Tensor) -> Paths | None:
        """The paths that elements (..., N, D) of sets stand for; None where elements are no paths."""
        del x, elements
        return None

    def scored_examples(self, seed: int, protocol: Protocol) -> Sequence[Example]:
        """Inputs with all their valid sets, never trained on: what `evaluate` uses by default."""
        raise NotImplementedError(f"The task '{self.name}' gives neither examples to score nor scores of its own.")

    def evaluate(self, setup: EvaluationSetup) -> Evaluation:
        """Score a predictor on fresh test data, by default on `scored_examples`."""
        return score_examples(setup, self.scored_examples(setup.seed, setup.protocol))

    @cached_property
    def axes(self) -> dict[str, Any]:
        """How to draw a set: `names` of features; `closed`, whether points join to a polygon; `row_first`, whether
        the first feature is an image row, which grows downwards; `paths`, true where elements are paths, drawn by
        their ends. Which features are boxes is told by the data's description."""
        _, answers = self.scored_examples(0, self.protocol("quick"))[0]
        return default_axes(answers[0].shape[1])

    def protocol(self, name: str) -> Protocol:
        """The protocol of that name.

        Raises:
            SettingsError: there is none.
        """
        if name not in self.protocols:
            known = ", ".join(sorted(self.protocols))
            raise SettingsError(f"The task '{self.name}' has no protocol {name!r}. Known are: {known}.")
        return self.protocols[name]

    @property
    def score_name(self) -> str:
        """What the metric `score` measures, in words, for labels of pictures: `Chamfer distance to ...`."""
        return next((metric.text for metric in self.metrics if metric.name == "score"), "score")

    def shown_examples(self, seed: int) -> list[ShownExample]:
        """A few inputs to show in a report: the first that are scored, unless a task overrides it."""
        some = self.scored_examples(seed, self.protocol("quick"))[:SHOWN]
        return [shown_example(f"held-out example {number}", item) for number, item in enumerate(some, start=1)]

    def fingerprint(self) -> str | None:
        """A checksum of the data, where they could change between training and scoring."""
        return None

    def baseline_data(self) -> tuple[Dataset[Any], Dataset[Any]] | None:
        """The (input, set) pairs that baselines may use, for training and for validation; None, the default, where
        predictions are not compared with baselines."""
        return None

    def validation_batch(self, seed: int, count: int) -> Batch | None:
        """Up to `count` examples to choose settings by, neither trained nor scored on; None if there are none."""
        del seed, count
        return None

    def validation_score(self, setup: EvaluationSetup, examples: Batch) -> float:
        """A score, lower is better, by which weights and samplers are chosen: by default the mean energy score.

        By the distance to the truth alone, weights or samplers that always give the same answer would win. Return
        ``setup.mean_score(each)`` in an override whose score is a mean over examples: without the scores of each,
        `desp tune` takes the best sampler, however small the difference.

        Args:
            setup: what is scored; all samplers get the same seed. The expected energy score does not depend on
                `samples`, which must be at least 2.
            examples: from `validation_batch`.
        """
        return setup.mean_score(energy_scores_from_distances(setup.distances(examples, setup.samples)))

    def validation(self, seed: int) -> Callable[[SetPredictor], float] | None:
        """The score by which the best weights are kept, on the number of examples of the protocol `full`.

        None if the task has no validation data.
        """
        protocol = self.protocol("full")
        examples = self.validation_batch(seed, protocol.validation_examples)
        if examples is None:
            return None
        return lambda predictor: self.validation_score(EvaluationSetup(predictor, seed, 2, protocol), examples)

    def validation_by_example(self, seed: int) -> Callable[[SetPredictor], float | Tensor] | None:
        """A score for each validation example, for training that asks whether two checkpoints differ by more than
        noise; `validation`, with one score in all, unless a task overrides it."""
        return self.validation(seed)


class GeneratedTask(Task):
    """A task whose training data are drawn afresh for every batch."""

    data_label = "generated"
    protocols = MappingProxyType(
        {"full": replace(FULL, test_examples=(1000,)), "quick": replace(QUICK, test_examples=(200,))}
    )

    @abstractmethod
    def draw(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw a batch on the generator's device."""

    def shape(self, max_size: int | None, scaling: Scaled) -> tuple[DataShape, Tensor | None]:
        """The shapes of many drawn examples."""
        drawn = self.draw(DRAWN, make_generator("shape"))
        pairs = list(zip(drawn.x, drawn.sets.to_ragged(), strict=True))
        return inspect_dataset(pairs, max_size=max_size or drawn.sets.max_size, scaled=scaling)

    def scored_examples(self, seed: int, protocol: Protocol) -> Sequence[Example]:
        """Fresh examples."""
        batch = self.draw(protocol.test_examples[0] or DRAWN, make_generator(seed, "test"))
        return [(x, (y,)) for x, y in zip(batch.x, batch.sets.to_ragged(), strict=True)]

    def validation_batch(self, seed: int, count: int) -> Batch:
        """Fresh examples."""
        return self.draw(count, make_generator(seed, "validation"))

    def source(
        self, shape: DataShape, training: TrainingSettings, seed: int, accelerator: Accelerator
    ) -> BatchSource:
        """Fresh batches, made on the training device."""
        return DeviceSource(
            self.draw, training.batch_size_for(shape.max_size), seed, accelerator.device, accelerator.process_index
        )


def make_task(settings: TaskSettings, seed: int = 0) -> Task:
    """The task that `settings` name; `seed` decides which examples of a file are held out."""
    task: Task = settings.load()(settings, seed)
    return task
