"""Distances of all pairs of two batches of sets, against loops over their definitions."""

from collections.abc import Callable
from itertools import permutations
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from set_examples import each_distance, points, random_sets
from torch import Tensor

from desp.distances import SET_DISTANCES
from desp.errors import DataError, SettingsError
from desp.metrics import distribution
from desp.metrics.distribution import compare_distributions, pairwise_distances
from desp.sets import SetBatch
from desp.settings import Distance

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


# -- distances of all pairs ----------------------------------------------------------------------------


@each_distance
@pytest.mark.parametrize("values_at_once", [2**22, 1, 128, 40_000])
def test_pairs_against_loops(distance: Distance, values_at_once: int) -> None:
    """Sets of different sizes, batches of different padded sizes, an empty set on both sides."""
    first, second = random_sets([3, 0, 4, 1], 0), random_sets([2, 3, 0], 1)
    with mock.patch.object(distribution, "VALUES_AT_ONCE", values_at_once):
        found = pairwise_distances(first, second, distance)
    expected = torch.tensor(plain_pairs(first, second, distance), dtype=torch.float64)
    torch.testing.assert_close(found, expected)
    assert float(found[1, 2]) == 0  # empty and empty


@each_distance
@given(
    first=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    second=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    at_once=st.integers(1, 400),
)
def test_pairs_of_odd_sizes(distance: Distance, first: list[int], second: list[int], at_once: int) -> None:
    a, b = random_sets(first, 2), random_sets(second, 3)
    with mock.patch.object(distribution, "VALUES_AT_ONCE", at_once):
        found = pairwise_distances(a, b, distance)
    expected = torch.tensor(plain_pairs(a, b, distance), dtype=torch.float64)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(pairwise_distances(b, a, distance), expected.T)


@each_distance
@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=6), at_once=st.integers(1, 800))
def test_a_batch_against_itself_is_the_same_for_half_the_work(
    distance: Distance, sizes: list[int], at_once: int
) -> None:
    sets = random_sets(sizes, 4)
    with mock.patch.object(distribution, "VALUES_AT_ONCE", at_once):
        found = pairwise_distances(sets, sets, distance)
    other = SetBatch(sets.elements.clone(), sets.mask.clone())
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

    assert_invariant(distances, first.elements, first.mask)


def test_absent_rows_may_hold_nan() -> None:
    sets = random_sets([2, 3], 9)
    elements = sets.elements.masked_fill(~sets.mask.unsqueeze(-1), torch.nan)
    found = pairwise_distances(SetBatch(elements, sets.mask), sets, "chamfer")
    torch.testing.assert_close(found, pairwise_distances(sets, sets, "chamfer"))


def test_a_missing_element_costs_something() -> None:
    whole, part = random_sets([4], 10), random_sets([4], 10)
    part.mask[0, 2] = False
    assert float(pairwise_distances(whole, part, "chamfer")) > 1e-3
    assert float(pairwise_distances(whole, part, "hungarian")) > 1e-3


def test_the_wider_type_is_taken() -> None:
    sets = random_sets([2, 3], 11)
    narrow = SetBatch(sets.elements.float(), sets.mask)
    assert pairwise_distances(narrow, sets, "chamfer").dtype == torch.float64
    assert pairwise_distances(narrow, narrow, "hungarian").dtype == torch.float32


def test_no_gradients_are_kept() -> None:
    sets = random_sets([2, 3], 12)
    with_gradient = SetBatch(sets.elements.requires_grad_(), sets.mask)
    assert not pairwise_distances(with_gradient, sets, "chamfer").requires_grad


def test_more_pairs_than_fit_at_once() -> None:
    """Some 100,000 pairs of Polygons' size."""
    sets = torch.rand(320, 8, 2, generator=torch.Generator().manual_seed(0))
    batch = SetBatch(sets, torch.ones(320, 8, dtype=torch.bool))
    found = pairwise_distances(batch, SetBatch(sets.flip(0), batch.mask), "chamfer")
    assert float(found.flip(1).diagonal().max()) == 0
    expected = SET_DISTANCES["chamfer"](sets[:1].expand(320, -1, -1), sets)
    torch.testing.assert_close(found[0], expected.flip(0))


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


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_distance_is_refused() -> None:
    with pytest.raises(SettingsError, match="distance must be one of chamfer, hungarian, got 'emd'"):
        pairwise_distances(points([0.1]), points([0.2]), "emd")  # type: ignore[arg-type]
