"""Errors of single elements in the user's own units, and of cardinalities."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from desp.comparison.examples import Examples, chosen
from desp.comparison.features import Feature
from desp.comparison.scoring import SystemPredictions
from desp.comparison.set_distance import MOST_ASSIGNED, StandardisedDistance
from desp.distances import huber_pairs
from desp.sets import SetBatch

# The most rows and columns of a confusion matrix; more cardinalities are grouped into ranges.
MOST_SIZES = 10


def nearest_valid(set_distance: StandardisedDistance, tests: Examples, predicted: SetBatch) -> SetBatch:
    """For each test the valid set that is nearest to the predicted one."""
    if not tests.valid_sets:
        return tests.sets
    own = set_distance.pad(predicted)
    distances = [set_distance.between(own, set_distance.pad(item)) for item in tests.valid_sets]
    return chosen(torch.stack(distances).argmin(dim=0), tests.valid_sets)


def matched(
    set_distance: StandardisedDistance, predicted: Float[Tensor, "n d"], true: Float[Tensor, "m d"]
) -> Int[Tensor, "2 p"]:
    """Which predicted element stands for which true one: places in both.

    Where outputs are aligned, elements i match; else it is the cheapest assignment, which leaves out surplus
    elements of the larger set. In sets too large for that, each true element matches the nearest predicted one.
    """
    pairs = min(len(predicted), len(true))
    if set_distance.aligned or pairs == 0:
        return torch.arange(pairs).expand(2, -1)
    scaled = [(item - set_distance.offset) / set_distance.scale for item in (predicted, true)]
    costs = huber_pairs(scaled[0].unsqueeze(0), scaled[1].unsqueeze(0))[0]
    if max(costs.shape) > MOST_ASSIGNED:
        return torch.stack([costs.argmin(dim=0), torch.arange(len(true))])
    rows, columns = linear_sum_assignment(costs.numpy())
    return torch.stack([torch.as_tensor(rows), torch.as_tensor(columns)])


def feature_errors(
    set_distance: StandardisedDistance, features: Sequence[Feature], predicted: SetBatch, true: SetBatch
) -> Float[Tensor, "t f"]:
    """The error of each feature over the matched elements of each test: for a number the mean absolute difference,
    for a category the share of wrong ones. NaN where a test has no matched elements."""
    errors = []
    for own, valid in zip(predicted.packed().to_ragged(), true.packed().to_ragged(), strict=True):
        rows, columns = matched(set_distance, own.float(), valid.float())
        errors.append([_error(own[rows], valid[columns], feature) for feature in features])
    return torch.tensor(errors)


def _error(predicted: Tensor, true: Tensor, feature: Feature) -> float:
    a, b = (item[:, slice(*feature.columns)] for item in (predicted, true))
    if feature.classes:
        return float((a.argmax(dim=1) != b.argmax(dim=1)).float().mean())
    return float((a - b).abs().mean())


def sizes_right(tests: Examples, predicted: SystemPredictions) -> Float[Tensor, " t"]:
    """For each test the share of its predictions that have the cardinality of a valid set."""
    sizes = predicted.samples.sizes.view(len(tests), -1)
    valid = torch.stack([item.sizes for item in tests.valid_sets or (tests.sets,)])
    return (sizes.unsqueeze(0) == valid.unsqueeze(-1)).any(dim=0).double().mean(dim=1)


def size_confusion(true: Int[Tensor, " b"], predicted: Int[Tensor, " b"]) -> dict[str, Any]:
    """How often each cardinality was predicted for each true one, as JSON values. `counts` has a row for each true
    cardinality; if there are many, they are grouped into ranges, `sizes` (first, last)."""
    both = torch.cat([true, predicted])
    smallest, largest = int(both.min()), int(both.max())
    width = -(-(largest - smallest + 1) // MOST_SIZES)
    firsts = range(smallest, largest + 1, width)
    places = [(item - smallest) // width for item in (true, predicted)]
    counts = torch.zeros(len(firsts), len(firsts), dtype=torch.long)
    counts.index_put_((places[0], places[1]), torch.ones_like(places[0]), accumulate=True)
    return {
        "sizes": [[first, min(first + width - 1, largest)] for first in firsts],
        "counts": counts.tolist(),
        "too_few": float((predicted < true).double().mean()),
        "too_many": float((predicted > true).double().mean()),
    }
