"""Distributions of sets against loops over their definitions, and closed forms."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from set_examples import each_distance, points, random_sets
from torch import Tensor

from desp.errors import DataError
from desp.metrics.distribution import (
    compare_distributions,
    coverage,
    nearest_neighbour_accuracy,
    pairwise_distances,
)
from desp.sets import SetBatch
from desp.settings import Distance


def scores(covered: float, matching: float, accuracy: float) -> dict[str, float]:
    return {"coverage": covered, "minimum_matching_distance": matching, "nearest_neighbour_accuracy": accuracy}


def scores_of(real: Tensor | list[float], predicted: Tensor | list[float]) -> dict[str, float]:
    return compare_distributions(points(real), points(predicted), "chamfer")


# -- plain references ----------------------------------------------------------------------------------


def plain_coverage(distances: list[list[float]]) -> float:
    nearest = set()
    for column in zip(*distances, strict=True):
        nearest |= {row for row, value in enumerate(column) if value == min(column)}
    return len(nearest) / len(distances)


def plain_accuracy(real: list[list[float]], predicted: list[list[float]], between: list[list[float]]) -> float:
    """Over the union of both, with the label of every neighbour at the smallest distance."""
    count = len(real)
    union = [[*real[i], *between[i]] for i in range(count)]
    union += [[*(row[j] for row in between), *predicted[j]] for j in range(len(predicted))]
    right = 0.0
    for i, row in enumerate(union):
        best = min(value for j, value in enumerate(row) if j != i)
        tied = [j for j, value in enumerate(row) if j != i and value == best]
        right += sum((j < count) == (i < count) for j in tied) / len(tied)
    return right / len(union)


# -- scores --------------------------------------------------------------------------------------------


@each_distance
@given(
    real=st.lists(st.integers(0, 4), min_size=1, max_size=5),
    predicted=st.lists(st.integers(0, 3), min_size=1, max_size=5),
)
def test_scores_against_loops(distance: Distance, real: list[int], predicted: list[int]) -> None:
    """Several empty sets on either side are exact copies, so ties are tried too."""
    a, b = random_sets(real, 13, max_size=4), random_sets(predicted, 14)
    found = compare_distributions(a, b, distance)
    between = pairwise_distances(a, b, distance)
    wide = SetBatch.from_ragged(b.to_ragged(), 4, features=2)
    real_real, both_predicted = pairwise_distances(a, a, distance), pairwise_distances(wide, wide, distance)
    rows = between.tolist()
    assert found["coverage"] == pytest.approx(plain_coverage(rows))
    assert found["minimum_matching_distance"] == pytest.approx(sum(map(min, rows)) / len(rows))
    accuracy = plain_accuracy(real_real.tolist(), both_predicted.tolist(), rows)
    assert found["nearest_neighbour_accuracy"] == pytest.approx(accuracy)


@given(
    real=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    predicted=st.lists(st.integers(0, 3), min_size=1, max_size=8),
)
def test_scores_with_many_ties(real: list[int], predicted: list[int]) -> None:
    """Whole numbers on a line: half of all distances are equal, and exactly so."""
    a, b = torch.tensor(real, dtype=torch.float64), torch.tensor(predicted, dtype=torch.float64)
    between, within = (a[:, None] - b).abs(), ((a[:, None] - a).abs(), (b[:, None] - b).abs())
    assert coverage(between) == pytest.approx(plain_coverage(between.tolist()))
    found = nearest_neighbour_accuracy(*within, between)
    assert found == pytest.approx(plain_accuracy(*(x.tolist() for x in within), between.tolist()))


def test_scores_by_hand() -> None:
    """Real 0, 0.1, 0.9; predicted 0.02, 0.12, 0.15."""
    found = scores_of([0.0, 0.1, 0.9], [0.02, 0.12, 0.15])
    assert found["coverage"] == pytest.approx(2 / 3)  # 0.9 is nobody's nearest
    # Chamfer counts both ways: twice half the square
    assert found["minimum_matching_distance"] == pytest.approx((0.02**2 + 0.02**2 + 0.75**2) / 3)
    # 0 -> 0.02 wrong, 0.1 -> 0.12 wrong, 0.9 -> 0.15 wrong; 0.02 -> 0 wrong, 0.12 -> 0.1 wrong, 0.15 -> 0.12 right
    assert found["nearest_neighbour_accuracy"] == pytest.approx(1 / 6)


def test_far_apart_distributions_are_told_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    real = torch.rand(40, generator=generator)
    found = scores_of(real, real[torch.randperm(40, generator=generator)] + 100)
    assert found["nearest_neighbour_accuracy"] == 1.0
    assert found["coverage"] == 1 / 40  # the largest of the real ones is nearest to all
    assert found["minimum_matching_distance"] > 90


@each_distance
def test_one_prediction_repeated_covers_one_set(distance: Distance) -> None:
    real = random_sets([4] * 12, 15)
    one = random_sets([4], 16).to_ragged() * 12
    found = compare_distributions(real, SetBatch.from_ragged(one), distance)
    assert found["coverage"] == 1 / 12
    assert found["nearest_neighbour_accuracy"] > 0.8


@each_distance
def test_copies_of_the_real_sets(distance: Distance) -> None:
    """All covered at distance zero; the classifier finds every set's copy, on the other side."""
    real = random_sets([4, 2, 3, 4, 1, 3], 17)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    copies = SetBatch(real.elements[order], real.mask[order])
    assert compare_distributions(real, copies, distance) == scores(1.0, 0.0, 0.0)


def test_two_samples_of_one_distribution_are_not_told_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    sets = [torch.rand(400, 3, 2, generator=generator) for _ in range(2)]
    real, predicted = (SetBatch(item, torch.ones(400, 3, dtype=torch.bool)) for item in sets)
    found = compare_distributions(real, predicted, "chamfer")
    assert found["nearest_neighbour_accuracy"] == pytest.approx(0.5, abs=0.06)  # three standard deviations
    assert 0.5 < found["coverage"] < 0.9


def test_exact_copies_within_one_distribution_bring_no_bias() -> None:
    """Few places, so nearly all nearest neighbours are copies. The expected value is known exactly."""
    count, tries = 20, 400
    generator = torch.Generator().manual_seed(0)
    total = 0.0
    for _ in range(tries):
        values = torch.randint(3, (2, count), generator=generator).double()
        real, predicted = ((row[:, None] - row).abs() for row in values)
        total += nearest_neighbour_accuracy(real, predicted, (values[0][:, None] - values[1]).abs())
    assert total / tries == pytest.approx((count - 1) / (2 * count - 1), abs=0.01)


def test_a_wrong_mixture_of_exact_copies_is_seen() -> None:
    """Even between two places, which a tie that always counts one half would hide."""
    even = [0.0] * 50 + [1.0] * 50
    uneven = [0.0] * 99 + [1.0]
    assert scores_of(even, uneven)["nearest_neighbour_accuracy"] > 0.6
    assert scores_of(even, even)["nearest_neighbour_accuracy"] == pytest.approx(49 / 99)


def test_one_real_and_one_predicted_neighbour_count_one_half() -> None:
    """Real 0 and 1, predicted -1 and 5: the real 0 has one neighbour of each kind at distance 1."""
    real = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    predicted = torch.tensor([[0.0, 6.0], [6.0, 0.0]])
    between = torch.tensor([[1.0, 5.0], [2.0, 4.0]])
    # the real 0 one half, the real 1 right, both predicted ones wrong
    assert nearest_neighbour_accuracy(real, predicted, between) == pytest.approx(1.5 / 4)


def test_the_smallest_batches() -> None:
    assert scores_of([0.0], [0.5]) == scores(1.0, 0.25, 0.0)
    empty = SetBatch.from_ragged([[], []], features=2)
    assert empty.max_size == 0
    assert compare_distributions(empty, empty, "hungarian") == scores(1.0, 0.0, 1 / 3)


def test_equally_near_real_sets_are_all_covered() -> None:
    assert scores_of([0.2, 0.2, 0.9], [0.3])["coverage"] == pytest.approx(2 / 3)


@each_distance
def test_order_of_sets_does_not_matter(distance: Distance) -> None:
    real, predicted = random_sets([3, 0, 4, 0, 2, 4], 18), random_sets([4, 0, 1, 3, 0], 19)
    expected = compare_distributions(real, predicted, distance)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        i, j = torch.randperm(6, generator=generator), torch.randperm(5, generator=generator)
        mixed = (SetBatch(sets.elements[k], sets.mask[k]) for sets, k in ((real, i), (predicted, j)))
        assert compare_distributions(*mixed, distance) == pytest.approx(expected)


@each_distance
def test_all_distances_of_a_comparison_see_the_same_padding(distance: Distance) -> None:
    """Only the predicted sets are stored wide: real ones among each other must not look further apart for it."""
    real, predicted = random_sets([2, 2, 2, 1], 20), random_sets([2, 1, 2, 2], 21)
    wide = SetBatch.from_ragged(predicted.to_ragged(), 5)
    both = compare_distributions(SetBatch.from_ragged(real.to_ragged(), 5), wide, distance)
    assert compare_distributions(real, wide, distance) == pytest.approx(both)


# -- mistakes ------------------------------------------------------------------------------------------


@each_distance
def test_nan_is_refused(distance: Distance) -> None:
    with pytest.raises(DataError, match="set 1 of the second batch holds NaN"):
        compare_distributions(points([0.1, 0.2]), points([0.1, math.nan]), distance)
