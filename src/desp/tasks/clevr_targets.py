"""What is predicted of CLEVR's objects: their boxes, their states, or both; and what of it is scored."""

from collections.abc import Callable
from dataclasses import dataclass

from desp.data.clevr_boxes import BOX_FEATURES, STATE_CATEGORIES, STATE_FEATURES
from desp.metrics import Metric
from desp.metrics.average_precision import (
    AP_METRICS,
    STATE_METRICS,
    average_precision,
    state_average_precision,
)
from desp.scaling import FeatureScaling
from desp.settings import ClevrTarget, Columns, DataDescription, Scaled

# Ranges of centre x, centre y, width and height, normalised by the image's: those of all scenes by CLEVR's rules.
_BOX_RANGE = ((0.0, 0.0, 0.02, 0.02), (1.0, 1.0, 0.4, 0.5))
_STATE_RANGE = ((-1.0,) * 3 + (0.0,) * (STATE_FEATURES - 3), (1.0,) * STATE_FEATURES)
# Beside boxes, one-hot attributes are scaled to an interval of width 1/16: diffusion settles what is large first,
# so that boxes find their objects before attributes are read there. Else attributes would be settled while boxes
# are still noise.
_NARROW_STATE = ((-1.0,) * 3 + (-7.5,) * (STATE_FEATURES - 3), (1.0,) * 3 + (8.5,) * (STATE_FEATURES - 3))
_BOX_NAMES = ("left", "top", "right", "bottom")
_STATE_NAMES = ("x / 3", "y / 3", "z / 3", *(f"attribute {number + 1}" for number in range(STATE_FEATURES - 3)))


@dataclass(frozen=True)
class Target:
    """What the elements of sets hold.

    Attributes:
        task: name of the task, by what is scored.
        names: of the features.
        low, high: what is scaled to 0 and 1; boxes as centre and size.
        description: which features are boxes and categories.
        first_scored: the first feature that is scored; those before it say where an object is.
        metrics: AP at all thresholds.
        average_precision: computes them.
    """

    task: str
    names: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    description: DataDescription
    first_scored: int
    metrics: tuple[Metric, ...]
    average_precision: Callable[..., dict[float, float]]

    @property
    def features(self) -> int:
        """D."""
        return len(self.names)

    @property
    def boxes(self) -> Columns:
        """Columns of the boxes; none for states alone."""
        return self.description.boxes

    def scaling(self, wanted: Scaled) -> FeatureScaling:
        """From ranges to [0, 1], or none."""
        if not wanted:
            return FeatureScaling.identity(self.features)
        return FeatureScaling.from_range(self.low, self.high, boxes=self.boxes)


_AT_BOX = ((0, BOX_FEATURES),)

TARGETS: dict[ClevrTarget, Target] = {
    "boxes": Target(
        task="clevr-boxes",
        names=_BOX_NAMES,
        low=_BOX_RANGE[0],
        high=_BOX_RANGE[1],
        description=DataDescription(boxes=_AT_BOX),
        first_scored=0,
        metrics=AP_METRICS,
        average_precision=average_precision,
    ),
    "state": Target(
        task="clevr-state",
        names=_STATE_NAMES,
        low=_STATE_RANGE[0],
        high=_STATE_RANGE[1],
        description=DataDescription(categories=STATE_CATEGORIES),
        first_scored=0,
        metrics=STATE_METRICS,
        average_precision=state_average_precision,
    ),
    "objects": Target(
        task="clevr-state",
        names=_BOX_NAMES + _STATE_NAMES,
        low=_BOX_RANGE[0] + _NARROW_STATE[0],
        high=_BOX_RANGE[1] + _NARROW_STATE[1],
        description=DataDescription(
            boxes=_AT_BOX,
            categories=tuple((first + BOX_FEATURES, end + BOX_FEATURES) for first, end in STATE_CATEGORIES),
        ),
        first_scored=BOX_FEATURES,
        metrics=STATE_METRICS,
        average_precision=state_average_precision,
    ),
}
