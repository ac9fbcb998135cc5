"""Weights of ranks against the sort they replace."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from desp.nn.ranks import COMPARED_ON_CPU, compared_ranks, packed_order, rank_weights, shifted_ranks


def by_sorting(values: Tensor, table: Tensor) -> Tensor:
    """The gradient of FSPool as released: sort, gather, scatter by autograd."""
    leaf = values.detach().requires_grad_()
    order = leaf.argsort(dim=1, descending=True, stable=True)
    (gradient,) = torch.autograd.grad((leaf.gather(1, order) * table).sum(), leaf)
    return gradient


@given(
    size=st.integers(0, 2 * COMPARED_ON_CPU + 3),
    batch=st.integers(0, 3),
    levels=st.sampled_from([1, 2, 5, 10**6]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 100),
)
def test_ties_go_by_index_whatever_the_size(
    size: int, batch: int, levels: int, dtype: torch.dtype, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(levels, (batch, size, 3), generator=generator).to(dtype) - levels / 2
    table = torch.randn(size, 3, generator=generator, dtype=dtype)
    assert torch.equal(rank_weights(values, table), by_sorting(values, table))
    expected = values.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    assert torch.equal(compared_ranks(values), expected)
    assert torch.equal(shifted_ranks(values).long(), expected)


@pytest.mark.parametrize("special", [[-0.0, 0.0, -0.0], [torch.inf, -torch.inf, 0.0], [1e-40, -1e-40, 0.0, 1e38]])
def test_special_values(special: list[float]) -> None:
    values = torch.tensor(special).view(1, -1, 1)
    table = torch.arange(1.0, len(special) + 1).view(-1, 1)
    expected = by_sorting(values, table)
    assert torch.equal(rank_weights(values, table), expected)
    order = values.argsort(dim=1, descending=True, stable=True)
    assert torch.equal(packed_order(values).transpose(1, 2), order)


@pytest.mark.parametrize("size", [5, 40])
def test_nan_leaves_other_sets_alone_and_gives_no_rank_that_is_none(size: int) -> None:
    """A rank beyond the table would read memory that is not its own."""
    values = torch.randn(2, size, 3)
    values[0, 1] = torch.nan
    table = torch.arange(float(size)).view(-1, 1).expand(-1, 3)
    weights = rank_weights(values, table)
    assert torch.equal(weights[1:], by_sorting(values[1:], table))
    assert torch.isin(weights[0], table).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [4, COMPARED_ON_CPU + 1])
def test_weights_can_be_differentiated_in_the_table(size: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(2, size, 3, generator=generator, dtype=dtype, requires_grad=True)
    table = torch.randn(size, 3, generator=generator, dtype=dtype, requires_grad=True)
    factors = torch.randn(2, size, 3, generator=generator, dtype=dtype)
    (found,) = torch.autograd.grad((rank_weights(values, table) * factors).sum(), table)
    order = values.argsort(dim=1, descending=True, stable=True)
    torch.testing.assert_close(found, factors.gather(1, order).sum(dim=0))


@pytest.mark.parametrize("size", [6, 40])
def test_half_precision_values_with_full_precision_weights(size: int) -> None:
    values, table = torch.randn(2, size, 3).bfloat16(), torch.randn(size, 3)
    weights = rank_weights(values, table)
    assert weights.dtype == torch.float32
    assert torch.equal(weights, by_sorting(values.float(), table))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [6, 40])
def test_works_under_function_transforms(size: int, dtype: torch.dtype) -> None:
    values, table = torch.randn(2, size, 3, dtype=dtype), torch.randn(size, 3, dtype=dtype)

    def pooled(rows: Tensor) -> Tensor:
        return (rows * rank_weights(rows, table)).sum()

    torch.testing.assert_close(torch.func.grad(pooled)(values), by_sorting(values, table))
