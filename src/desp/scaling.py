"""Features brought near [0, 1], where the paper's noise and step sizes are right, and back."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from desp.boxes import centres_to_corners, corners_to_centres
from desp.constants import constant
from desp.settings import Columns
from desp.tensors import LARGEST

# A feature counts as near [0, 1] when it stays within these bounds and spans a fair part of them.
LOWEST, HIGHEST, NARROWEST = -0.05, 1.05, 0.2
# A standardised unit is 4 standard deviations; it is widened until the range is at most about this many units.
MAX_RANGE_IN_UNITS = 100


@dataclass(frozen=True)
class FeatureScaling:
    """An affine map for each feature: scaled = (value - offset) / span.

    Attributes:
        offset, span: of each feature.
        boxes: columns of boxes, which are scaled as centre, width and height: the corners of a box are strongly
            correlated, centre and size are not, and sizes span a smaller range than positions.
        lowest, highest: of each feature; values are clipped to these, unless they are empty. Only data with
            outliers have them.
    """

    offset: tuple[float, ...]
    span: tuple[float, ...]
    boxes: Columns = ()
    lowest: tuple[float, ...] = ()
    highest: tuple[float, ...] = ()

    @classmethod
    def identity(cls, features: int) -> "FeatureScaling":
        """The map that changes nothing."""
        return cls((0.0,) * features, (1.0,) * features)

    @classmethod
    def from_range(cls, low: Sequence[float], high: Sequence[float], boxes: Columns = ()) -> "FeatureScaling":
        """Map features that leave [-.05, 1.05], or span less than .2, from [low, high] to [0, 1].

        A feature that never changes is moved to 1/2, keeping its unit. Columns of `boxes` have the ranges of
        centre, width and height (`box_centres`), and are always mapped.
        """
        offset, span = [], []
        of_boxes = {column for first, end in boxes for column in range(first, end)}
        for column, (lowest, highest) in enumerate(zip(low, high, strict=True)):
            width = highest - lowest
            near = lowest >= LOWEST and highest <= HIGHEST and width >= NARROWEST and column not in of_boxes
            unchanging = width <= 1e-12 * max(abs(lowest), abs(highest))
            offset.append(0.0 if near else lowest - 0.5 if unchanging else lowest)
            span.append(1.0 if near or unchanging else width)
        return cls(tuple(offset), tuple(span), boxes)

    @classmethod
    def from_moments(
        cls, mean: Sequence[float], deviation: Sequence[float], ranges: "FeatureScaling", columns: Iterable[int]
    ) -> "FeatureScaling":
        """Map the features in `columns` to mean 1/2 and standard deviation 1/4, others as `ranges` does.

        The whole range becomes at most about `MAX_RANGE_IN_UNITS`, so that no value is thrown out of all bounds. A
        feature that never changes stays as in `ranges`.
        """
        offset, span = list(ranges.offset), list(ranges.span)
        for column in columns:
            if deviation[column] > 0:
                span[column] = max(4 * deviation[column], ranges.span[column] / MAX_RANGE_IN_UNITS)
                offset[column] = mean[column] - span[column] / 2
        return replace(ranges, offset=tuple(offset), span=tuple(span))

    def scale(self, values: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        """From the user's units to about [0, 1]."""
        offset, span = self._tensors(values)
        values = box_centres(values, self.boxes)
        if self.lowest:
            low, high = (constant(ends, values.device, values.dtype) for ends in (self.lowest, self.highest))
            values = values.clamp(low, high)
        return (values - offset) / span

    def clipped(self, limits: Mapping[int, tuple[float, float]]) -> "FeatureScaling":
        """The same map, with features clipped to `limits`: (lowest, highest) by column."""
        ends = [limits.get(column, (-LARGEST, LARGEST)) for column in range(len(self.span))]
        lowest, highest = zip(*ends, strict=True)
        return replace(self, lowest=lowest, highest=highest) if limits else self

    def unscale(self, values: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        """From about [0, 1] to the user's units."""
        offset, span = self._tensors(values)
        return _converted(values * span + offset, self.boxes, centres_to_corners)

    def _tensors(self, like: Tensor) -> tuple[Tensor, Tensor]:
        return constant(self.offset, like.device, like.dtype), constant(self.span, like.device, like.dtype)


def box_centres(values: Float[Tensor, "*batch d"], boxes: Columns) -> Float[Tensor, "*batch d"]:
    """The features with centre x, centre y, width, height in the columns of boxes, in place of corners."""
    return _converted(values, boxes, corners_to_centres)


def _converted(values: Tensor, boxes: Columns, convert: Callable[[Tensor], Tensor]) -> Tensor:
    for first, end in boxes:
        values = torch.cat([values[..., :first], convert(values[..., first:end]), values[..., end:]], dim=-1)
    return values
