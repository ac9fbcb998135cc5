"""What a predictor must know of its data: shapes, and the scaling of features."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from desp.data.base import collate
from desp.errors import DataError
from desp.scaling import FeatureScaling
from desp.settings import InputKind

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
    dataset: "Dataset[Any]",
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
    items: list[Any] = list(islice(_items(dataset), ITERABLE_EXAMPLES if not hasattr(dataset, "__len__") else None))
    if not items:
        raise DataError("The dataset is empty: it must hold at least one (input, set) pair.")
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


def _items(dataset: "Dataset[Any]") -> Iterable[Any]:
    if hasattr(dataset, "__len__"):
        return (dataset[index] for index in range(len(dataset)))
    return iter(dataset)  # type: ignore[call-overload]


def _statistics(x: Tensor, kind: InputKind) -> InputStatistics:
    if kind == "set":  # over present elements; presence itself stays 0 or 1
        rows = x[x[..., -1] > 0.5] if (x[..., -1] > 0.5).any() else x.flatten(0, 1)
    else:
        rows = x
    mean, deviation = rows.mean(dim=0), rows.std(dim=0, correction=0)
    if kind == "set":
        mean[-1], deviation[-1] = 0.0, 1.0
    if mean.dim() == 0:
        mean, deviation = mean.reshape(1), deviation.reshape(1)
    return InputStatistics(mean, torch.nan_to_num(deviation, nan=1.0))
