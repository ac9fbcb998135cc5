"""Detections that a predictor makes, as they are scored."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.distances import match_boxes
from desp.metrics.box_samples import (
    CONFIDENCE_ECE,
    HIDDEN_RECALL,
    HIDDEN_RECALL_OF_5,
    MATCH_IOU,
    confidence_calibration,
    recall_within,
)
from desp.predictor.box_fusion import pool_batch
from desp.sets import SetBatch

# An object counts as mostly hidden where at most this share of it is visible.
MOSTLY_HIDDEN = 0.3


@dataclass(frozen=True)
class Detections:
    """Detections in M images, N slots each.

    Attributes:
        elements: in the units of the data.
        confidence: ranks all detections of all images.
        detected: which slots are detections.
    """

    elements: Float[Tensor, "m n d"]
    confidence: Float[Tensor, "m n"]
    detected: Bool[Tensor, "m n"]

    @classmethod
    def joined(cls, parts: Sequence["Detections"]) -> "Detections":
        """The detections of all parts, one part after another."""
        slots = max(part.detected.shape[1] for part in parts)
        return cls(*(torch.cat([_padded(getattr(part, name), slots) for part in parts]) for name in _FIELDS))


_FIELDS = ("elements", "confidence", "detected")


@dataclass(frozen=True)
class Predictions:
    """Detections by what they are made of.

    Attributes:
        raw: from the raw output of the first sample.
        returned: from all samples pooled, see `majority_boxes`.
        samples: all K samples of boxes, and which rows are present; None for a single sample, and for states.
    """

    raw: Detections
    returned: Detections
    samples: tuple[Float[Tensor, "m k n d"], Bool[Tensor, "m k n"]] | None


def _padded(values: Tensor, slots: int) -> Tensor:
    missing = values.new_zeros((len(values), slots - values.shape[1], *values.shape[2:]))
    return torch.cat([values, missing], dim=1)


def worth_of_samples(
    samples: Float[Tensor, "m k n d"], mask: Bool[Tensor, "m k n"], truth: SetBatch, visible: Float[Tensor, "m n"]
) -> tuple[dict[str, float], list[dict[str, float]]]:
    """What K samples of boxes tell beyond one: recall of hidden objects, calibration of the pooled confidence."""
    hidden = truth.mask & (visible <= MOSTLY_HIDDEN)
    recall = recall_within(samples, mask, truth.elements, hidden, truth.mask)
    pooled, confidence = pool_batch(samples, mask)
    _, correct = match_boxes(pooled.elements, truth.elements, MATCH_IOU)
    error, bins = confidence_calibration(confidence[pooled.mask], correct[pooled.mask])
    scores = {HIDDEN_RECALL.name: recall[0], CONFIDENCE_ECE.name: error}
    if len(recall) >= 5:
        scores[HIDDEN_RECALL_OF_5.name] = recall[4]
    return scores, bins
