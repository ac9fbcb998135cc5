"""Average precision (AP) of detections: boxes by their IoU, object states by their attributes and distance.

All detections of all images are ranked by confidence. In this order each detection is compared with the best truth
of its image, and with no other: it is a true positive if that truth is good enough and no detection before has
matched it. AP is the area under the precision-recall curve, with precision interpolated at every point (Pascal VOC
2010 and later).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor

from desp.boxes import box_iou
from desp.data.clevr_boxes import POSITION_SCALE, STATE_CATEGORIES, STATE_FEATURES
from desp.errors import DataError, SettingsError
from desp.metrics.base import Metric

IOUS = (0.5, 0.6, 0.7, 0.8, 0.9)
STATE_DISTANCES = (math.inf, 1.0, 0.5, 0.25, 0.125)
TIE_ORDERS = 10

AP_METRICS = tuple(
    Metric(f"ap{round(100 * iou)}", 0.01, "higher", f"average precision of boxes with an IoU of at least {iou}")
    for iou in IOUS
)
STATE_METRICS = tuple(
    Metric(name, 0.01, "higher", f"average precision of objects with all attributes right, {within}")
    for name, within in (
        ("ap_inf", "at any distance"),
        ("ap1", "within a distance of 1"),
        ("ap05", "within a distance of 0.5"),
        ("ap025", "within a distance of 0.25"),
        ("ap0125", "within a distance of 0.125"),
    )
)


def average_precision(
    boxes: Float[Tensor, "m n 4"],
    confidence: Float[Tensor, "m n"],
    detected: Bool[Tensor, "m n"],
    truth: Float[Tensor, "m t 4"],
    truth_mask: Bool[Tensor, "m t"],
    thresholds: Sequence[float] = IOUS,
    ties: Num[Tensor, "m n"] | None = None,
) -> dict[float, float]:
    """AP of detected boxes, one class, for each threshold of the IoU.

    Args:
        boxes: corners x1 y1 x2 y2 of N slots in each of M images. A box with NaN matches no truth.
        confidence: orders the detections of all images, largest first.
        detected: which slots are detections.
        truth: true boxes, of which `truth_mask` says which are there.
        thresholds: the least IoU of a match, above 0 and at most 1.
        ties: orders detections of equal confidence, smallest first. Where that is equal too, or not given, they
            stay in the order of images and slots.

    Returns:
        AP (0 to 1) by threshold. Without detections it is 0.

    Raises:
        DataError: shapes that do not fit, no truth at all, NaN among confidences or in the truth.
        SettingsError: a threshold outside (0, 1].
    """
    _check_features(boxes, truth, truth_mask, 4)
    _check_thresholds(thresholds, "IoU thresholds must be above 0 and at most 1", lambda value: 0 < value <= 1)
    quality = box_iou(boxes.double(), truth.double())
    return average_precision_of_matches(quality, confidence, detected, truth_mask, thresholds, ties)


def state_average_precision(
    states: Float[Tensor, "m n 18"],
    confidence: Float[Tensor, "m n"],
    detected: Bool[Tensor, "m n"],
    truth: Float[Tensor, "m t 18"],
    truth_mask: Bool[Tensor, "m t"],
    distances: Sequence[float] = STATE_DISTANCES,
    ties: Num[Tensor, "m n"] | None = None,
) -> dict[float, float]:
    """AP of predicted objects, by the rule of DSPN's released code, for each largest distance of a match.

    Only truths whose four attributes all equal those of the detection (argmax of each group) are compared. The
    best of them is the nearest one, whether it has been matched before or not. It is a match if its Euclidean
    distance, in scene units, is at most the given one; if another detection has matched it before, the detection
    is a false positive, although another truth of the same attributes may still be free.

    Args:
        states: x y z, divided by 3; one-hot groups of material 2, colour 8, shape 3, size 2. A state with NaN
            matches no truth.
        confidence, detected, truth_mask, ties: as for `average_precision`.
        truth: true states, of which `truth_mask` says which are there.
        distances: 0 or more; infinity: the attributes alone decide, and each detection is still compared with the
            nearest truth alone.

    Returns:
        AP (0 to 1) by distance.

    Raises:
        DataError: shapes that do not fit, no truth at all, NaN among confidences or in the truth.
        SettingsError: a negative distance.
    """
    _check_features(states, truth, truth_mask, STATE_FEATURES)
    _check_thresholds(distances, "distances must be 0 or more", lambda value: value >= 0)
    quality = _state_quality(states.double(), truth.double())
    thresholds = [-distance for distance in distances]
    found = average_precision_of_matches(quality, confidence, detected, truth_mask, thresholds, ties)
    return {-threshold: value for threshold, value in found.items()}


def average_precision_of_matches(
    quality: Float[Tensor, "m n t"],
    confidence: Float[Tensor, "m n"],
    detected: Bool[Tensor, "m n"],
    truth_mask: Bool[Tensor, "m t"],
    thresholds: Sequence[float],
    ties: Num[Tensor, "m n"] | None = None,
) -> dict[float, float]:
    """AP for each threshold of any `quality` of pairs of a detection and a truth of the same image.

    A detection is compared only with the truth of highest quality, the first of several. So a truth is matched by
    the first good enough detection that is compared with it. No detection depends on the result of another one:
    all are judged at once.

    Args:
        quality: higher is better, e.g. the IoU or minus a distance; minus infinity or NaN: they never match.
        thresholds: the least quality of a match.
        confidence, detected, truth_mask, ties: as for `average_precision`.

    Raises:
        DataError: shapes that do not fit, no truth at all, or NaN among confidences or ties.
    """
    _check_shapes(quality, confidence, detected, truth_mask, ties)
    positives = int(truth_mask.sum())
    if positives == 0:
        raise DataError("Average precision needs at least one true element, got none. Score more images.")
    order = _ranking(confidence, detected, ties)
    ranks = torch.full((detected.numel(),), detected.numel(), device=order.device)
    ranks[order] = torch.arange(len(order), device=order.device)
    allowed = truth_mask.unsqueeze(1) & ~torch.isnan(quality)
    best, chosen = quality.masked_fill(~allowed, -math.inf).max(dim=2)  # the first of equals
    possible = detected & (best > -math.inf)
    found = {}
    for threshold in thresholds:
        hits = possible & (best >= threshold)
        matched = _first_hits(hits, chosen, ranks.view_as(chosen), truth_mask.shape[1])
        found[threshold] = _area(matched.flatten()[order], positives)
    return found


def mean_over_ties(
    score: Callable[[Int[Tensor, "m n"]], Mapping[float, float]],
    confidence: Float[Tensor, "m n"],
    generator: torch.Generator,
    orders: int = TIE_ORDERS,
) -> dict[float, float]:
    """AP averaged over random orders of detections of equal confidence, for detectors that give all detections the
    same confidence.

    Example:
        ``mean_over_ties(lambda ties: average_precision(*arguments, ties=ties), confidence, generator)``

    Args:
        score: from `ties` to AP for each threshold.
        confidence: gives the shape of the ties, and their device.
        generator: draws the orders.
        orders: how many are drawn.

    Raises:
        SettingsError: no orders.
    """
    if orders < 1:
        raise SettingsError(f"orders must be 1 or more, got {orders}.")
    results = []
    for _ in range(orders):
        order = torch.randperm(confidence.numel(), generator=generator, device=generator.device)
        results.append(score(order.view(confidence.shape).to(confidence.device)))
    return {threshold: math.fsum(item[threshold] for item in results) / orders for threshold in results[0]}


def by_name(metrics: Iterable[Metric], values: Mapping[float, float]) -> dict[str, float]:
    """AP under the names of `AP_METRICS` or `STATE_METRICS`, for values at all their thresholds in that order."""
    return {metric.name: value for metric, value in zip(metrics, values.values(), strict=True)}


def _state_quality(states: Tensor, truth: Tensor) -> Tensor:
    """Minus the distance in scene units where all attributes are equal, else minus infinity (m n t)."""
    offsets = POSITION_SCALE * (states[..., :3].unsqueeze(2) - truth[..., :3].unsqueeze(1))
    equal = ~torch.isnan(states).any(dim=-1).unsqueeze(2)
    for first, behind in STATE_CATEGORIES:
        kinds, wanted = (values[..., first:behind].argmax(dim=-1) for values in (states, truth))
        equal = equal & (kinds.unsqueeze(2) == wanted.unsqueeze(1))
    return torch.where(equal, -offsets.square().sum(dim=-1).sqrt(), -math.inf)


def _ranking(confidence: Tensor, detected: Tensor, ties: Tensor | None) -> Int[Tensor, " d"]:
    """The slots that are detections, as places in the flattened (m n), most confident first."""
    places = detected.flatten().nonzero().squeeze(1)
    if ties is not None:
        places = places[ties.flatten()[places].argsort(stable=True)]
    return places[confidence.flatten()[places].argsort(descending=True, stable=True)]


def _first_hits(hits: Tensor, chosen: Tensor, ranks: Tensor, truths: int) -> Bool[Tensor, "m n"]:
    """Of the hits that chose the same truth, the one of smallest rank."""
    nobody = ranks.numel()
    first = torch.full((len(hits), truths), nobody, device=hits.device)
    first = first.scatter_reduce(1, chosen, ranks.masked_fill(~hits, nobody), "amin")
    return hits & (ranks == first.gather(1, chosen))


def _area(matched: Bool[Tensor, " d"], positives: int) -> float:
    """The area under the interpolated precision-recall curve of detections in their order.

    Recall rises by 1 / `positives` at every true positive and nowhere else. The interpolated precision there is
    the largest one from there on.
    """
    if len(matched) == 0:
        return 0.0
    precision = matched.cumsum(dim=0).double() / torch.arange(1, len(matched) + 1, device=matched.device)
    interpolated = precision.flip(0).cummax(dim=0).values.flip(0)
    return float(interpolated[matched].sum() / positives)


def _check_features(predicted: Tensor, truth: Tensor, truth_mask: Tensor, features: int) -> None:
    for name, values in (("truth", truth), ("predictions", predicted)):
        if values.dim() != 3 or values.shape[-1] != features or len(values) != len(truth):
            raise DataError(
                f"{name}: expected shape ({len(truth)} images, slots, {features} features), "
                f"got {tuple(values.shape)}. Pass both for the same images."
            )
    if truth.shape[:2] == truth_mask.shape and not torch.isfinite(truth[truth_mask]).all():
        raise DataError("The truth holds NaN or infinity. Leave these images out.")


def _check_shapes(
    quality: Tensor, confidence: Tensor, detected: Tensor, truth_mask: Tensor, ties: Tensor | None
) -> None:
    images, slots, truths = quality.shape
    expected = {
        "confidence": (confidence, slots),
        "detected": (detected, slots),
        "truth_mask": (truth_mask, truths),
    }
    if ties is not None:
        expected["ties"] = (ties, slots)
    for name, (values, size) in expected.items():
        if values.shape != (images, size):
            raise DataError(f"{name}: expected shape ({images}, {size}), got {tuple(values.shape)}.")
    for name, numbers in (("confidence", confidence), ("ties", ties)):
        if numbers is not None and torch.isnan(numbers[detected]).any():
            raise DataError(f"The {name} of a detection is NaN. Repair it, or mark the slot as not detected.")


def _check_thresholds(thresholds: Iterable[float], rule: str, fits: Callable[[float], bool]) -> None:
    wrong = [value for value in thresholds if not fits(value)]
    if wrong:
        raise SettingsError(f"{rule}, got {wrong[0]}.")
