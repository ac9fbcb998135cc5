"""Errors of features and of sizes, by hand."""

import math

import pytest
import torch

from desp.comparison.elements import feature_errors, matched, nearest_valid, size_confusion, sizes_right
from desp.comparison.examples import Examples
from desp.comparison.features import Feature
from desp.comparison.scoring import SystemPredictions
from desp.comparison.set_distance import StandardisedDistance
from desp.sets import SetBatch

AMOUNT, KIND = Feature("amount", "kg", (0, 1)), Feature("kind", "", (1, 3), ("a", "b"))
A, B = [1.0, 0.0], [0.0, 1.0]


def set_distance(features: int = 3, size: int = 3, *, aligned: bool = False) -> StandardisedDistance:
    return StandardisedDistance(torch.zeros(features), torch.ones(features), size, aligned)


def batch(*sets: list[list[float]]) -> SetBatch:
    return SetBatch.from_ragged(list(sets), 3, 3)


def test_errors_are_those_of_matched_elements_in_own_units() -> None:
    predicted = batch([[30.0, *A], [10.5, *B], [999.0, *A]], [[5.0, *A]], [])
    true = batch([[10.0, *B], [31.0, *B]], [[7.0, *A]], [[1.0, *A]])
    errors = feature_errors(set_distance(), (AMOUNT, KIND), predicted, true)
    assert errors[0].tolist() == [0.75, 0.5]  # 10.5 for 10, 30 for 31; the third has no match
    assert errors[1].tolist() == [2.0, 0.0]
    assert bool(errors[2].isnan().all())  # nothing to match


def test_aligned_elements_are_matched_by_their_places() -> None:
    predicted, true = torch.tensor([[0.0], [1.0]]), torch.tensor([[1.0], [0.0]])
    assert matched(set_distance(1, aligned=True), predicted, true).tolist() == [[0, 1], [0, 1]]
    assert matched(set_distance(1), predicted, true).tolist() == [[0, 1], [1, 0]]


def test_elements_of_large_sets_take_the_nearest() -> None:
    predicted = torch.arange(100.0).unsqueeze(1)
    rows, columns = matched(set_distance(1, 100), predicted, torch.tensor([[3.2], [3.4], [90.0]]))
    assert (rows.tolist(), columns.tolist()) == ([3, 3, 90], [0, 1, 2])


def test_the_nearest_of_several_valid_sets_counts() -> None:
    first, second = batch([[0.0, *A]], [[0.0, *A]]), batch([[9.0, *A]], [[9.0, *A]])
    tests = Examples(torch.zeros(2, 1), first, (first, second))
    found = nearest_valid(set_distance(), tests, batch([[1.0, *A]], [[8.0, *A]]))
    assert found.elements[:, 0, 0].tolist() == [0.0, 9.0]


def test_a_size_is_right_if_any_valid_set_has_it() -> None:
    one, two = batch([[0.0, *A]], [[0.0, *A]]), batch([[0.0, *A], [1.0, *A]], [])
    samples = batch([[0.0, *A]], [[0.0, *A], [0.0, *A]], [[0.0, *A]], [[0.0, *A], [0.0, *A]])
    predicted = SystemPredictions(samples, one)
    assert sizes_right(Examples(torch.zeros(2, 1), one), predicted).tolist() == [0.5, 0.5]
    assert sizes_right(Examples(torch.zeros(2, 1), one, (one, two)), predicted).tolist() == [1.0, 0.5]


def test_sizes_are_counted_by_true_and_predicted_ones() -> None:
    found = size_confusion(torch.tensor([1, 1, 3, 3]), torch.tensor([1, 2, 3, 1]))
    assert found["sizes"] == [[1, 1], [2, 2], [3, 3]]
    assert found["counts"] == [[1, 1, 0], [0, 0, 0], [1, 0, 1]]
    assert (found["too_few"], found["too_many"]) == (0.25, 0.25)


@pytest.mark.parametrize(("largest", "width"), [(9, 1), (10, 2), (499, 50)])
def test_many_sizes_are_put_together(largest: int, width: int) -> None:
    sizes = torch.arange(largest + 1)
    found = size_confusion(sizes, sizes)
    assert found["sizes"][0] == [0, width - 1]
    assert found["sizes"][-1][1] == largest
    assert len(found["counts"]) == math.ceil((largest + 1) / width) <= 10
    assert sum(row[place] for place, row in enumerate(found["counts"])) == largest + 1
