"""Poolings against closed forms and an independent numpy reference."""

import typing
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from desp.nn import FSPool, MaxPool, MeanPool, Pool, SumPool, make_pool
from desp.settings import Pooling

KINDS = typing.get_args(Pooling)
every_pool = pytest.mark.parametrize("kind", KINDS)

PRESENCE = torch.tensor(
    [[True, False, True, True, False], [False, False, True, False, False], [True] * 5, [False] * 5]
)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def fspool_reference(values: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """FSPool of one set (n, h): numpy's interpolation of the knots, element by element."""
    size, features = values.shape
    positions = [rank / (size - 1) if size > 1 else 0.0 for rank in range(size)]
    places = np.linspace(0, 1, knots.shape[1])
    pooled = np.zeros(features)
    for feature in range(features):
        ordered = sorted(values[:, feature], reverse=True)
        weights = np.interp(positions, places, knots[feature])
        pooled[feature] = sum(weight * value for weight, value in zip(weights, ordered, strict=True))
    return pooled


def test_make_pool_builds_what_it_is_asked_for() -> None:
    classes = {"fspool": FSPool, "mean": MeanPool, "max": MaxPool, "sum": SumPool}
    assert set(classes) == set(KINDS)
    for kind, expected in classes.items():
        assert type(make_pool(kind, 3)) is expected


@every_pool
def test_order_and_padding_do_not_matter(kind: Pooling, assert_invariant: Callable[..., None]) -> None:
    pool, values = make_pool(kind, 3).double(), draw(4, 5, 3)
    assert_invariant(pool, values)
    assert_invariant(pool, values, PRESENCE)


@every_pool
def test_masked_equals_removed(kind: Pooling) -> None:
    pool, values = make_pool(kind, 3).double(), draw(4, 5, 3)
    removed = [pool(rows[mask].unsqueeze(0))[0] for rows, mask in zip(values, PRESENCE, strict=True)]
    torch.testing.assert_close(pool(values, PRESENCE), torch.stack(removed), rtol=1e-6, atol=1e-6)


def test_masked_ranks_keep_double_precision() -> None:
    pool, values = FSPool(3).double(), draw(1, 9, 3)
    presence = torch.tensor([[True] * 8 + [False]])
    torch.testing.assert_close(pool(values, presence), pool(values[:, :8]), rtol=1e-12, atol=1e-12)


@every_pool
def test_empty_sets_pool_to_zero(kind: Pooling) -> None:
    pool = make_pool(kind, 3)
    assert pool(torch.zeros(2, 0, 3)).tolist() == [[0] * 3] * 2
    nobody = torch.zeros(2, 4, dtype=torch.bool)
    assert pool(torch.randn(2, 4, 3), nobody).tolist() == [[0] * 3] * 2
    assert pool(torch.zeros(2, 0, 3), nobody[:, :0]).tolist() == [[0] * 3] * 2


@every_pool
def test_masked_gradients_are_those_of_present_elements(kind: Pooling) -> None:
    """One of the sets is empty, which must not make anything NaN."""
    pool, values = make_pool(kind, 3).double(), draw(4, 5, 3).requires_grad_()
    (slope,) = torch.autograd.grad(pool(values, PRESENCE).square().sum(), values)
    assert not slope[~PRESENCE].any()
    for rows, mask, found in list(zip(values.detach(), PRESENCE, slope, strict=True))[:3]:
        alone = rows[mask].unsqueeze(0).requires_grad_()
        (expected,) = torch.autograd.grad(pool(alone).square().sum(), alone)
        torch.testing.assert_close(found[mask], expected[0])


@every_pool
def test_tables_given_or_not(kind: Pooling) -> None:
    pool, values = make_pool(kind, 3), torch.randn(4, 5, 3)
    assert torch.equal(pool(values, tables=pool.tables(5)), pool(values))


@every_pool
@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
def test_first_and_second_derivatives(kind: Pooling, masked: bool) -> None:
    pool, values = make_pool(kind, 2).double(), draw(4, 5, 2).requires_grad_()
    names = [name for name, _ in pool.named_parameters()]
    weights = tuple(parameter.detach().requires_grad_() for parameter in pool.parameters())

    def squared(rows: Tensor, *parameters: Tensor) -> Tensor:
        arguments = (rows, PRESENCE) if masked else (rows,)
        filled = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(pool, filled, arguments).square()

    assert torch.autograd.gradcheck(squared, (values, *weights))
    assert torch.autograd.gradgradcheck(squared, (values, *weights))


def test_closed_forms() -> None:
    values = torch.tensor([[[1.0, -2.0], [3.0, -4.0], [8.0, -9.0]]])
    assert SumPool()(values).tolist() == [[12.0, -15.0]]
    assert MeanPool()(values).tolist() == [[4.0, -5.0]]
    assert MaxPool()(values).tolist() == [[8.0, -2.0]]
    presence = torch.tensor([[True, True, False]])
    assert SumPool()(values, presence).tolist() == [[4.0, -6.0]]
    assert MeanPool()(values, presence).tolist() == [[2.0, -3.0]]
    assert MaxPool()(values, presence).tolist() == [[3.0, -2.0]]


@pytest.mark.parametrize("size", [1, 2, 3, 8, 20, 21, 22, 50])
def test_fspool_against_numpy(size: int) -> None:
    pool, values = FSPool(4).double(), draw(2, size, 4)
    expected = [fspool_reference(rows, pool.knots.detach().numpy()) for rows in values.numpy()]
    np.testing.assert_allclose(pool(values).detach().numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_fspool_with_other_numbers_of_pieces(pieces: int) -> None:
    pool, values = FSPool(3, pieces).double(), draw(2, 6, 3)
    assert pool.knots.shape == (3, pieces + 1)
    expected = [fspool_reference(rows, pool.knots.detach().numpy()) for rows in values.numpy()]
    np.testing.assert_allclose(pool(values).detach().numpy(), expected, rtol=1e-10)


def test_fspool_starts_with_twenty_pieces_and_unit_normal_knots() -> None:
    knots = FSPool(500).knots
    assert knots.shape == (500, 21)
    assert knots.mean().item() == pytest.approx(0, abs=0.05)
    assert knots.std().item() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
def test_fspool_breaks_ties_by_index(masked: bool) -> None:
    pool = FSPool(2).double()
    values = torch.full((1, 6, 2), 0.5, dtype=torch.float64, requires_grad=True)
    presence = torch.ones(1, 6, dtype=torch.bool) if masked else None
    pool(values, presence).sum().backward()
    # The gradient of a value is the weight of its rank: row i has rank i, and all ranks occur once.
    torch.testing.assert_close(values.grad[0], pool.tables(6)[0].detach(), rtol=1e-6, atol=1e-6)
    assert len(values.grad[0, :, 0].unique()) == 6


def test_fspool_of_one_element_uses_the_first_knot() -> None:
    pool, values = FSPool(3), torch.randn(2, 1, 3)
    torch.testing.assert_close(pool(values), values[:, 0] * pool.knots[:, 0])
    presence = torch.tensor([[True], [True]])
    torch.testing.assert_close(pool(values, presence), values[:, 0] * pool.knots[:, 0])


def test_fspool_tables_end_at_the_outer_knots() -> None:
    pool = FSPool(3)
    (table,) = pool.tables(5)
    torch.testing.assert_close(table[0], pool.knots[:, 0])
    torch.testing.assert_close(table[2], pool.knots[:, 10])
    torch.testing.assert_close(table[4], pool.knots[:, 20])


def test_fspool_trains_its_knots() -> None:
    pool: Pool = FSPool(3)
    pool(torch.randn(2, 21, 3)).sum().backward()
    assert all((parameter.grad != 0).any() for parameter in pool.parameters())
