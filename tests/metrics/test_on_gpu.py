"""Metrics on a GPU are those of the CPU; apart from the others, whose needs a GPU machine may not have."""

import pytest
import torch
from set_examples import each_distance, random_sets

from desp.metrics.calibration import calibration, truth_ranks
from desp.metrics.distribution import compare_distributions, pairwise_distances
from desp.settings import Distance

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@each_distance
def test_scores_on_a_gpu_are_those_of_the_cpu(distance: Distance) -> None:
    real, predicted = random_sets([3, 4, 0, 2, 5], 0), random_sets([4, 1, 3], 1)
    cpu = pairwise_distances(real, predicted, distance)
    gpu = pairwise_distances(real.to("cuda"), predicted.to("cuda"), distance)
    assert gpu.is_cuda
    torch.testing.assert_close(gpu.cpu(), cpu)
    expected = compare_distributions(real, predicted, distance)
    found = compare_distributions(real.to("cuda"), predicted.to("cuda"), distance)
    assert found == pytest.approx(expected)


def test_ranks_on_a_gpu(generator: torch.Generator) -> None:
    values = torch.rand(1, 5, 5, generator=generator).cuda()
    ranks = truth_ranks(values, generator)
    assert ranks.is_cuda
    assert calibration(ranks, 4)["histogram"][int(ranks)] == 1
