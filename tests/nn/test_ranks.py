"""Weights of ranks against the sort they replace."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from desp.nn.ranks import SMALL, counted_ranks, rank_weights


def by_sorting(values: Tensor, table: Tensor) -> Tensor:
    """The gradient of FSPool as released: sort, gather, scatter by autograd."""
    leaf = values.detach().requires_grad_()
    order = leaf.argsort(dim=1, descending=True, stable=True)
    (gradient,) = torch.autograd.grad((leaf.gather(1, order) * table).sum(), leaf)
    return gradient


@given(
    size=st.integers(0, 2 * SMALL + 3),
    batch=st.integers(0, 3),
    levels=st.sampled_from([1, 2, 5, 10**6]),
    seed=st.integers(0, 100),
)
def test_ties_go_by_index_whatever_the_size(size: int, batch: int, levels: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(levels, (batch, size, 3), generator=generator).double() - levels / 2
    table = torch.randn(size, 3, generator=generator, dtype=torch.float64)
    assert torch.equal(rank_weights(values, table), by_sorting(values, table))
    expected = values.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    assert torch.equal(counted_ranks(values), expected)


def test_signed_zeros_are_equal() -> None:
    values = torch.tensor([-0.0, 0.0, -0.0]).view(1, 3, 1)
    assert counted_ranks(values).flatten().tolist() == [0, 1, 2]


def test_weights_can_be_differentiated_in_the_table() -> None:
    generator = torch.Generator().manual_seed(0)
    for size in (4, SMALL + 1):
        values = torch.randn(2, size, 3, generator=generator, dtype=torch.float64, requires_grad=True)
        table = torch.randn(size, 3, generator=generator, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda weights, rows=values: rank_weights(rows, weights), (table,))
