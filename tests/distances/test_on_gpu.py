"""Assignments and Chamfer distances of what lies on a GPU."""

import pytest
import torch

from desp.distances import assign, chamfer
from desp.errors import DataError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DEVICE = "cuda"


@pytest.mark.parametrize("shape", [(1, 5, 5), (3, 1, 1), (64, 60, 60)])  # the last is solved in several threads
def test_assignments_are_those_of_the_cpu(shape: tuple[int, int, int], generator: torch.Generator) -> None:
    costs = torch.rand(shape, generator=generator)
    found = assign(costs.to(DEVICE))
    assert found.device.type == DEVICE
    assert torch.equal(found.cpu(), assign(costs))


def test_costs_that_are_not_finite_are_named() -> None:
    costs = torch.zeros(3, 2, 2, device=DEVICE)
    costs[1, 0, 0] = float("nan")
    with pytest.raises(DataError, match="Assignment 1 of the batch has NaN"):
        assign(costs)


def test_gradients_of_chamfer_are_those_of_the_cpu_and_the_same_each_time(generator: torch.Generator) -> None:
    a, b = torch.rand(4, 342, 3, generator=generator), torch.rand(4, 342, 3, generator=generator)
    b[:, 100:] = 0

    def gradients(device: str) -> torch.Tensor:
        inputs = a.to(device).requires_grad_()
        (found,) = torch.autograd.grad(chamfer(inputs, b.to(device)).sum(), inputs)
        return found

    expected, found = gradients("cpu"), gradients(DEVICE)
    torch.testing.assert_close(found.cpu(), expected)
    assert all(torch.equal(gradients(DEVICE), found) for _ in range(5))
