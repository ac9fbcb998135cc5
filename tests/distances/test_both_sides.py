"""Whatever compares two sets treats both alike: order, padding and gaps do not matter on either side."""

import inspect
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

import desp.distances
import desp.metrics.distribution
import desp.metrics.reconstruction
from desp.distances import (
    aligned_distance,
    chamfer,
    chamfer_of_equal_sizes,
    huber_pairs,
    hungarian,
    hungarian_of_sets,
    nearest_hungarian,
)
from desp.metrics.distribution import compare_distributions, pairwise_distances
from desp.metrics.reconstruction import distance_each, reconstruction_scores
from desp.sets import SetBatch

SIZES = [2, 5, 0, 3]
SIDES = (0, 1)
Compare = Callable[[SetBatch, SetBatch], Tensor]

each_side = pytest.mark.parametrize("side", SIDES, ids=["first", "second"])


def ragged(sizes: list[int], seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(size, 2, generator=generator, dtype=torch.float64) for size in sizes]


def with_gaps(sets: SetBatch, rubbish: float = 9.0) -> SetBatch:
    """The same sets in another order, with absent rows that hold rubbish between their elements."""
    order = torch.arange(sets.max_size - 1, -1, -1)
    elements = torch.where(sets.mask.unsqueeze(-1), sets.elements, rubbish)
    return SetBatch(elements[:, order], sets.mask[:, order])


def padded(sets: SetBatch) -> SetBatch:
    """The same sets with three more absent rows, in front."""
    rows = torch.full((len(sets), 3, sets.features), -7.0, dtype=sets.elements.dtype)
    presence = torch.nn.functional.pad(sets.mask, (3, 0))
    return SetBatch(torch.cat([rows, sets.elements], dim=1), presence)


def masks(distance: Callable[..., Tensor]) -> Compare:
    return lambda a, b: distance(a.elements, b.elements, a.mask, b.mask)


def scores(a: SetBatch, b: SetBatch) -> Tensor:
    found = compare_distributions(a, b, "hungarian")
    return torch.tensor(
        [found[name] for name in ("coverage", "minimum_matching_distance", "nearest_neighbour_accuracy")]
    )


OF_SETS: dict[str, Compare] = {
    "chamfer": masks(chamfer),
    "chamfer_of_equal_sizes": masks(chamfer_of_equal_sizes),
    "hungarian_of_sets": hungarian_of_sets,
    "hungarian_of_sets of any size": lambda a, b: hungarian_of_sets(a, b, pad_with_zeros=True),
    "pairwise_distances": lambda a, b: pairwise_distances(a, b, "hungarian"),
    "pairwise_distances by chamfer": lambda a, b: pairwise_distances(a, b, "chamfer"),
    "compare_distributions": scores,
}
# Zero vectors take part in these, and how many there are counts.
FIXED_SIZE = {"pairwise_distances", "pairwise_distances by chamfer", "compare_distributions"}


def change(side: int, how: Callable[[SetBatch], SetBatch], sets: tuple[SetBatch, SetBatch]) -> list[SetBatch]:
    return [how(item) if index == side else item for index, item in enumerate(sets)]


@each_side
@pytest.mark.parametrize("name", OF_SETS)
def test_order_and_absent_rows_do_not_matter(name: str, side: int) -> None:
    sets = tuple(SetBatch.from_ragged(ragged(SIZES, seed), 6, features=2) for seed in (1, 2))
    expected = OF_SETS[name](*sets)
    torch.testing.assert_close(OF_SETS[name](*change(side, with_gaps, sets)), expected)
    if name not in FIXED_SIZE:
        torch.testing.assert_close(OF_SETS[name](*change(side, padded, sets)), expected)
        assert expected[2] == 0  # empty and empty


@pytest.mark.parametrize("name", [name for name in OF_SETS if name != "compare_distributions"])
def test_which_one_comes_first_does_not_matter(name: str) -> None:
    """Also where one batch is padded to a larger size than the other."""
    a, b = (SetBatch.from_ragged(ragged(SIZES, seed), size, features=2) for seed, size in ((1, 6), (2, 8)))
    there, back = OF_SETS[name](a, b), OF_SETS[name](b, a)
    torch.testing.assert_close(there, back.T if there.dim() == 2 else back)
    assert float(there.abs().max()) > 0


def test_accuracy_does_not_depend_on_what_is_called_real() -> None:
    a, b = (SetBatch.from_ragged(ragged(SIZES * 4, seed), size) for seed, size in ((1, 6), (2, 8)))
    there, back = compare_distributions(a, b, "chamfer"), compare_distributions(b, a, "chamfer")
    assert there["nearest_neighbour_accuracy"] == back["nearest_neighbour_accuracy"]
    assert there["minimum_matching_distance"] != back["minimum_matching_distance"]


# -- padded tensors: all rows take part ------------------------------------------------------------------


def measured(a: Tensor, b: Tensor) -> Tensor:
    """All metrics, on one set after another, and the distances."""
    scores, distances = reconstruction_scores(a, b, range(1, len(a) + 1))
    return torch.cat([distances, *(torch.tensor(list(item.values()), dtype=a.dtype) for item in scores.values())])


OF_ROWS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "chamfer": chamfer,
    "hungarian": hungarian,
    "nearest_hungarian": nearest_hungarian,
    "distance_each": partial(distance_each, chamfer),
    "reconstruction_scores": measured,
}


def rows() -> tuple[Tensor, Tensor]:
    first, second = torch.rand(2, 3, 5, 4, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    return first, second


@each_side
@pytest.mark.parametrize("name", OF_ROWS)
def test_order_of_rows_does_not_matter(name: str, side: int) -> None:
    given = rows()
    mixed = [item[:, [3, 1, 4, 0, 2]] if index == side else item for index, item in enumerate(given)]
    torch.testing.assert_close(OF_ROWS[name](*mixed), OF_ROWS[name](*given))


@pytest.mark.parametrize("name", ["chamfer", "hungarian", "distance_each", "reconstruction_scores"])
def test_distances_are_symmetric(name: str) -> None:
    first, second = rows()
    torch.testing.assert_close(OF_ROWS[name](first, second), OF_ROWS[name](second, first))


def test_distances_of_all_pairs_are_those_of_their_rows() -> None:
    first, second = rows()
    pairs = huber_pairs(first, second)
    torch.testing.assert_close(huber_pairs(second, first), pairs.transpose(1, 2))
    order = [3, 1, 4, 0, 2]
    torch.testing.assert_close(huber_pairs(first[:, order], second), pairs[:, order])
    torch.testing.assert_close(huber_pairs(first, second[:, order]), pairs[:, :, order])


def test_aligned_sets_may_hold_anything_where_nothing_is() -> None:
    (first, second), presence = rows(), torch.tensor([[True, False, True, False, True]]).expand(3, 5)
    expected = aligned_distance(first, second, presence)
    torch.testing.assert_close(aligned_distance(second, first, presence), expected)
    absent = ~presence.unsqueeze(-1)
    torch.testing.assert_close(aligned_distance(first.masked_fill(absent, 9.0), second, presence), expected)
    torch.testing.assert_close(aligned_distance(first, second.masked_fill(absent, 9.0), presence), expected)
    order = [3, 1, 4, 0, 2]
    mixed = aligned_distance(first[:, order], second[:, order], presence[:, order])
    torch.testing.assert_close(mixed, expected)
    assert bool((aligned_distance(first[:, order], second, presence) != expected).all())


def test_aligned_distance_is_a_mean_over_features_and_present_elements() -> None:
    a = torch.zeros(2, 3, 2)
    b = torch.tensor([[[0.5, 0.0], [3.0, 1.0], [9.0, 9.0]], [[9.0, 9.0]] * 3])
    presence = torch.tensor([[True, True, False], [False] * 3])
    each = [0.125 / 2, (2.5 + 0.5) / 2]
    assert aligned_distance(a, b, presence).tolist() == pytest.approx([sum(each) / 2, 0.0])


def test_no_comparison_is_left_out() -> None:
    """A new function of two sets belongs into one of the tables here."""
    elsewhere = {"huber_pairs", "aligned_distance", "match_boxes"}  # the last one in a file of its own
    # Of numbers that belong to sets, not of sets: matrices of distances, sizes, one set and its kind.
    others = {"nearest_neighbour_accuracy", "size_rmse", "batched_size_rmse", "right_size", "polygon_score"}
    others |= {"truth_ranks", "calibration", "released_sizes", "find_metric", "describe", "assign"}
    found = set()
    for module in (desp.distances, desp.metrics.distribution, desp.metrics.reconstruction):
        for name, function in vars(module).items():
            own = inspect.isfunction(function) and function.__module__.startswith(module.__name__)
            if own and not name.startswith("_") and len(inspect.signature(function).parameters) > 1:
                found.add(name)
    assert found - others == {name.split(" ")[0] for name in (*OF_SETS, *OF_ROWS)} | elsewhere
