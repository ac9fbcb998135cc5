"""A user's own data, with a part held out for scoring."""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import Tensor

from desp.boxes import FARTHEST_NORMALISED
from desp.data.arrays import Example
from desp.data.base import Batch, BatchSource
from desp.data.box_annotations import class_names_beside
from desp.data.files import DataFile, files_of, read_data_file
from desp.data.splitting import FEW_INPUTS, group_by_input, take_groups
from desp.errors import DataError
from desp.predictor import DataShape, SetPredictor
from desp.predictor.dataset_summary import DatasetSummary, summarise_dataset
from desp.predictor.energy_score import energy_scores_from_distances
from desp.predictor.fitting import dataset_source
from desp.randomness import make_generator
from desp.settings import DataDescription, FilesSettings, Scaled, TrainingSettings
from desp.tasks.base import Task, first_answers
from desp.tasks.scoring import EvaluationSetup, Protocol, metrics_of

# With more examples than this, `answers_hint` does not read them again.
MOST_READ_AGAIN = 20_000
# Predicted sets in a validation, and the most for one example.
VALIDATION_SETS = 400
MOST_VALIDATION_SAMPLES = 16
# The most elements that are predicted in a validation: where sets are large, fewer sets are predicted, but for at
# least FEWEST_VALIDATED examples.
VALIDATION_ELEMENTS = 20_000
FEWEST_VALIDATED = 20

logger = logging.getLogger(__name__)


SetKey = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class AnswersHint:
    """Whether more than one set seems right for an input.

    Attributes:
        inputs: number of inputs with more than one set.
        differing: number of these whose sets differ.
    """

    inputs: int
    differing: int

    @property
    def several(self) -> bool:
        """Whether more than one set seems right."""
        return self.differing > 0

    @property
    def text(self) -> str:
        """The numbers in words."""
        return f"of {self.inputs} inputs with more than one set, {self.differing} have sets that differ"


class FilesTask(Task):
    """A user's file. The default scores, of `score_examples`, on the examples that are held out."""

    name = "files"

    def __init__(self, settings: FilesSettings, seed: int) -> None:
        if not settings.path:
            raise DataError(
                "No data file was given. Pass --data FILE: JSON lines, Parquet, Arrow, npz, or a folder of tables "
                "or npy files."
            )
        self.path, self.held_out, self.seed = Path(settings.path), settings.held_out, seed
        self.set_column, self.id_column = settings.set_column, settings.id_column
        self.description, self.data_label = settings.description, self.path.name
        self.image_size, self.split = settings.image_size, settings.split
        self.metrics = metrics_of(self.description.aligned)

    @cached_property
    def whole(self) -> DataFile:
        """All examples; read when first needed, so that predicting does not need the training file."""
        data = read_data_file(
            self.path, self.description, self.image_size, set_column=self.set_column, id_column=self.id_column
        )
        if len(data.examples) < 2:
            raise DataError(f"{self.path} holds one example; at least two are needed, one of them held out.")
        if self.image_size:
            self._require_normalised(data)
        return data

    def _require_normalised(self, data: DataFile) -> None:
        """Check that boxes are normalised by width and height: those in pixels would not fit resized images."""
        columns = [column for first, end in self.description.boxes for column in range(first, end)]
        sets = [y[:, columns] for _, answers in data.examples[:] for y in answers] if columns else []
        largest = max((float(y.max()) for y in sets if len(y)), default=0.0)
        if largest > FARTHEST_NORMALISED:
            raise DataError(
                f"{self.path}: a box reaches {largest:g}. Where images are resized (task.image_size), boxes must "
                "be normalised, from 0 to 1: divide them by the image's width and height."
            )

    @cached_property
    def parts(self) -> tuple[DataFile, DataFile, DataFile]:
        """Held out for scoring, held out for choosing the best weights, and the rest to train on.

        Validation and test examples are separate, so that scores are unbiased. Examples of equal inputs are in one
        part, unless all inputs are equal or `task.split` is "examples". Very few examples leave none to
        validate on.
        """
        total = len(self.whole.examples)
        order = torch.randperm(total, generator=make_generator(self.seed, "held out")).tolist()
        scored = min(max(1, round(self.held_out * total)), total - 1)
        groups = list(range(total)) if self.distinct_inputs == 1 or self.split == "examples" else self.groups
        test, rest = take_groups(order, groups, scored, at_least_one=True)
        validation_count = min(scored, len(rest) // 5, self.protocol("full").validation_examples)
        validation, training = take_groups(rest, groups, validation_count, at_least_one=False)
        return self.whole.part(test), self.whole.part(validation), self.whole.part(training)

    @cached_property
    def groups(self) -> list[int]:
        """For each example the number of the first example with an equal input."""
        inputs = (x for x, _ in (self.whole.examples[index] for index in range(len(self.whole.examples))))
        return group_by_input(inputs, self.whole.input_kind, ordered=self.description.aligned)

    @property
    def distinct_inputs(self) -> int:
        """How many different inputs there are."""
        return len(set(self.groups))

    def split_findings(self) -> list[str]:
        """Sentences on how the file was read and split that a user should know before trusting scores."""
        total, (test, validation, training) = len(self.whole.examples), self.parts
        found = list(self.whole.notes)
        if self.split == "inputs" and 1 < self.distinct_inputs < min(FEW_INPUTS, total):
            found.append(
                f"{self.path}: there are only {self.distinct_inputs} different inputs, and those held out are "
                "never trained on. If inputs are a few labels, split example by example: --task.split examples"
            )
        if round(self.held_out * total) == 0:
            are = "is" if len(test.examples) == 1 else "are"
            found.append(
                f"task.held_out = {self.held_out:g} of {total} examples is none. {len(test.examples)} {are} held "
                "out, the fewest possible."
            )
        if 2 * len(training.examples) < total:
            found.append(
                f"Only {len(training.examples)} of {total} examples are left to train on; {len(test.examples)} "
                f"are held out for scores and {len(validation.examples)} for validation. Lower --task.held-out."
            )
        return found

    def answers_hint(self) -> AnswersHint | None:
        """Whether inputs with more than one set have different ones; None if there are no such inputs, or too many
        examples to read."""
        if len(self.whole.examples) > MOST_READ_AGAIN:
            return None
        of_input: dict[int, set[SetKey]] = {}
        seen, order = Counter(self.groups), list if self.description.aligned else sorted
        for index, first in enumerate(self.groups):
            if seen[first] > 1 or self.whole.answer_counts[index] > 1:
                _, answers = self.whole.examples[index]
                keys = {tuple(order(map(tuple, elements.tolist()))) for elements in answers}
                of_input.setdefault(first, set()).update(keys)
        return AnswersHint(len(of_input), sum(len(found) > 1 for found in of_input.values())) if of_input else None

    def fingerprint(self) -> str:
        """A checksum of the data: scoring on others would mix training and held-out examples."""
        total = hashlib.blake2b(digest_size=16)
        for path in files_of(self.path):
            with path.open("rb") as file:
                hashlib.file_digest(file, lambda: total)
        return total.hexdigest()

    def shape(self, max_size: int | None, scaling: Scaled) -> tuple[DataShape, Tensor]:
        """Sizes and ranges of the whole file, so that held-out sets fit; means of the training part."""
        described, whole = self._described(), self.summary(max_size, scaling)
        for finding in (*whole.findings(self.whole.name_of), *self.split_findings()):
            logger.warning(finding)
        logger.info("%d examples have %d different inputs", len(self.whole.examples), self.distinct_inputs)
        shape = whole.shape()
        training = summarise_dataset(
            self.parts[2], max_size=shape.max_size, features=shape.features, description=described
        )
        return shape, training.statistics()

    def summary(self, max_size: int | None = None, scaling: Scaled = True) -> DatasetSummary:
        """Sizes, ranges and moments of the whole file."""
        return summarise_dataset(self.whole, max_size=max_size, scaled=scaling, description=self._described())

    def _described(self) -> DataDescription:
        return replace(self.whole.description, input_kind=self.whole.input_kind, class_names=self._class_names())

    def _class_names(self) -> tuple[str, ...]:
        """The names in the description, else in the file beside the data, if their number fits the columns."""
        described = self.whole.description
        sizes = [end - first for first, end in described.categories[:1]]
        found = described.class_names or class_names_beside(self.path)
        return found if [len(found)] == sizes else ()

    def source(
        self, shape: DataShape, training: TrainingSettings, seed: int, accelerator: Accelerator
    ) -> BatchSource:
        """The examples that are not held out."""
        return dataset_source(self.parts[2], shape, training, seed, accelerator)

    def training_examples(self) -> int:
        """The number of examples that are not held out."""
        return len(self.parts[2].examples)

    def scored_examples(self, seed: int, protocol: Protocol) -> Sequence[Example]:
        """All examples that are held out for scoring."""
        del seed, protocol
        return self.parts[0].examples

    def baseline_data(self) -> tuple[DataFile, DataFile]:
        """All that is not held out for scoring."""
        _, validation, training = self.parts
        return training, validation

    def validation_by_example(self, seed: int) -> Callable[[SetPredictor], Tensor] | None:
        """Energy scores of each validation example, with the same noise at every call, so that most of it cancels
        in the difference of two checkpoints. Fewer examples get more predictions."""
        protocol = self.protocol("full")
        largest = max((len(y) for _, answers in self.parts[1].examples[:] for y in answers), default=1)
        affordable = max(VALIDATION_ELEMENTS // max(2 * largest, 1), FEWEST_VALIDATED)
        examples = self.validation_batch(seed, min(protocol.validation_examples, affordable))
        if examples is None:
            return None
        sets = min(VALIDATION_SETS, VALIDATION_ELEMENTS // max(largest, 1))
        samples = min(max(2, sets // len(examples.x)), MOST_VALIDATION_SAMPLES)
        return lambda predictor: energy_scores_from_distances(
            EvaluationSetup(predictor, seed, samples, protocol).distances(examples, samples)
        )

    def validation_batch(self, seed: int, count: int) -> Batch | None:
        """Validation examples."""
        del seed
        return first_answers(self.parts[1].examples[:count])
