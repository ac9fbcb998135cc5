"""What a predictor must know of its data: shapes, and the scaling of features."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor
from torch.utils.data import Dataset

from desp.data.base import EMPTY, DatasetSource, collate
from desp.errors import DataError
from desp.scaling import FeatureScaling
from desp.settings import InputKind, TrainingSettings

# An iterable dataset may have no end; this many of its examples must do.
ITERABLE_EXAMPLES = 10_000


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


@dataclass(frozen=True)
class InputStatistics:
    """Mean and deviation of the inputs, of the shape of one input (of one element, for sets)."""

    mean: Tensor
    deviation: Tensor


def inspect_dataset(
    dataset: "Dataset[Any] | Sequence[Any]",
    *,
    max_size: int | None = None,
    scaling: bool = True,
    input_kind: InputKind | None = None,
) -> tuple[DataShape, InputStatistics]:
    """Read a dataset of (input, set) pairs once, and tell its shapes and scales.

    Args:
        dataset: any torch dataset; of an iterable one the first 10,000 examples are read.
        max_size: allow sets up to this size; the largest seen if not given.
        scaling: whether features that are not near [0, 1] shall be scaled to it.
        input_kind: what inputs are; guessed from their shape if not given.

    Raises:
        DataError: empty, not pairs, ragged inputs, wrong feature counts, sets above `max_size`, NaN.
    """
    items: list[Any] = list(
        islice(_items(dataset), ITERABLE_EXAMPLES if not hasattr(dataset, "__len__") else None)
    )
    if not items:
        raise DataError(EMPTY)
    batch = collate(items, max_size)
    if batch.sets.max_size == 0 or not batch.sets.presence.any():
        raise DataError("Every set of the dataset is empty, so there is nothing to learn.")
    elements = batch.sets.elements[batch.sets.presence]
    low, high = elements.amin(dim=0).tolist(), elements.amax(dim=0).tolist()
    features = batch.sets.features
    input_shape = tuple(batch.x.shape[1:])
    kind = input_kind or ("image" if len(input_shape) == 3 else "vector")
    shape = DataShape(
        input_shape=input_shape or (1,),
        features=features,
        max_size=batch.sets.max_size,
        scaling=FeatureScaling.from_range(low, high) if scaling else FeatureScaling.identity(features),
        input_kind=kind,
    )
    return shape, _statistics(batch.x, kind)


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


def _items(dataset: "Dataset[Any] | Sequence[Any]") -> Iterable[Any]:
    if hasattr(dataset, "__len__"):
        return (dataset[index] for index in range(len(dataset)))
    return iter(dataset)


def _statistics(x: Tensor, kind: InputKind) -> InputStatistics:
    rows = x
    if kind == "set":  # over present elements; presence itself stays 0 or 1
        present = x[..., -1] > 0.5
        rows = x[present] if present.any() else x.flatten(0, 1)
    mean, deviation = rows.mean(dim=0), rows.std(dim=0, correction=0)
    if kind == "set":
        mean[-1], deviation[-1] = 0.0, 1.0
    if mean.dim() == 0:
        mean, deviation = mean.reshape(1), deviation.reshape(1)
    return InputStatistics(mean, torch.nan_to_num(deviation, nan=1.0))
