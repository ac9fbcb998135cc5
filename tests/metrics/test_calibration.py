"""Ranks of the truth: against loops, and of predictors whose spread is known."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Tensor

from desp.errors import DataError
from desp.metrics.calibration import calibration, truth_ranks
from desp.metrics.distribution import pairwise_distances
from desp.sets import SetBatch


def plain_ranks(distances: Tensor) -> list[tuple[int, int]]:
    """The lowest and the highest rank that the truth of each test may have."""
    found = []
    for matrix in distances.tolist():
        # math.fsum is exact, so ties do not depend on the order
        means = [math.fsum(value for j, value in enumerate(row) if j != i) for i, row in enumerate(matrix)]
        found.append((sum(m < means[0] for m in means[1:]), sum(m <= means[0] for m in means[1:])))
    return found


def test_ranks_against_loops(generator: torch.Generator) -> None:
    values = torch.rand(50, 6, 6, generator=generator, dtype=torch.float64)
    ranks = truth_ranks(values, generator)
    assert [(rank, rank) for rank in ranks.tolist()] == plain_ranks(values)


@given(seed=st.integers(0, 1000), samples=st.integers(1, 6))
def test_ranks_with_many_ties_are_possible_ones(seed: int, samples: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(3, (20, samples + 1, samples + 1), generator=generator) * 0.1
    ranks = truth_ranks(values, generator).tolist()
    for rank, (low, high) in zip(ranks, plain_ranks(values), strict=True):
        assert low <= rank <= high


@pytest.mark.parametrize("samples", [1, 2, 7, 30])
def test_ties_are_broken_evenly(samples: int, generator: torch.Generator) -> None:
    """All distances equal, 0.1 in double precision: sums of them depend on the order of adding."""
    values = torch.full((4000, samples + 1, samples + 1), 0.1, dtype=torch.float64)
    values.diagonal(dim1=1, dim2=2).zero_()
    found = calibration(truth_ranks(values, generator), samples)
    assert found["p_value"] > 0.01
    assert min(found["histogram"]) > 0


def test_the_diagonal_is_ignored(generator: torch.Generator) -> None:
    values = torch.rand(10, 4, 4, generator=generator)
    expected = truth_ranks(values, generator)
    values[:, range(4), range(4)] = 5.0
    assert torch.equal(truth_ranks(values, generator), expected)


def test_ties_depend_on_the_generator_alone() -> None:
    values = torch.zeros(100, 5, 5)
    first, again, other = (truth_ranks(values, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def ranks_of(spread: float, tests: int = 1000, samples: int = 9) -> Tensor:
    """Truths are sets of three normal points; predictions are such sets, `spread` times as wide."""
    generator = torch.Generator().manual_seed(0)
    sets = torch.randn(tests, samples + 1, 3, 2, generator=generator, dtype=torch.float64)
    sets[:, 1:] *= spread
    sets += 10 * torch.rand(
        tests, 1, 1, 2, generator=generator, dtype=torch.float64
    )  # every input has its own place
    presence = torch.ones(samples + 1, 3, dtype=torch.bool)
    batches = [SetBatch(item, presence) for item in sets]
    return truth_ranks(torch.stack([pairwise_distances(item, item, "chamfer") for item in batches]), generator)


def test_predictions_drawn_as_the_truth_is_are_calibrated() -> None:
    found = calibration(ranks_of(1.0), 9)
    assert found["p_value"] > 0.01
    assert found["deviation"] < 1.36 / math.sqrt(1000)  # the 5 % point of continuous values, a bound for these
    assert found["histogram"] == pytest.approx([0.1] * 10, abs=0.04)


def test_over_confident_predictions_leave_the_truth_outside() -> None:
    found = calibration(ranks_of(0.5), 9)
    assert found["histogram"][9] > 0.5
    assert found["deviation"] > 0.4
    assert found["p_value"] < 1e-6


def test_over_dispersed_predictions_leave_the_truth_in_the_middle() -> None:
    found = calibration(ranks_of(2.0), 9)
    assert sum(found["histogram"][:3]) > 0.6
    assert found["histogram"][9] < 0.01
    assert found["deviation"] > 0.4
    assert found["p_value"] < 1e-6


def test_calibration_by_hand() -> None:
    found = calibration(torch.tensor([0, 0, 1, 2, 0, 0, 2, 0]), 3)
    assert found["histogram"] == (5 / 8, 1 / 8, 2 / 8, 0.0)
    assert found["deviation"] == pytest.approx(5 / 8 - 1 / 4)
    assert found["p_value"] == pytest.approx(chisquare([5, 1, 2, 0]).pvalue)


@given(samples=st.integers(1, 8), data=st.data())
def test_calibration_against_loops(samples: int, data: st.DataObject) -> None:
    ranks = data.draw(st.lists(st.integers(0, samples), min_size=1, max_size=40))
    found = calibration(torch.tensor(ranks), samples)
    counts = [ranks.count(rank) for rank in range(samples + 1)]
    assert found["histogram"] == pytest.approx([count / len(ranks) for count in counts])
    below = [sum(counts[: rank + 1]) / len(ranks) - (rank + 1) / (samples + 1) for rank in range(samples + 1)]
    assert found["deviation"] == pytest.approx(max(map(abs, below)), abs=1e-12)
    assert found["p_value"] == pytest.approx(chisquare(counts).pvalue)


def test_calibration_at_its_ends() -> None:
    perfect = calibration(torch.arange(50) % 5, 4)
    assert perfect["histogram"] == (0.2,) * 5
    assert perfect["deviation"] == pytest.approx(0.0, abs=1e-12)
    assert perfect["p_value"] == 1
    for rank in (0, 4):
        worst = calibration(torch.full((50,), rank), 4)
        assert worst["deviation"] == pytest.approx(4 / 5)
        assert worst["p_value"] < 1e-12


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 4), (2, 1, 1)])
def test_wrong_shapes_of_tests_are_refused(shape: tuple[int, ...], generator: torch.Generator) -> None:
    with pytest.raises(DataError, match=r"shape \(tests, K \+ 1, K \+ 1\)"):
        truth_ranks(torch.zeros(shape), generator)


def test_no_tests_are_refused(generator: torch.Generator) -> None:
    with pytest.raises(DataError, match="must not be empty"):
        truth_ranks(torch.zeros(0, 3, 3), generator)
    with pytest.raises(DataError, match="must be finite"):
        truth_ranks(torch.full((1, 3, 3), math.inf), generator)
