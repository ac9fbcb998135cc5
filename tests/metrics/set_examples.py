"""Small sets, for the tests of distances and of distributions."""

import pytest
import torch
from torch import Tensor

from desp.sets import SetBatch

each_distance = pytest.mark.parametrize("distance", ["chamfer", "hungarian"])


def random_sets(sizes: list[int], seed: int, max_size: int | None = None) -> SetBatch:
    generator = torch.Generator().manual_seed(seed)
    sets = [torch.rand(size, 2, generator=generator, dtype=torch.float64) for size in sizes]
    return SetBatch.from_ragged(sets, max_size, features=2)


def points(places: Tensor | list[float]) -> SetBatch:
    """Sets of one element with one feature: distances are half the squared differences (below 1)."""
    elements = torch.as_tensor(places, dtype=torch.float64).reshape(-1, 1, 1)
    return SetBatch(elements, torch.ones(elements.shape[:2], dtype=torch.bool))
