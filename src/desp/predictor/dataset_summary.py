"""Shapes and scales of a dataset, which is read once."""

import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from desp.categories import are_one_hot
from desp.data.base import EMPTY, Batch, collate, dataset_items, to_float
from desp.data.moments import Moments
from desp.data.outliers import Extremes, Ranges, outlier_findings
from desp.data.shape import DataShape
from desp.errors import DataError
from desp.predictor.checks import check_aligned_sizes, check_input_sets, check_scaled
from desp.scaling import FeatureScaling, box_centres
from desp.sets import as_set, presence_mask
from desp.settings import Columns, DataDescription, InputKind, Scaled

# Examples that are read of an iterable dataset, which may have no end.
ITERABLE_EXAMPLES = 10_000
ITEMS_AT_ONCE = 1000
# Numbers of inputs that are converted to float64 at the same time.
NUMBERS_AT_ONCE = 2**22
# Floats above this in images are probably bytes that were not divided by 255.
BRIGHTEST = 20.0
# If the range of a feature is a smaller fraction of its values than this, float32 hardly resolves it.
COARSEST = 1e-5

logger = logging.getLogger(__name__)


def inspect_dataset(
    dataset: "Dataset[Any] | Sequence[Any]",
    *,
    max_size: int | None = None,
    features: int | None = None,
    scaled: bool | str = True,
    description: DataDescription | None = None,
) -> tuple[DataShape, Tensor]:
    """Read a dataset of (input, set) pairs once, a part at a time, and tell its shapes and scales.

    Returns the shapes, and mean and standard deviation (2, ...) of the inputs, for sets of their elements. Warns
    of probable mistakes.

    Args:
        dataset: any torch dataset; of an iterable one the first 10,000 examples are read.
        max_size: allow sets up to this size; the largest seen if not given.
        features: of one element; those seen if not given.
        scaled: `RepresentationSettings.scaled`. True: features that leave [-.05, 1.05], or span less than .2,
            are scaled to [0, 1] by their range. ``standard``: all of them to mean 1/2 and standard deviation 1/4,
            but for categories and features of two values, which may be labels. False: none.
        description: what inputs and features are.

    Raises:
        DataError: empty, not pairs, ragged inputs, wrong feature counts, sets above `max_size`, NaN, or not as
            described.
        SettingsError: another value of `scaled`.
    """
    options = {
        "max_size": max_size,
        "features": features,
        "scaled": check_scaled(scaled),
        "description": description,
    }
    summary = summarise_dataset(dataset, **options)
    for finding in summary.findings():
        logger.warning(finding)
    return summary.shape(), summary.statistics()


def summarise_dataset(dataset: "Dataset[Any] | Sequence[Any]", **options: Any) -> "DatasetSummary":
    """The summary that `inspect_dataset` reads, with the same options and errors, but without warnings.

    Raises:
        DataError: as for `inspect_dataset`.
    """
    limit = ITERABLE_EXAMPLES if isinstance(dataset, IterableDataset) else None
    items = islice(dataset_items(dataset), limit)
    summary: DatasetSummary | None = None
    while part := list(islice(items, ITEMS_AT_ONCE)):
        summary = summary or DatasetSummary(part, **options)
        summary.add(part)
    if summary is None:
        raise DataError(EMPTY)
    return summary


class DatasetSummary:
    """Sizes, ranges and moments of examples, gathered part by part; the arguments are those of `inspect_dataset`.

    Args:
        first: the first examples, which are not added by this.
    """

    def __init__(
        self,
        first: list[Any],
        *,
        max_size: int | None = None,
        features: int | None = None,
        scaled: Scaled = True,
        description: DataDescription | None = None,
    ) -> None:
        description = description or DataDescription()
        self.max_size, self.description, self.scaled = max_size, description, scaled
        self._set_features(features or _features_of(first))
        probe = collate(first, max_size, self.features)
        self.input_shape = tuple(probe.x.shape[1:])
        by_shape: InputKind = "image" if len(self.input_shape) == 3 else "vector"
        self.kind: InputKind = "set" if description.aligned else description.input_kind or by_shape
        self.scaled_boxes: Columns = description.boxes if scaled else ()
        self.largest = self.examples = 0
        self.moments = Moments()
        if not probe.x[0].numel():
            raise DataError(f"An input of shape {self.input_shape} holds no numbers. Pass at least one.")
        columns = self.input_shape[-1] if self.kind == "set" else probe.x[0].numel()
        self.inputs = None if self.kind == "image" else Extremes(columns)
        self.brightest = 0.0
        self.first, self.all_equal = (probe.x[0].cpu(), probe.sets.to_ragged()[0].cpu()), True

    def _set_features(self, features: int | None) -> None:
        """Set D; None: all sets so far are empty, so it is still unknown, and 1 stands for it."""
        self.features_known = features is not None
        self.features = features or 1
        if self.features_known:
            self.description.check_features(self.features)
        self.ranges, self.elements = Ranges(self.features), Extremes(self.features)

    def add(self, items: list[Any]) -> None:
        """Add examples."""
        if not self.features_known:
            self._set_features(_features_of(items))
        batch = collate(items, self.max_size, self.features, self.examples)
        if tuple(batch.x.shape[1:]) != self.input_shape:
            raise DataError(
                f"All inputs must have the same shape, got {self.input_shape} and {tuple(batch.x.shape[1:])}."
            )
        if self.kind == "set":
            self._check_kind(batch)
        numbers = torch.arange(self.examples, self.examples + len(items))
        self.examples += len(items)
        self.all_equal = self.all_equal and _all_equal(batch, *self.first)
        self.largest = max(self.largest, batch.sets.max_size)
        elements = batch.sets.elements[batch.sets.mask].double().cpu()
        if len(elements):
            _check_elements(elements, self.description)
            elements = box_centres(elements, self.scaled_boxes)
            self.ranges.add(elements)
            self.elements.add(elements, numbers.repeat_interleave(batch.sets.sizes.cpu()))
        self._add_inputs(batch.x.cpu(), numbers)

    def _add_inputs(self, x: Tensor, numbers: Tensor) -> None:
        at_once = max(1, NUMBERS_AT_ONCE // max(x[0].numel(), 1))
        for some, examples in zip(x.split(at_once), numbers.split(at_once), strict=True):
            values = _as_the_network_gets(some)
            rows = values[presence_mask(values)] if self.kind == "set" else values
            self.moments.add(rows)
            if self.inputs is None:
                self.brightest = max(self.brightest, float(values.abs().max()))
                continue
            owners = presence_mask(values).nonzero()[:, 0] if self.kind == "set" else torch.arange(len(values))
            self.inputs.add(rows.reshape(-1, self.inputs.sample.shape[1]), examples[owners])

    def _check_kind(self, batch: Batch) -> None:
        if batch.x.dim() != 3:
            raise DataError(
                "Inputs that are sets must be padded, (N, D + 1) with presence last; got inputs of shape "
                f"{self.input_shape}."
            )
        check_input_sets(batch.x, self.description.aligned, self.examples)
        if self.description.aligned:
            check_aligned_sizes(batch.x, batch.sets, self.examples)

    def shape(self) -> DataShape:
        """The shapes of all examples."""
        if not torch.isfinite(self.ranges.low).all():
            raise DataError("Every set of the dataset is empty, so there is nothing to learn.")
        scaling = FeatureScaling.identity(self.features)
        if self.scaled:
            limits = {item.feature: (item.low, item.high) for item in self.elements.outliers()}
            low, high = self.ranges.low.tolist(), self.ranges.high.tolist()
            for column, ends in limits.items():
                low[column], high[column] = ends
            scaling = FeatureScaling.from_range(low, high, self.scaled_boxes)
            if self.scaled == "standard":
                mean, deviation = (item.tolist() for item in self.elements.winsorised_moments())
                scaling = FeatureScaling.from_moments(mean, deviation, scaling, self._standardised())
            scaling = scaling.clipped(limits)
        return DataShape(
            input_shape=self.input_shape or (1,),
            features=self.features,
            max_size=self.input_shape[0] if self.description.aligned else self.largest,
            scaling=scaling,
            input_kind=self.kind,
            description=self.description,
        )

    def _standardised(self) -> list[int]:
        """The columns of elements that are no categories and have more than two different values: labels such as 0
        and 1 are not standardised."""
        kinds = {column for first, end in self.description.categories for column in range(first, end)}
        return [
            column for column in self.ranges.more_than_two_values.nonzero()[:, 0].tolist() if column not in kinds
        ]

    def statistics(self) -> Tensor:
        """Mean and standard deviation (2, ...) of all inputs."""
        mean, deviation = self.moments.mean(), self.moments.deviation()
        if self.inputs is not None and (far := self.inputs.outliers()):
            mean, deviation = (moment.reshape(mean.shape) for moment in self.inputs.moments_without(far))
        if self.kind == "set":  # presence stays 0 or 1
            mean[-1], deviation[-1] = 0.0, 1.0
        # Inputs that are numbers are taken as vectors of one.
        return torch.stack([torch.atleast_1d(mean), torch.atleast_1d(deviation)]).to(torch.get_default_dtype())

    def constant_inputs(self) -> dict[int, float]:
        """The columns of inputs, or of their elements, that never change, with their values; none of images."""
        columns = 0 if self.inputs is None else self.inputs.sample.shape[1] - (self.kind == "set")  # no presence
        found = {} if self.inputs is None else self.inputs.constant()
        return {column: value for column, value in found.items() if column < columns}

    def findings(self, name_of: Callable[[int], str] = "example {}".format) -> list[str]:
        """Probable mistakes, a sentence or two each; `name_of` names an example by its number."""
        found = (
            outlier_findings(self.elements.outliers(), "column {} of an element", name_of) if self.scaled else []
        )
        if self.inputs is not None:
            found += outlier_findings(self.inputs.outliers(), "column {} of the input", name_of)
        if self.examples > 1 and self.all_equal:
            found.append(f"All {self.examples} examples are equal, so there is nothing to learn but one set.")
        if self.brightest > BRIGHTEST:
            found.append(
                f"Images hold floats up to {self.brightest:g}. Pass bytes (uint8), or divide by 255: intensities "
                "from 0 to 1 are what encoders expect."
            )
        for column, (low, high) in enumerate(torch.stack([self.ranges.low, self.ranges.high], dim=1).tolist()):
            if low < high < low + COARSEST * max(abs(low), abs(high)):
                found.append(
                    f"Column {column} of elements goes from {low:.10g} to {high:.10g}: so large and alike that "
                    "float32 hardly tells values apart. Subtract a constant first."
                )
        return found


def _as_the_network_gets(x: Tensor) -> Tensor:
    """Inputs in float64, rounded to the precision of the weights first, so that statistics are those of what the
    network gets. Bytes become intensities, without rounding."""
    rounded = x.to(torch.get_default_dtype()) if x.is_floating_point() else x
    return to_float(rounded, torch.float64)


def _all_equal(batch: Batch, x: Tensor, elements: Tensor) -> bool:
    """Whether all examples have this input and this set."""
    if not bool((batch.x.cpu() == x).all()) or not bool((batch.sets.sizes == len(elements)).all()):
        return False
    return bool((batch.sets.elements.cpu()[:, : len(elements)] == elements).all())


def _features_of(items: list[Any]) -> int | None:
    """The features of the first set that is not empty; None if all are empty."""
    for index, item in enumerate(items):
        pair = isinstance(item, list | tuple) and len(item) == 2
        if pair and len(elements := as_set(item[1], f"set {index}")):
            return elements.shape[1]
    return None


def _check_elements(elements: Tensor, description: DataDescription) -> None:
    """Check that features (n, D) are what they are described as.

    Raises:
        DataError: categories are not one-hot, or a box ends before it begins.
    """
    if not are_one_hot(elements, description.categories):
        raise DataError(
            f"The features in columns {description.categories} (categories) must be one-hot: a single 1 and "
            "zeros. Write each kind as a column of its own."
        )
    for first, _ in description.boxes:
        left, top, right, bottom = elements[:, first : first + 4].unbind(dim=1)
        if bool(((right < left) | (bottom < top)).any()):
            raise DataError(
                f"The features in columns {first} to {first + 3} (boxes) must be left, top, right, bottom, but a "
                "right side lies left of a left one, or a bottom above a top."
            )
