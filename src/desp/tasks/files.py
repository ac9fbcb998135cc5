"""A user's own data, with a part held out for scoring."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import Tensor

from desp.boxes import FARTHEST_NORMALISED
from desp.data.arrays import Example
from desp.data.base import Batch, BatchSource
from desp.data.box_annotations import class_names_beside
from desp.data.files import DataFile, read_data_file
from desp.errors import DataError
from desp.predictor import DataShape, inspect_dataset
from desp.predictor.fitting import dataset_source
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.settings import FilesSettings, TrainingSettings
from desp.tasks.base import Task
from desp.tasks.scoring import METRICS, Protocol


class FilesTask(Task):
    """Scores are those of `score_examples`, on the examples of a file that were kept apart."""

    name = "files"

    def __init__(self, settings: FilesSettings, seed: int) -> None:
        if not settings.path:
            raise DataError(
                "No data file was given. Pass --data FILE (JSON lines, npz, or a folder of npy files)."
            )
        self.path, self.held_out, self.seed = Path(settings.path), settings.held_out, seed
        self.description, self.data_label = settings.description, self.path.name
        self.image_size = settings.image_size
        if self.description.aligned:
            text = "Huber distance of elements to those of held-out sets"
            self.metrics = (replace(METRICS[0], text=text), *METRICS[1:])

    @cached_property
    def whole(self) -> DataFile:
        """All examples; read when first needed, so that predicting does not need the training file."""
        data = read_data_file(self.path, self.description, self.image_size)
        if len(data.examples) < 2:
            raise DataError(f"{self.path} holds one example; at least two are needed, one of them held out.")
        if self.image_size:
            self._require_normalised(data)
        return data

    def _require_normalised(self, data: DataFile) -> None:
        """Check that boxes are normalised by width and height: those in pixels would not fit squeezed images."""
        columns = [column for first, end in self.description.boxes for column in range(first, end)]
        sets = [y[:, columns] for _, answers in data.examples[:] for y in answers] if columns else []
        largest = max((float(y.max()) for y in sets if len(y)), default=0.0)
        if largest > FARTHEST_NORMALISED:
            raise DataError(
                f"{self.path}: a box reaches {largest:g}. Where images are squeezed (task.image_size), boxes must "
                "be normalised, from 0 to 1: divide them by the image's width and height."
            )

    @cached_property
    def parts(self) -> tuple[DataFile, DataFile, DataFile]:
        """Held out for scoring, held out for choosing the best weights, and the rest to train on.

        Validation and test examples are separate, so that scores are unbiased. Very few examples leave none to
        validate on.
        """
        total = len(self.whole.examples)
        order = torch.randperm(total, generator=make_generator(self.seed, "held out")).tolist()
        scored = min(max(1, round(self.held_out * total)), total - 1)
        chosen_by = min(scored, (total - scored) // 5, self.protocol("full").validation_examples)
        cuts = order[:scored], order[scored : scored + chosen_by], order[scored + chosen_by :]
        test, validation, training = (self.whole.part(indices) for indices in cuts)
        return test, validation, training

    def fingerprint(self) -> str:
        """A checksum of the data: scoring on others would mix training and held-out examples."""
        if not self.path.exists():
            raise DataError(f"There is no data file at {self.path}.")
        total = hashlib.blake2b(digest_size=16)
        for path in sorted(self.path.glob("*.npy")) if self.path.is_dir() else [self.path]:
            with path.open("rb") as file:
                hashlib.file_digest(file, lambda: total)
        return total.hexdigest()

    def shape(self, max_size: int | None, scaling: bool) -> tuple[DataShape, Tensor]:
        """Sizes and ranges of the whole file, so that held-out sets fit; means of the training part."""
        described = replace(self.description, input_kind=self.whole.input_kind, class_names=self._class_names())
        shape, _ = inspect_dataset(self.whole, max_size=max_size, scaling=scaling, description=described)
        _, statistics = inspect_dataset(
            self.parts[2], max_size=shape.max_size, features=shape.features, description=described
        )
        return shape, statistics

    def _class_names(self) -> tuple[str, ...]:
        """As described, else those beside the file, where they are as many as there are columns."""
        sizes = [end - first for first, end in self.description.categories[:1]]
        found = self.description.class_names or class_names_beside(self.path)
        return found if [len(found)] == sizes else ()

    def source(
        self, shape: DataShape, training: TrainingSettings, seed: int, accelerator: Accelerator
    ) -> BatchSource:
        """The examples that are not held out."""
        return dataset_source(self.parts[2], shape, training, seed, accelerator)

    def scored_examples(self, seed: int, protocol: Protocol) -> Sequence[Example]:
        """Those held out for scoring, all of them."""
        del seed, protocol
        return self.parts[0].examples

    def validation_batch(self, seed: int, count: int) -> Batch | None:
        """Validation examples."""
        del seed
        some = self.parts[1].examples[:count]
        if not some:
            return None
        sets = [answers[0] for _, answers in some]
        return Batch(torch.stack([x for x, _ in some]), SetBatch.from_ragged(sets, features=sets[0].shape[1]))
