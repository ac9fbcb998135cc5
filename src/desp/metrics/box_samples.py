"""What several predicted sets of boxes tell of one image: the recall of the best of them, and how well the pooled
confidence is calibrated."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.distances import match_boxes
from desp.metrics.base import Metric

CALIBRATION_BINS = 10
MATCH_IOU = 0.5

_HIDDEN = "recall of objects that are mostly hidden, at an IoU of .5,"
HIDDEN_RECALL = Metric("hidden_recall", 1.0, "higher", f"{_HIDDEN} by one prediction")
HIDDEN_RECALL_OF_5 = Metric("hidden_recall_of_5", 1.0, "higher", f"{_HIDDEN} by at least one of five predictions")
CONFIDENCE_ECE = Metric(
    "confidence_ece", 1.0, "lower", "expected calibration error (ECE) of pooled boxes' confidence"
)


def recall_within(
    boxes: Float[Tensor, "m k n 4"],
    mask: Bool[Tensor, "m k n"],
    truth: Float[Tensor, "m t 4"],
    wanted: Bool[Tensor, "m t"],
    truth_mask: Bool[Tensor, "m t"],
) -> list[float]:
    """Fraction of the wanted true boxes that at least one of the first k samples has, for k from 1 to K, with an
    IoU of at least `MATCH_IOU`.

    Within a sample boxes are matched one to one with all true ones, so that the box of an object in front does not
    count for the one behind it. NaN where nothing is wanted.

    Args:
        boxes: K samples for each of M images; `mask` says which rows are there.
        truth: true boxes; `truth_mask` says which are there, and `wanted` which are counted.
    """
    samples = boxes.shape[1]
    there = truth.masked_fill(~truth_mask.unsqueeze(-1), 0.0).repeat_interleave(samples, dim=0)
    some = boxes.masked_fill(~mask.unsqueeze(-1), 0.0).flatten(0, 1)
    _, found = match_boxes(there, some, MATCH_IOU)
    within = found.unflatten(0, (-1, samples)).cummax(dim=1).values  # (m, k, t)
    counted = wanted & truth_mask
    return [float(hits[counted].double().mean()) for hits in within.unbind(dim=1)]


def confidence_calibration(
    confidence: Float[Tensor, " n"], correct: Bool[Tensor, " n"]
) -> tuple[float, list[dict[str, float]]]:
    """Expected calibration error: the mean distance between confidence and precision, over bins of confidence.

    Returns:
        The error, NaN without detections, and for each bin that is not empty its mean confidence, precision and
        number of detections.
    """
    # The upper end belongs to a bin, as 1 is the most frequent confidence.
    which = (confidence * CALIBRATION_BINS).ceil().clamp(1, CALIBRATION_BINS).long() - 1
    error, rows = 0.0 if len(confidence) else torch.nan, []
    for index in range(CALIBRATION_BINS):
        inside = which == index
        if not inside.any():
            continue
        sure, right = float(confidence[inside].double().mean()), float(correct[inside].double().mean())
        error += float(inside.double().mean()) * abs(sure - right)
        rows.append({"confidence": sure, "precision": right, "detections": int(inside.sum())})
    return error, rows
