"""Poolings against closed forms and an independent numpy reference."""

import typing
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from desp.nn import FSPool, Pool, make_pool
from desp.nn.pooling import _SoftmaxPool, _SumPool
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
    classes = {"fspool": FSPool, "softmax": _SoftmaxPool, "mean": _SumPool, "sum": _SumPool}
    assert set(classes) == set(KINDS)
    for kind, expected in classes.items():
        assert type(make_pool(kind, 3)) is expected


@every_pool
def test_order_does_not_matter(kind: Pooling, assert_invariant: Callable[..., None]) -> None:
    assert_invariant(make_pool(kind, 3).double(), draw(4, 5, 3))


def test_masked_equals_removed(assert_invariant: Callable[..., None]) -> None:
    pool, values = FSPool(3).double(), draw(4, 5, 3)
    assert_invariant(pool.masked, values, PRESENCE)
    removed = [pool(rows[mask].unsqueeze(0))[0] for rows, mask in zip(values, PRESENCE, strict=True)]
    torch.testing.assert_close(pool.masked(values, PRESENCE), torch.stack(removed), rtol=1e-6, atol=1e-6)


def test_masked_ranks_keep_double_precision() -> None:
    pool, values = FSPool(3).double(), draw(1, 9, 3)
    presence = torch.tensor([[True] * 8 + [False]])
    torch.testing.assert_close(pool.masked(values, presence), pool(values[:, :8]), rtol=1e-12, atol=1e-12)


@every_pool
def test_empty_sets_pool_to_zero(kind: Pooling) -> None:
    assert make_pool(kind, 3)(torch.zeros(2, 0, 3)).tolist() == [[0] * 3] * 2


def test_sets_without_present_elements_pool_to_zero() -> None:
    pool, nobody = FSPool(3), torch.zeros(2, 4, dtype=torch.bool)
    assert pool.masked(torch.randn(2, 4, 3), nobody).tolist() == [[0] * 3] * 2
    assert pool.masked(torch.zeros(2, 0, 3), nobody[:, :0]).tolist() == [[0] * 3] * 2


def test_masked_gradients_are_those_of_present_elements() -> None:
    """One of the sets is empty, which must not make anything NaN."""
    pool, values = FSPool(3).double(), draw(4, 5, 3).requires_grad_()
    (slope,) = torch.autograd.grad(pool.masked(values, PRESENCE).square().sum(), values)
    assert not slope[~PRESENCE].any()
    for rows, mask, found in list(zip(values.detach(), PRESENCE, slope, strict=True))[:3]:
        alone = rows[mask].unsqueeze(0).requires_grad_()
        (expected,) = torch.autograd.grad(pool(alone).square().sum(), alone)
        torch.testing.assert_close(found[mask], expected[0])


@every_pool
def test_cache_given_or_not(kind: Pooling) -> None:
    pool, values = make_pool(kind, 3), torch.randn(4, 5, 3)
    assert torch.equal(pool(values, cache=pool.cache(5)), pool(values))


@every_pool
def test_first_and_second_derivatives(kind: Pooling) -> None:
    pool, values = make_pool(kind, 2).double(), draw(4, 5, 2).requires_grad_()
    names = [name for name, _ in pool.named_parameters()]
    weights = tuple(parameter.detach().requires_grad_() for parameter in pool.parameters())

    def squared(rows: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(pool, dict(zip(names, parameters, strict=True)), (rows,)).square()

    assert torch.autograd.gradcheck(squared, (values, *weights))
    assert torch.autograd.gradgradcheck(squared, (values, *weights))


def test_first_and_second_derivatives_of_masked_sets() -> None:
    pool, values = FSPool(2).double(), draw(4, 5, 2).requires_grad_()

    def squared(rows: Tensor) -> Tensor:
        return pool.masked(rows, PRESENCE).square()

    assert torch.autograd.gradcheck(squared, (values,))
    assert torch.autograd.gradgradcheck(squared, (values,))


def test_closed_forms() -> None:
    values = torch.tensor([[[1.0, -2.0], [3.0, -4.0], [8.0, -9.0]]])
    assert make_pool("sum", 2)(values).tolist() == [[12.0, -15.0]]
    assert make_pool("mean", 2)(values).tolist() == [[4.0, -5.0]]


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
    pooled = pool.masked(values, torch.ones(1, 6, dtype=torch.bool)) if masked else pool(values)
    pooled.sum().backward()
    # The gradient of a value is the weight of its rank: row i has rank i, and all ranks occur once.
    torch.testing.assert_close(values.grad[0], pool.cache(6)[0].detach(), rtol=1e-6, atol=1e-6)
    assert len(values.grad[0, :, 0].unique()) == 6


def test_fspool_of_one_element_uses_the_first_knot() -> None:
    pool, values = FSPool(3), torch.randn(2, 1, 3)
    torch.testing.assert_close(pool(values), values[:, 0] * pool.knots[:, 0])
    presence = torch.tensor([[True], [True]])
    torch.testing.assert_close(pool.masked(values, presence), values[:, 0] * pool.knots[:, 0])


def test_fspool_cache_ends_at_the_outer_knots() -> None:
    pool = FSPool(3)
    (table,) = pool.cache(5)
    torch.testing.assert_close(table[0], pool.knots[:, 0])
    torch.testing.assert_close(table[2], pool.knots[:, 10])
    torch.testing.assert_close(table[4], pool.knots[:, 20])


def test_fspool_trains_its_knots() -> None:
    pool: Pool = FSPool(3)
    pool(torch.randn(2, 21, 3)).sum().backward()
    assert all((parameter.grad != 0).any() for parameter in pool.parameters())


# -- softmax -----------------------------------------------------------------------------------------------


def softmax_pool(*inverse_temperatures: float) -> _SoftmaxPool:
    pool = _SoftmaxPool(len(inverse_temperatures)).double()
    with torch.no_grad():
        pool.inverse_temperature.copy_(torch.tensor(inverse_temperatures))
    return pool


def test_softmax_against_numpy() -> None:
    pool, values = softmax_pool(-2.0, 0.5, 3.0), draw(4, 5, 3)
    for rows, pooled in zip(values.numpy(), pool(values).detach().numpy(), strict=True):
        weights = np.exp(np.array([-2.0, 0.5, 3.0]) * rows)
        np.testing.assert_allclose(pooled, 5 * (weights * rows).sum(axis=0) / weights.sum(axis=0), rtol=1e-10)


def test_softmax_lies_between_the_sum_and_as_many_times_an_extreme() -> None:
    values = draw(4, 5, 3)
    torch.testing.assert_close(softmax_pool(0.0, 0.0, 0.0)(values), values.sum(dim=1))
    torch.testing.assert_close(softmax_pool(1e6, 1e6, 1e6)(values), 5 * values.amax(dim=1))
    torch.testing.assert_close(softmax_pool(-1e6, -1e6, -1e6)(values), 5 * values.amin(dim=1))
    between = softmax_pool(2.0, 2.0, 2.0)(values)
    assert (between > values.sum(dim=1)).all()
    assert (between < 5 * values.amax(dim=1)).all()


def test_softmax_starts_with_different_temperatures_of_both_signs() -> None:
    inverse = _SoftmaxPool(5000).inverse_temperature
    assert inverse.shape == (5000,)
    assert inverse.mean().item() == pytest.approx(0, abs=0.15)
    assert inverse.std().item() == pytest.approx(3, rel=0.05)


def jump_at_a_swap(pool: Pool, distance: float) -> float:
    """How much the gradient changes while two elements, `distance` apart, change their order."""
    slopes = []
    for shift in (distance / 2, -distance / 2):
        values = torch.tensor([[[0.3 + shift], [0.3 - shift], [0.9]]], dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(pool(values).sum(), values)
        slopes.append(slope)
    return float((slopes[0] - slopes[1]).abs().max())


def test_the_gradient_of_softmax_is_continuous_where_elements_swap_and_that_of_fspool_is_not() -> None:
    smooth, sorted_ = softmax_pool(3.0), FSPool(1).double()
    jumps = [jump_at_a_swap(smooth, distance) for distance in (1e-2, 1e-4, 1e-6)]
    assert jumps[0] > 0
    assert [jumps[0] / jumps[1], jumps[1] / jumps[2]] == pytest.approx([100, 100], rel=0.05)
    assert jump_at_a_swap(sorted_, 1e-6) == pytest.approx(jump_at_a_swap(sorted_, 1e-2))
    assert jump_at_a_swap(sorted_, 1e-6) > 0.01
