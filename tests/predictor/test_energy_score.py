"""The energy score is nearly a proper scoring rule: as far as `docs/methods.md` says."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from desp.distances import chamfer, hungarian
from desp.predictor.energy_score import distances_among

Distance = Callable[[Tensor, Tensor], Tensor]
each_distance = pytest.mark.parametrize("distance", [chamfer, hungarian])


def roots_among(sets: Tensor, distance: Distance) -> Tensor:
    return distances_among(sets.unsqueeze(0), distance)[0].clamp(min=0).sqrt().double()


@each_distance
@pytest.mark.parametrize("elements", [2, 3, 5])
def test_among_random_sets_the_distance_is_of_negative_type(distance: Distance, elements: int) -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        roots = roots_among(torch.rand(12, elements, 2, generator=generator), distance)
        centred = roots - roots.mean(dim=0) - roots.mean(dim=1, keepdim=True) + roots.mean()
        assert torch.linalg.eigvalsh(centred)[-1] < 1e-6


@pytest.mark.parametrize(
    ("distance", "true", "false", "lower_by"),
    [
        (chamfer, [[[0], [10], [10]], [[0], [0], [4]]], [[[0], [4], [4]], [[10], [0], [0]]], 0.02),
        (
            hungarian,
            [
                [[10, 5], [1, 7], [5, 3]],
                [[2, 8], [6, 6], [8, 1]],
                [[7, 10], [7, 4], [2, 2]],
                [[10, 6], [4, 6], [1, 3]],
            ],
            [
                [[0, 5], [6, 7], [9, 4]],
                [[7, 6], [5, 0], [3, 9]],
                [[5, 4], [9, 8], [1, 3]],
                [[4, 4], [2, 9], [9, 2]],
            ],
            0.06,
        ),
    ],
    ids=["chamfer", "hungarian"],
)
def test_constructed_distributions_of_which_the_false_one_scores_lower(
    distance: Distance, true: list[list[list[int]]], false: list[list[list[int]]], lower_by: float
) -> None:
    """All sets of a distribution are equally probable; the scores are the expected ones."""
    count = len(true)
    roots = roots_among(torch.tensor(true + false) / 10, distance)
    honest = roots[:count, :count].mean() / 2
    other = roots[:count, count:].mean() - roots[count:, count:].mean() / 2
    assert float(1 - other / honest) == pytest.approx(lower_by, abs=0.005)
