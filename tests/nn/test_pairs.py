"""Pairs of elements, and the set encoder that sees them: the relation network of DSPN."""

import typing
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from desp.nn import FSPool, SetEncoder
from desp.nn.pairs import ordered_pairs, pairs_with_pullback
from desp.settings import Pooling, SetEncoderEnergySettings

SIZES = st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(1, 3))


def relation_network(**settings: Any) -> SetEncoder:
    made = SetEncoderEnergySettings(hidden=8, latent=5, layers=2, pairs=True, **settings)
    return SetEncoder(made, 3).double()


def some_sets(batch: int = 3, size: int = 4, features: int = 3) -> Tensor:
    return torch.rand(batch, size, features, dtype=torch.float64)


@given(SIZES)
def test_all_ordered_pairs(shape: tuple[int, int, int]) -> None:
    batch, size, features = shape
    sets = some_sets(*shape)
    found = ordered_pairs(sets)
    assert found.shape == (batch, size * size, 2 * features)
    for i in range(size):
        for j in range(size):
            assert torch.equal(found[:, i * size + j], torch.cat([sets[:, i], sets[:, j]], dim=-1))


@given(SIZES)
def test_gradients_of_pairs_are_those_of_autograd(shape: tuple[int, int, int]) -> None:
    sets = some_sets(*shape).requires_grad_()
    found, pull = pairs_with_pullback(sets)
    assert torch.equal(found, ordered_pairs(sets))
    weights = torch.rand_like(found)
    (expected,) = torch.autograd.grad((ordered_pairs(sets) * weights).sum(), sets)
    torch.testing.assert_close(pull(weights), expected, rtol=1e-12, atol=1e-12)


def released(encoder: SetEncoder, sets: Tensor) -> Tensor:
    """Layers on all pairs, divided twice by N, then sorted and weighted: one set and one feature at a time."""
    first, second = encoder.mlp.linears
    pool = encoder.pool
    assert isinstance(pool, FSPool)
    size = sets.shape[1]
    codes = torch.zeros(len(sets), 5, dtype=sets.dtype)
    for k, rows in enumerate(sets):
        pairs = torch.stack([torch.cat([one, other]) for one in rows for other in rows])
        values = second(F.leaky_relu(first(pairs), encoder.mlp.negative_slope)) / size / size
        for feature in range(5):
            ordered = values[:, feature].sort(descending=True).values
            for rank, value in enumerate(ordered):
                place = 20 * rank / max(size * size - 1, 1)
                left = min(int(place), 19)
                knots = pool.knots[feature]
                codes[k, feature] += value * torch.lerp(knots[left], knots[left + 1], place - left)
    return codes


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("slope", [0.0, 0.01])
def test_relation_network_is_the_released_one(size: int, slope: float) -> None:
    encoder = relation_network(divide_by_size=True, negative_slope=slope)
    assert [(layer.in_features, layer.out_features) for layer in encoder.mlp.linears] == [(6, 8), (8, 5)]
    sets = some_sets(size=size)
    with torch.no_grad():
        torch.testing.assert_close(encoder(sets), released(encoder, sets))


@pytest.mark.parametrize("pooling", typing.get_args(Pooling))
@pytest.mark.parametrize("divide", [False, True])
def test_relation_network_ignores_order(
    pooling: Pooling, divide: bool, assert_invariant: Callable[..., None]
) -> None:
    encoder = relation_network(pooling=pooling, divide_by_size=divide)
    sets = some_sets()
    assert encoder(sets).shape == (3, 5)
    assert_invariant(encoder, sets, tolerance=1e-10)
    assert not torch.isclose(encoder(sets), encoder(sets.flip(2))).any()


def test_relation_network_divides_by_the_number_of_pairs() -> None:
    plain, divided = relation_network(), relation_network(divide_by_size=True)
    divided.load_state_dict(plain.state_dict())
    sets = some_sets(size=4)
    torch.testing.assert_close(16 * divided(sets), plain(sets))
    assert (plain.divisor(4), divided.divisor(4), divided.divisor(0)) == (1, 16, 1)


def test_relation_network_sees_absent_rows() -> None:
    """They are zero vectors with a presence of zero, as in the released code."""
    encoder, sets = relation_network(), some_sets()
    padded = F.pad(sets, (0, 0, 0, 1))
    assert not torch.isclose(encoder(padded), encoder(sets)).any()
    assert encoder(sets[:, :0]).tolist() == [[0] * 5] * 3


def test_relation_network_sees_more_than_single_elements() -> None:
    """With sums, single elements give both of these pairs of sets the same code."""
    first, second, third, fourth = some_sets(4, 1)
    together = torch.stack([torch.cat([first, second]), torch.cat([third, fourth])])
    mixed = torch.stack([torch.cat([first, third]), torch.cat([second, fourth])])
    single = SetEncoder(SetEncoderEnergySettings(hidden=8, latent=5, pooling="sum"), 3).double()
    torch.testing.assert_close(single(together).sum(dim=0), single(mixed).sum(dim=0))
    pairs = relation_network(pooling="sum")
    assert not torch.isclose(pairs(together).sum(dim=0), pairs(mixed).sum(dim=0)).any()


def test_equal_elements_get_different_gradients() -> None:
    """A chain starts with all elements equal; ties of pairs go by index, too."""
    encoder = relation_network(divide_by_size=True)
    sets = torch.zeros(1, 4, 3, dtype=torch.float64)
    _, pull = encoder.with_pullback(sets, encoder.prepare(1, 4))
    gradient = pull(torch.ones(1, 5, dtype=torch.float64))[0]
    distances = torch.cdist(gradient, gradient)
    assert (distances + torch.eye(4) > 1e-6).all()
