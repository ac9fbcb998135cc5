"""Sets as arrays of points, and the window through which they are seen."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from desp.errors import RunError
from desp.runs.folder import WRITTEN_BY

Points = NDArray[np.float64]

# Predictions may leave the truth's window by this fraction of it; points farther out are counted, not drawn.
_REACH = 0.5
_MARGIN = 0.06
# Features share a scale unless one spans this many times the other: then they have different units.
_SAME_UNITS = 5.0


def as_points(value: Any) -> Points:
    """A set from a JSON file as (n, D); an empty one has shape (0, 0).

    Raises:
        RunError: not a list of equally long lists of numbers.
    """
    try:
        points = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise RunError(_not_a_set(str(error))) from error
    if points.size == 0:
        return np.zeros((0, 0))
    if points.ndim != 2:
        raise RunError(_not_a_set(f"got shape {points.shape}"))
    return points


def _not_a_set(reason: str) -> str:
    return (
        f"A set to draw is not a list of equally long lists of numbers: {reason}. If it is of a run folder, "
        f"delete its samples.json or evaluation.json and write it again with `{WRITTEN_BY['samples.json']}` or "
        f"`{WRITTEN_BY['evaluation.json']}`."
    )


def by_angle(points: Points) -> Points:
    """Order points by their angle around their centroid, so that a line through them is a simple polygon."""
    centred = points[:, :2] - points[:, :2].mean(axis=0)
    return points[np.argsort(np.arctan2(centred[:, 1], centred[:, 0]), kind="stable")]


@dataclass(frozen=True)
class Axes2D:
    """What the features of an element mean for a picture.

    Attributes:
        names: of the features; may be fewer than there are.
        closed: the points of a set are the corners of a polygon.
        row_first: the first feature is an image row, which grows downwards.
        boxes: columns (first, end) of left, top, right, bottom; None where elements are not boxes.
        categories: columns (first, end) of the one-hot class of a box.
        classes: their names; may be fewer than there are.
        extent: width and height of the image, in the units of boxes.
        numbers: how many columns come before the columns of categories; None where that is not known.
    """

    names: tuple[str, ...] = ()
    closed: bool = False
    row_first: bool = False
    boxes: tuple[int, int] | None = None
    categories: tuple[int, int] | None = None
    classes: tuple[str, ...] = ()
    extent: tuple[float, float] | None = None
    numbers: int | None = None

    @classmethod
    def from_samples(cls, samples: dict[str, Any]) -> "Axes2D":
        """Read the `axes` entry of samples.json; older files call `row_first` by the name `image_rows`."""
        axes = samples.get("axes") or {}
        names, classes = (tuple(str(name) for name in axes.get(key) or ()) for key in ("names", "classes"))
        boxes = _pair(axes.get("boxes"))
        row_first = boxes is None and bool(axes.get("row_first", axes.get("image_rows")))
        categories, extent = _pair(axes.get("categories")), _pair(axes.get("extent"))
        described = axes.get("features")
        numbers = None if described is None else sum(not item.get("classes") for item in described)
        return cls(names, bool(axes.get("closed")), row_first, boxes, categories, classes, extent, numbers)

    def name(self, feature: int) -> str:
        """The name of a feature, counted from 0."""
        return self.names[feature] if feature < len(self.names) else f"column {feature}"

    def across_and_up(self) -> tuple[int, int]:
        """Which features run across and up the picture."""
        return (1, 0) if self.row_first else (0, 1)

    @property
    def downwards(self) -> bool:
        """Whether what runs up the picture grows downwards, as in images."""
        return self.row_first or self.boxes is not None


def _pair(value: Any) -> tuple[Any, Any] | None:
    """Two numbers of a JSON file."""
    return (value[0], value[1]) if isinstance(value, list | tuple) and len(value) == 2 else None


def outside(points: Points, view: Points) -> int:
    """How many points a `window` does not show, NaN among them. Only drawn features count."""
    if len(points) == 0:
        return 0
    shown = points[:, : min(2, view.shape[1])]
    low, high = view[:, : shown.shape[1]]
    return int((~((shown >= low) & (shown <= high)).all(axis=1)).sum())


def window(truth: Iterable[Points], predictions: Iterable[Points]) -> Points:
    """What all panels of a picture show: all of the truth, and predictions unless they lie far from it.

    Returns:
        (2, D): smallest and largest shown value of each feature; D is 0 when no set has any element.
    """
    true, predicted = _stack(truth), _stack(predictions)
    if true.size == 0:
        true, predicted = predicted, true
    if true.size == 0:
        return np.zeros((2, 0))
    low, high = _range(true)
    if predicted.shape[1:] == true.shape[1:] and predicted.size:
        reach = _REACH * _extent(low, high)
        near = (predicted >= low - reach) & (predicted <= high + reach)
        low, high = _range(np.concatenate([true, np.where(near, predicted, np.nan)]))
    margin = _MARGIN * _extent(low, high)
    return np.stack(_square(low - margin, high + margin))


def _square(low: Points, high: Points) -> tuple[Points, Points]:
    """Widen the smaller of the first two ranges to the size of the larger, if they may share a scale."""
    size = (high - low)[:2]
    if len(size) < 2 or size.max() >= _SAME_UNITS * size.min():
        return low, high
    grow = np.zeros_like(low)
    grow[:2] = (size.max() - size) / 2
    return low - grow, high + grow


def _stack(sets: Iterable[Points]) -> Points:
    filled = [points for points in sets if len(points)]
    if not filled:
        return np.zeros((0, 0))
    features = min(points.shape[1] for points in filled)
    return np.concatenate([points[:, :features] for points in filled])


def _range(points: Points) -> tuple[Points, Points]:
    """Smallest and largest finite value of each feature; 0 and 1 where there is none."""
    finite = np.isfinite(points)
    low = np.where(finite, points, np.inf).min(axis=0)
    high = np.where(finite, points, -np.inf).max(axis=0)
    known = finite.any(axis=0)
    return np.where(known, low, 0.0), np.where(known, high, 1.0)


def _extent(low: Points, high: Points) -> Points:
    """Size of a range; of a single value its magnitude, at least 1."""
    size = high - low
    return np.where(size > 0, size, np.maximum(np.abs(high), 1.0))
