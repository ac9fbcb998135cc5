"""Distributions of sets against loops over their definitions, and closed forms."""

import math
from collections.abc import Callable
from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from desp.distances import SET_DISTANCES
from desp.errors import DataError, SettingsError
from desp.metrics.distribution import (
    DistributionScores,
    compare_distributions,
    coverage,
    minimum_matching_distance,
    nearest_neighbour_accuracy,
    pairwise_distances,
)
from desp.sets import SetBatch
from desp.settings import Distance

each_distance = pytest.mark.parametrize("distance", ["chamfer", "hungarian"])


def random_sets(sizes: list[int], seed: int, max_size: int | None = None) -> SetBatch:
    generator = torch.Generator().manual_seed(seed)
    sets = [torch.rand(size, 2, generator=generator, dtype=torch.float64) for size in sizes]
    return SetBatch.from_ragged(sets, max_size, features=2)


def points(places: Tensor | list[float]) -> SetBatch:
    """Sets of one element with one feature: distances are half the squared differences (below 1)."""
    elements = torch.as_tensor(places, dtype=torch.float64).reshape(-1, 1, 1)
    return SetBatch(elements, torch.ones(elements.shape[:2], dtype=torch.bool))


def scores_of(real: Tensor | list[float], predicted: Tensor | list[float]) -> DistributionScores:
    return compare_distributions(points(real), points(predicted), "chamfer")


# -- plain references ----------------------------------------------------------------------------------


def plain_huber(a: list[float], b: list[float]) -> float:
    differences = [abs(x - y) for x, y in zip(a, b, strict=True)]
    return sum(x * x / 2 if x < 1 else x - 0.5 for x in differences) / len(a)


def plain_chamfer(a: list[list[float]], b: list[list[float]]) -> float:
    if not a:
        return 0.0
    there = sum(min(plain_huber(x, y) for y in b) for x in a) / len(a)
    back = sum(min(plain_huber(x, y) for x in a) for y in b) / len(b)
    return there + back


def plain_hungarian(a: list[list[float]], b: list[list[float]]) -> float:
    if not a:
        return 0.0
    costs = (sum(plain_huber(x, y) for x, y in zip(a, order, strict=True)) for order in permutations(b))
    return min(costs) / len(a)


PLAIN: dict[Distance, Callable[[list[list[float]], list[list[float]]], float]] = {
    "chamfer": plain_chamfer,
    "hungarian": plain_hungarian,
}


def plain_pairs(first: SetBatch, second: SetBatch, distance: Distance) -> list[list[float]]:
    """Zero vectors up to the larger padded size, then every pair on its own."""
    size = max(first.max_size, second.max_size)

    def filled(sets: SetBatch) -> list[list[list[float]]]:
        return [item.tolist() + [[0.0] * sets.features] * (size - len(item)) for item in sets.to_ragged()]

    return [[PLAIN[distance](a, b) for b in filled(second)] for a in filled(first)]


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


# -- distances of all pairs ----------------------------------------------------------------------------


@each_distance
@pytest.mark.parametrize("pairs_at_once", [None, 1, 4, 1000])
def test_pairs_against_loops(distance: Distance, pairs_at_once: int | None) -> None:
    """Sets of different sizes, batches of different padded sizes, an empty set on both sides."""
    first, second = random_sets([3, 0, 4, 1], 0), random_sets([2, 3, 0], 1)
    found = pairwise_distances(first, second, distance, pairs_at_once=pairs_at_once)
    expected = torch.tensor(plain_pairs(first, second, distance), dtype=torch.float64)
    torch.testing.assert_close(found, expected)
    assert float(found[1, 2]) == 0  # empty and empty


@each_distance
@given(
    first=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    second=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    at_once=st.integers(1, 20),
)
def test_pairs_of_odd_sizes(distance: Distance, first: list[int], second: list[int], at_once: int) -> None:
    a, b = random_sets(first, 2), random_sets(second, 3)
    found = pairwise_distances(a, b, distance, pairs_at_once=at_once)
    expected = torch.tensor(plain_pairs(a, b, distance), dtype=torch.float64)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(pairwise_distances(b, a, distance), expected.T)


@each_distance
@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=6), at_once=st.integers(1, 40))
def test_a_batch_against_itself_is_the_same_for_half_the_work(
    distance: Distance, sizes: list[int], at_once: int
) -> None:
    sets = random_sets(sizes, 4)
    found = pairwise_distances(sets, sets, distance, pairs_at_once=at_once)
    other = SetBatch(sets.elements.clone(), sets.presence.clone())
    torch.testing.assert_close(found, pairwise_distances(sets, other, distance))
    assert torch.equal(found, found.T)
    assert float(found.diagonal().abs().max()) == 0


@each_distance
def test_pairs_are_those_of_the_set_distance(distance: Distance) -> None:
    """Element by element as the tasks score: zero-padded tensors of the padded size."""
    first, second = random_sets([5, 7, 6], 5, max_size=8), random_sets([8, 2, 4], 6, max_size=8)
    found = pairwise_distances(first, second, distance)
    padded = SET_DISTANCES[distance](first.packed().elements, second.packed().elements)
    torch.testing.assert_close(found.diagonal(), padded)


@each_distance
def test_order_and_place_of_elements_do_not_matter(
    distance: Distance, assert_invariant: Callable[..., None]
) -> None:
    """Nor what absent rows hold. The padded size is fixed from outside: it is part of the distance."""
    first, second = random_sets([3, 5, 0, 4], 7), random_sets([2, 8, 1], 8)

    def distances(sets: Tensor, presence: Tensor) -> Tensor:
        return pairwise_distances(SetBatch(sets, presence), second, distance)

    assert_invariant(distances, first.elements, first.presence)


def test_absent_rows_may_hold_nan() -> None:
    sets = random_sets([2, 3], 9)
    elements = sets.elements.masked_fill(~sets.presence.unsqueeze(-1), torch.nan)
    found = pairwise_distances(SetBatch(elements, sets.presence), sets, "chamfer")
    torch.testing.assert_close(found, pairwise_distances(sets, sets, "chamfer"))


def test_a_missing_element_costs_something() -> None:
    whole, part = random_sets([4], 10), random_sets([4], 10)
    part.presence[0, 2] = False
    assert float(pairwise_distances(whole, part, "chamfer")) > 1e-3
    assert float(pairwise_distances(whole, part, "hungarian")) > 1e-3


def test_the_wider_type_is_taken() -> None:
    sets = random_sets([2, 3], 11)
    narrow = SetBatch(sets.elements.float(), sets.presence)
    assert pairwise_distances(narrow, sets, "chamfer").dtype == torch.float64
    assert pairwise_distances(narrow, narrow, "hungarian").dtype == torch.float32


def test_no_gradients_are_kept() -> None:
    sets = random_sets([2, 3], 12)
    with_gradient = SetBatch(sets.elements.requires_grad_(), sets.presence)
    assert not pairwise_distances(with_gradient, sets, "chamfer").requires_grad


def test_more_pairs_than_fit_at_once() -> None:
    """Some 100,000 pairs of Polygons' size."""
    sets = torch.rand(320, 8, 2, generator=torch.Generator().manual_seed(0))
    batch = SetBatch(sets, torch.ones(320, 8, dtype=torch.bool))
    found = pairwise_distances(batch, SetBatch(sets.flip(0), batch.presence), "chamfer")
    assert float(found.flip(1).diagonal().max()) == 0
    expected = SET_DISTANCES["chamfer"](sets[:1].expand(320, -1, -1), sets)
    torch.testing.assert_close(found[0], expected.flip(0))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@each_distance
def test_scores_on_a_gpu_are_those_of_the_cpu(distance: Distance) -> None:
    real, predicted = random_sets([3, 4, 0, 2, 5], 0), random_sets([4, 1, 3], 1)
    cpu = pairwise_distances(real, predicted, distance)
    gpu = pairwise_distances(real.to("cuda"), predicted.to("cuda"), distance)
    assert gpu.is_cuda
    torch.testing.assert_close(gpu.cpu(), cpu)
    expected = compare_distributions(real, predicted, distance)
    found = compare_distributions(real.to("cuda"), predicted.to("cuda"), distance)
    assert vars(found) == pytest.approx(vars(expected))


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
    assert found.coverage == pytest.approx(plain_coverage(rows))
    assert found.minimum_matching_distance == pytest.approx(sum(map(min, rows)) / len(rows))
    accuracy = plain_accuracy(real_real.tolist(), both_predicted.tolist(), rows)
    assert found.nearest_neighbour_accuracy == pytest.approx(accuracy)


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
    assert found.coverage == pytest.approx(2 / 3)  # 0.9 is nobody's nearest
    # Chamfer counts both ways: twice half the square
    assert found.minimum_matching_distance == pytest.approx((0.02**2 + 0.02**2 + 0.75**2) / 3)
    # 0 -> 0.02 wrong, 0.1 -> 0.12 wrong, 0.9 -> 0.15 wrong; 0.02 -> 0 wrong, 0.12 -> 0.1 wrong, 0.15 -> 0.12 right
    assert found.nearest_neighbour_accuracy == pytest.approx(1 / 6)


def test_far_apart_distributions_are_told_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    real = torch.rand(40, generator=generator)
    found = scores_of(real, real[torch.randperm(40, generator=generator)] + 100)
    assert found.nearest_neighbour_accuracy == 1.0
    assert found.coverage == 1 / 40  # the largest of the real ones is nearest to all
    assert found.minimum_matching_distance > 90


@each_distance
def test_one_prediction_repeated_covers_one_set(distance: Distance) -> None:
    real = random_sets([4] * 12, 15)
    one = random_sets([4], 16).to_ragged() * 12
    found = compare_distributions(real, SetBatch.from_ragged(one), distance)
    assert found.coverage == 1 / 12
    assert found.nearest_neighbour_accuracy > 0.8


@each_distance
def test_copies_of_the_real_sets(distance: Distance) -> None:
    """All covered at distance zero; the classifier finds every set's copy, on the other side."""
    real = random_sets([4, 2, 3, 4, 1, 3], 17)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    copies = SetBatch(real.elements[order], real.presence[order])
    assert compare_distributions(real, copies, distance) == DistributionScores(1.0, 0.0, 0.0)


def test_two_samples_of_one_distribution_are_not_told_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    sets = [torch.rand(400, 3, 2, generator=generator) for _ in range(2)]
    real, predicted = (SetBatch(item, torch.ones(400, 3, dtype=torch.bool)) for item in sets)
    found = compare_distributions(real, predicted, "chamfer")
    assert found.nearest_neighbour_accuracy == pytest.approx(0.5, abs=0.06)  # three standard deviations
    assert 0.5 < found.coverage < 0.9


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
    assert scores_of(even, uneven).nearest_neighbour_accuracy > 0.6
    assert scores_of(even, even).nearest_neighbour_accuracy == pytest.approx(49 / 99)


def test_one_real_and_one_predicted_neighbour_count_one_half() -> None:
    """Real 0 and 1, predicted -1 and 5: the real 0 has one neighbour of each kind at distance 1."""
    real = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    predicted = torch.tensor([[0.0, 6.0], [6.0, 0.0]])
    between = torch.tensor([[1.0, 5.0], [2.0, 4.0]])
    # the real 0 one half, the real 1 right, both predicted ones wrong
    assert nearest_neighbour_accuracy(real, predicted, between) == pytest.approx(1.5 / 4)


def test_the_smallest_batches() -> None:
    assert scores_of([0.0], [0.5]) == DistributionScores(1.0, 0.25, 0.0)
    empty = SetBatch.from_ragged([[], []], features=2)
    assert empty.max_size == 0
    assert compare_distributions(empty, empty, "hungarian") == DistributionScores(1.0, 0.0, 1 / 3)


def test_equally_near_real_sets_are_all_covered() -> None:
    assert scores_of([0.2, 0.2, 0.9], [0.3]).coverage == pytest.approx(2 / 3)


@each_distance
def test_order_of_sets_does_not_matter(distance: Distance) -> None:
    real, predicted = random_sets([3, 0, 4, 0, 2, 4], 18), random_sets([4, 0, 1, 3, 0], 19)
    expected = compare_distributions(real, predicted, distance)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        i, j = torch.randperm(6, generator=generator), torch.randperm(5, generator=generator)
        mixed = (SetBatch(sets.elements[k], sets.presence[k]) for sets, k in ((real, i), (predicted, j)))
        assert vars(compare_distributions(*mixed, distance)) == pytest.approx(vars(expected))


@each_distance
def test_all_distances_of_a_comparison_see_the_same_padding(distance: Distance) -> None:
    """Only the predicted sets are stored wide: real ones among each other must not look further apart for it."""
    real, predicted = random_sets([2, 2, 2, 1], 20), random_sets([2, 1, 2, 2], 21)
    wide = SetBatch.from_ragged(predicted.to_ragged(), 5)
    both = compare_distributions(SetBatch.from_ragged(real.to_ragged(), 5), wide, distance)
    assert vars(compare_distributions(real, wide, distance)) == pytest.approx(vars(both))


# -- mistakes ------------------------------------------------------------------------------------------


def test_an_empty_batch_is_refused() -> None:
    sets, none = points([0.1, 0.2]), points([])
    with pytest.raises(DataError, match="at least one set on both sides, got 2 and 0"):
        pairwise_distances(sets, none, "chamfer")
    with pytest.raises(DataError, match="at least one set on both sides, got 0 and 2"):
        compare_distributions(none, sets, "chamfer")


def test_different_features_are_refused() -> None:
    with pytest.raises(DataError, match="same features, got 1 and 2"):
        pairwise_distances(points([0.1]), random_sets([3], 0), "hungarian")


def test_different_devices_are_refused() -> None:
    sets = points([0.1])
    with pytest.raises(DataError, match="on one device, got cpu and meta"):
        pairwise_distances(sets, sets.to("meta"), "chamfer")


@each_distance
def test_nan_is_refused(distance: Distance) -> None:
    with pytest.raises(DataError, match="set 1 of the second batch holds NaN"):
        compare_distributions(points([0.1, 0.2]), points([0.1, math.nan]), distance)


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_distance_is_refused() -> None:
    with pytest.raises(SettingsError, match="distance must be one of chamfer, hungarian, got 'emd'"):
        pairwise_distances(points([0.1]), points([0.2]), "emd")  # type: ignore[arg-type]


def test_no_pairs_at_once_are_refused() -> None:
    with pytest.raises(SettingsError, match="pairs_at_once must be at least 1, got 0"):
        pairwise_distances(points([0.1]), points([0.2]), "chamfer", pairs_at_once=0)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("score", [coverage, minimum_matching_distance])
def test_wrong_matrices_are_refused(score: Callable[[Tensor], float]) -> None:
    with pytest.raises(DataError, match=r"must have shape \(real sets, predicted sets\), got \(3,\)"):
        score(torch.zeros(3))
    with pytest.raises(DataError, match=r"must not be empty, got shape \(3, 0\)"):
        score(torch.zeros(3, 0))
    with pytest.raises(DataError, match="must be finite"):
        score(torch.full((2, 2), math.nan))


@pytest.mark.usefixtures("unchecked")
def test_matrices_that_do_not_fit_together_are_refused() -> None:
    square, other = torch.zeros(2, 2), torch.zeros(3, 3)
    with pytest.raises(DataError, match=r"shapes \(2, 2\) and \(3, 3\), got \(3, 3\) and \(2, 2\)"):
        nearest_neighbour_accuracy(other, square, torch.zeros(2, 3))
    with pytest.raises(DataError, match="real_real must have shape"):
        nearest_neighbour_accuracy(torch.zeros(2), square, square)
