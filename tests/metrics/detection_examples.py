"""Detections and truths made up for tests, and average precision of them by plain loops."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from desp.data.clevr_boxes import STATE_CATEGORIES
from desp.metrics.average_precision import average_precision, state_average_precision

IOUS = (0.5, 0.6, 0.7, 0.8, 0.9)

# -- a slow implementation, as published ---------------------------------------------------------------


def plain_iou(a: Sequence[float], b: Sequence[float]) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def plain_distance(a: Sequence[float], b: Sequence[float]) -> float:
    """In scene units; infinite if an attribute differs."""

    def kinds(state: Sequence[float]) -> list[int]:
        groups = [list(state[first:behind]) for first, behind in ((3, 5), (5, 13), (13, 16), (16, 18))]
        return [group.index(max(group)) for group in groups]

    return 3 * math.dist(a[:3], b[:3]) if kinds(a) == kinds(b) else math.inf


def plain_area(matches: Sequence[bool], positives: int) -> float:
    """Every-point interpolation, with the sentinels of the published code."""
    recall, precision = [0.0], [0.0]
    for place in range(len(matches)):
        right = sum(matches[: place + 1])
        recall.append(right / positives)
        precision.append(right / (place + 1))
    recall.append(1.0)
    precision.append(0.0)
    for place in range(len(precision) - 1, 0, -1):
        precision[place - 1] = max(precision[place - 1], precision[place])
    return sum((recall[i] - recall[i - 1]) * precision[i] for i in range(1, len(recall)))


def plain_ap(case: dict[str, Tensor], quality: Callable[[Any, Any], float], threshold: float) -> float:
    """One ranking of all detections; each looks at its best truth, which can be matched once."""
    detections = []
    for image, row in enumerate(case["detected"].tolist()):
        for slot, there in enumerate(row):
            if there:
                tie = case["ties"][image, slot].item() if "ties" in case else 0
                detections.append((-case["confidence"][image, slot].item(), tie, image, slot))
    seen: set[tuple[int, int]] = set()
    matches = []
    for *_, image, slot in sorted(detections):
        best, chosen = -math.inf, -1
        for place, there in enumerate(case["truth_mask"][image].tolist()):
            value = quality(case["predicted"][image, slot].tolist(), case["truth"][image, place].tolist())
            if there and value > best:
                best, chosen = value, place
        matches.append(chosen >= 0 and best >= threshold and (image, chosen) not in seen)
        if matches[-1]:
            seen.add((image, chosen))
    return plain_area(matches, int(case["truth_mask"].sum()))


# -- made-up detections --------------------------------------------------------------------------------


def random_case(seed: int, *, levels: int = 3, ties: bool = False) -> dict[str, Tensor]:
    """A few images of boxes on a grid, so that IoUs are exact, with few different confidences."""
    generator = torch.Generator().manual_seed(seed)

    def whole(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=generator)

    m, n, t = int(whole(1, 5)), int(whole(0, 6)), int(whole(1, 5))
    truth = whole(0, 6, m, t, 2).repeat(1, 1, 2) + torch.cat([torch.zeros(m, t, 2), whole(1, 7, m, t, 2)], dim=2)
    copied = truth.gather(1, whole(0, t, m, n).unsqueeze(-1).expand(-1, -1, 4))
    case = {
        "predicted": copied + whole(-1, 2, m, n, 4) * (torch.rand(m, n, 1, generator=generator) < 0.7),
        "confidence": whole(0, levels, m, n).float() / levels,
        "detected": torch.rand(m, n, generator=generator) < 0.8,
        "truth": truth,
        "truth_mask": torch.rand(m, t, generator=generator) < 0.7,
    }
    case["truth_mask"][0, 0] = True
    if ties:
        case["ties"] = torch.randperm(m * n, generator=generator).view(m, n)
    return case


def random_states(seed: int) -> dict[str, Tensor]:
    """The same with states; few attributes differ, so that many are right."""
    case = random_case(seed)
    generator = torch.Generator().manual_seed(seed)
    for name in ("truth", "predicted"):
        places = case[name][..., :3] / 24  # an eighth of a scene unit for a step of the grid
        kinds = torch.rand(*places.shape[:2], 15, generator=generator)
        for first, _ in STATE_CATEGORIES:  # the first kind of each mostly
            kinds[..., first - 3] += 1.5 * (torch.rand(places.shape[:2], generator=generator) < 0.9)
        case[name] = torch.cat([places, kinds], dim=-1)
    return case


def of_boxes(case: dict[str, Tensor], thresholds: Sequence[float] = IOUS) -> dict[float, float]:
    fixed = (case[name] for name in ("predicted", "confidence", "detected", "truth", "truth_mask"))
    return average_precision(*fixed, thresholds=thresholds, ties=case.get("ties"))


def of_states(case: dict[str, Tensor]) -> dict[float, float]:
    return state_average_precision(
        *(case[name] for name in ("predicted", "confidence", "detected", "truth", "truth_mask"))
    )


def image(
    predicted: Sequence[Sequence[float]], confidence: Sequence[float], truth: Sequence[Sequence[float]]
) -> dict[str, Tensor]:
    """One image, all slots used."""
    return {
        "predicted": torch.tensor([predicted], dtype=torch.float64),
        "confidence": torch.tensor([confidence], dtype=torch.float64),
        "detected": torch.ones(1, len(predicted), dtype=torch.bool),
        "truth": torch.tensor([truth], dtype=torch.float64),
        "truth_mask": torch.ones(1, len(truth), dtype=torch.bool),
    }


def state(x: float, *, colour: int = 0, shape: int = 0, size: int = 0, material: int = 0) -> list[float]:
    """An object at (x, 0, 0) in scene units."""
    one_hot = [
        float(index == kind)
        for kind, count in ((material, 2), (colour, 8), (shape, 3), (size, 2))
        for index in range(count)
    ]
    return [x / 3, 0.0, 0.0, *one_hot]
