"""What a predictor must know of its data: shapes, and the scaling of features."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from desp.categories import Groups, are_one_hot, check_groups
from desp.data.base import EMPTY, DatasetSource, collate, dataset_items
from desp.errors import DataError
from desp.scaling import FeatureScaling
from desp.sets import as_set
from desp.settings import InputKind, TrainingSettings

# An iterable dataset may have no end; this many of its examples must do.
ITERABLE_EXAMPLES = 10_000
ITEMS_AT_ONCE = 1000


@dataclass(frozen=True)
class DataShape:
    """Shapes of inputs and sets.

    Attributes:
        input_shape: of one input.
        features: D, of one element.
        max_size: N, the largest set.
        scaling: of element features; the identity if empty.
        input_kind: which input encoder suits, where the user brings none.
    """

    input_shape: tuple[int, ...]
    features: int
    max_size: int
    scaling: FeatureScaling = field(default=FeatureScaling((), ()))
    input_kind: InputKind = "vector"

    def __post_init__(self) -> None:
        if not self.scaling.offset:
            object.__setattr__(self, "scaling", FeatureScaling.identity(self.features))

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "DataShape":
        """The inverse of `to_json` for shapes."""
        scaling = FeatureScaling(tuple(values["scaling"]["offset"]), tuple(values["scaling"]["span"]))
        input_shape = tuple(values["input_shape"])
        return cls(input_shape, values["features"], values["max_size"], scaling, values["input_kind"])


@dataclass(frozen=True)
class InputStatistics:
    """Mean and deviation of the inputs, of the shape of one input (of one element, for sets)."""

    mean: Tensor
    deviation: Tensor


def inspect_dataset(
    dataset: "Dataset[Any] | Sequence[Any]",
    *,
    max_size: int | None = None,
    features: int | None = None,
    scaling: bool = True,
    input_kind: InputKind | None = None,
    categories: Groups = (),
) -> tuple[DataShape, InputStatistics]:
    """Read a dataset of (input, set) pairs once, a part at a time, and tell its shapes and scales.

    Args:
        dataset: any torch dataset; of an iterable one the first 10,000 examples are read.
        max_size: allow sets up to this size; the largest seen if not given.
        features: of one element; those seen if not given.
        scaling: whether features that are not near [0, 1] shall be scaled to it.
        input_kind: what inputs are; guessed from their shape if not given.
        categories: column ranges that must be one-hot.

    Raises:
        DataError: empty, not pairs, ragged inputs, wrong feature counts, sets above `max_size`, NaN, categories
            that are not one-hot.
    """
    limit = ITERABLE_EXAMPLES if isinstance(dataset, IterableDataset) else None
    items = islice(dataset_items(dataset), limit)
    summary: _Summary | None = None
    while part := list(islice(items, ITEMS_AT_ONCE)):
        summary = summary or _Summary(part, max_size, features, input_kind, categories)
        summary.add(part)
    if summary is None:
        raise DataError(EMPTY)
    return summary.shape(scaling), summary.statistics()


class _Summary:
    """Sizes, ranges and moments of examples, gathered part by part."""

    def __init__(
        self,
        first: list[Any],
        max_size: int | None,
        features: int | None,
        kind: InputKind | None,
        categories: Groups,
    ) -> None:
        probe = collate(first, max_size, features or _features_of(first))
        self.max_size, self.features = max_size, probe.sets.features
        check_groups(categories, self.features)
        self.categories = categories
        self.input_shape = tuple(probe.x.shape[1:])
        self.kind: InputKind = kind or ("image" if len(self.input_shape) == 3 else "vector")
        self.largest = 0
        self.low = torch.full((self.features,), torch.inf, dtype=torch.float64)
        self.high = -self.low
        self.count, self.total, self.squares = 0, torch.zeros(()), torch.zeros(())

    def add(self, items: list[Any]) -> None:
        """Take in some examples."""
        batch = collate(items, self.max_size, self.features)
        if tuple(batch.x.shape[1:]) != self.input_shape:
            raise DataError(
                f"All inputs must have the same shape, got {self.input_shape} and {tuple(batch.x.shape[1:])}."
            )
        self.largest = max(self.largest, batch.sets.max_size)
        elements = batch.sets.elements[batch.sets.presence].double().cpu()
        if not are_one_hot(elements, self.categories):
            raise DataError(
                f"The features in columns {tuple(self.categories)} (categories) must be one-hot: a single 1 and "
                "zeros. Write each kind as a column of its own."
            )
        if len(elements):
            self.low = torch.minimum(self.low, elements.amin(dim=0))
            self.high = torch.maximum(self.high, elements.amax(dim=0))
        rows = _input_rows(batch.x.double().cpu(), self.kind)
        self.count += len(rows)
        self.total, self.squares = self.total + rows.sum(dim=0), self.squares + rows.square().sum(dim=0)

    def shape(self, scaling: bool) -> DataShape:
        """The shapes of all examples."""
        if not torch.isfinite(self.low).all():
            raise DataError("Every set of the dataset is empty, so there is nothing to learn.")
        ranges = self.low.tolist(), self.high.tolist()
        return DataShape(
            input_shape=self.input_shape or (1,),
            features=self.features,
            max_size=self.largest,
            scaling=FeatureScaling.from_range(*ranges) if scaling else FeatureScaling.identity(self.features),
            input_kind=self.kind,
        )

    def statistics(self) -> InputStatistics:
        """Mean and deviation of all inputs."""
        mean = self.total / max(self.count, 1)
        deviation = (self.squares / max(self.count, 1) - mean.square()).clamp(min=0).sqrt()
        if self.kind == "set":  # presence itself stays 0 or 1
            mean[-1], deviation[-1] = 0.0, 1.0
        shape = (-1,) if mean.dim() else (1,)
        default = torch.get_default_dtype()
        return InputStatistics(
            mean.reshape(shape if mean.dim() < 2 else mean.shape).to(default),
            deviation.reshape(shape if mean.dim() < 2 else mean.shape).to(default),
        )


def _features_of(items: list[Any]) -> int | None:
    """The features of the first set that is not empty; `collate` needs them where all of a part are."""
    for item in items:
        if isinstance(item, Sequence) and len(item) == 2 and len(item[1]):
            return as_set(item[1]).shape[1]
    return 1 if items else None


def _input_rows(x: Tensor, kind: InputKind) -> Tensor:
    """What means are taken over: inputs, or for sets their present elements."""
    return x[x[..., -1] > 0.5] if kind == "set" else x


def dataset_source(
    dataset: "Dataset[Any] | Sequence[Any]",
    shape: DataShape,
    training: TrainingSettings,
    seed: int,
    accelerator: Accelerator,
) -> DatasetSource:
    """The batches of a dataset for one of the accelerator's processes."""
    return DatasetSource(
        dataset,
        training.batch_size,
        max_size=shape.max_size,
        features=shape.features,
        seed=seed,
        process=accelerator.process_index,
        processes=accelerator.num_processes,
        workers=training.data_workers,
    )
