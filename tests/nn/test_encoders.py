"""MLP, set encoders, input encoders."""

import typing
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from desp.nn import MLP, SetEncoder
from desp.nn.encoders import _ImageEncoder, _MaskedSetEncoder, _PooledSetEncoder
from desp.settings import (
    ConvEncoderSettings,
    EncoderSettings,
    FSPoolSetEncoderSettings,
    MLPEncoderSettings,
    Pooling,
    SetEncoderEnergySettings,
    SumPooledSetEncoderSettings,
)

PRESENCE = torch.tensor([[True, False, True, True], [False, True, False, False], [True] * 4])

every_pooling = pytest.mark.parametrize("pooling", typing.get_args(Pooling))


def set_encoder(**settings: Any) -> SetEncoder:
    return SetEncoder(SetEncoderEnergySettings(hidden=8, latent=5, **settings), 2)


def test_mlp_is_linear_layers_with_leaky_relu_between() -> None:
    mlp, values = MLP([3, 5, 4, 2]), torch.randn(6, 7, 3)
    first, second, third = [layer for layer in mlp.layers if isinstance(layer, nn.Linear)]
    hidden = F.linear(values, first.weight, first.bias)
    hidden = torch.where(hidden > 0, hidden, 0.01 * hidden)
    hidden = F.linear(hidden, second.weight, second.bias)
    hidden = torch.where(hidden > 0, hidden, 0.01 * hidden)
    torch.testing.assert_close(mlp(values), F.linear(hidden, third.weight, third.bias))


def test_mlp_of_one_layer_is_linear() -> None:
    mlp = MLP([3, 2])
    a, b = torch.randn(4, 3), torch.randn(4, 3)
    torch.testing.assert_close(mlp(a) + mlp(b), mlp(a + b) + mlp(torch.zeros(4, 3)))


@every_pooling
@pytest.mark.parametrize("divide", [False, True])
def test_set_encoder_ignores_order(pooling: Pooling, divide: bool, assert_invariant: Callable[..., None]) -> None:
    encoder = set_encoder(pooling=pooling, divide_by_size=divide)
    sets = torch.rand(3, 4, 2)
    assert encoder(sets).shape == (3, 5)
    assert_invariant(encoder, sets)


with_and_without_maximum = pytest.mark.parametrize("with_maximum", [False, True])


def pooled_set_encoder(with_maximum: bool, rows: int = 4) -> _PooledSetEncoder:
    settings = SumPooledSetEncoderSettings(8, 5, fourier_frequencies=3, with_maximum=with_maximum)
    return _PooledSetEncoder(settings, (rows, 3))


@with_and_without_maximum
def test_pooled_set_encoder_ignores_order_and_absent_rows(
    with_maximum: bool, assert_invariant: Callable[..., None]
) -> None:
    encoder = pooled_set_encoder(with_maximum)

    def encode(sets: torch.Tensor, presence: torch.Tensor) -> torch.Tensor:
        return encoder(torch.cat([sets, presence.unsqueeze(-1).float()], dim=-1))

    assert encode(torch.rand(3, 4, 2), PRESENCE).shape == (3, 5)
    assert_invariant(encode, torch.rand(3, 4, 2), PRESENCE)


@with_and_without_maximum
def test_pooled_set_encoder_sees_how_many_there_are(with_maximum: bool) -> None:
    encoder = pooled_set_encoder(with_maximum)
    twice = torch.tensor([[0.3, 0.7, 1.0], [0.3, 0.7, 1.0]])
    once = torch.tensor([[0.3, 0.7, 1.0], [0.0, 0.0, 0.0]])
    one, two = encoder(torch.stack([once, twice]))
    assert not torch.allclose(one, two)
    nobody = encoder(torch.zeros(1, 2, 3))[0]  # rows, but none that is present
    torch.testing.assert_close(encoder(torch.zeros(1, 0, 3))[0], nobody)
    assert not torch.allclose(nobody, one)
    without_rows = pooled_set_encoder(with_maximum, rows=0)
    assert without_rows(torch.zeros(2, 0, 3)).isfinite().all()


def test_the_maximum_is_that_of_present_elements() -> None:
    """Where the sum says nothing, a code changes with the largest element alone."""
    encoder = _PooledSetEncoder(
        SumPooledSetEncoderSettings(2, 5, fourier_frequencies=0, with_maximum=True), (3, 3)
    )
    encoder.of_elements = torch.nn.Identity()
    with torch.no_grad():
        encoder.of_set[0].weight[:, :2] = 0.0
    sets = torch.tensor([[[0.1, 0.2, 1.0], [0.3, 0.4, 1.0], [0.9, 0.9, 0.0]]])
    absent, lower, higher = sets.clone(), sets.clone(), sets.clone()
    absent[0, 2, :2], lower[0, 0, :2], higher[0, 1, :2] = 5.0, 0.15, 0.5
    code = encoder(sets)
    assert torch.equal(encoder(absent), code)
    assert torch.equal(encoder(lower), code)
    assert not torch.allclose(encoder(higher), code)


@every_pooling
def test_set_encoder_of_empty_sets(pooling: Pooling) -> None:
    encoder = set_encoder(pooling=pooling, divide_by_size=True)
    assert encoder(torch.zeros(3, 0, 2)).tolist() == [[0] * 5] * 3


def test_set_encoder_divides_by_the_padded_size() -> None:
    plain, divided = set_encoder(divide_by_size=False), set_encoder(divide_by_size=True)
    divided.load_state_dict(plain.state_dict())
    sets = torch.rand(3, 4, 2)
    torch.testing.assert_close(4 * divided(sets), plain(sets))


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_set_encoder_has_as_many_layers_as_asked(layers: int) -> None:
    encoder = set_encoder(layers=layers)
    linear = [module for module in encoder.modules() if isinstance(module, nn.Linear)]
    assert [layer.out_features for layer in linear] == [8] * (layers - 1) + [5]


def test_presence_set_encoder_reads_the_last_column(assert_invariant: Callable[..., None]) -> None:
    encoder = _MaskedSetEncoder(SetEncoderEnergySettings(hidden=8, latent=5), 2)

    def encode(sets: torch.Tensor, presence: torch.Tensor) -> torch.Tensor:
        return encoder(torch.cat([sets, presence.unsqueeze(-1).float()], dim=-1))

    sets = torch.rand(3, 4, 2)
    assert_invariant(encode, sets, PRESENCE)
    alone = [encoder.encoder(rows[mask].unsqueeze(0))[0] for rows, mask in zip(sets, PRESENCE, strict=True)]
    torch.testing.assert_close(encode(sets, PRESENCE), torch.stack(alone))


@pytest.mark.parametrize("size", [(1, 1), (16, 16), (20, 31)])
def test_image_encoder_takes_any_size(size: tuple[int, int]) -> None:
    assert _ImageEncoder(ConvEncoderSettings(8, 5), 3)(torch.rand(2, 3, *size)).shape == (2, 5)


LAYERED: dict[str, tuple[EncoderSettings, tuple[int, ...]]] = {
    "mlp": (MLPEncoderSettings(16, 8, initialisation="xavier"), (3,)),
    "conv": (ConvEncoderSettings(16, 8, initialisation="xavier"), (1, 8, 8)),
    "fspool-set": (FSPoolSetEncoderSettings(16, 8, initialisation="xavier"), (5, 3)),
}


@pytest.mark.parametrize("kind", LAYERED)
def test_xavier_reaches_every_layer(kind: str) -> None:
    """Zero biases, and weights that fill Xavier's interval, which is wider or narrower than torch's own."""
    settings, shape = LAYERED[kind]
    encoder = settings.load()(settings, shape)
    layers = [layer for layer in encoder.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    assert len(layers) >= 3
    for layer in layers:
        assert not layer.bias.any()
        inside = layer.weight[0].numel()
        outside = layer.weight.numel() // layer.weight.shape[1]
        bound = (6 / (inside + outside)) ** 0.5
        assert 0.85 * bound < float(layer.weight.detach().abs().max()) <= bound


def test_fspool_encoder_with_presence_as_feature_divides_by_the_padded_size() -> None:
    settings = FSPoolSetEncoderSettings(8, 4, presence_as_feature=True)
    encoder, x = settings.load()(settings, (5, 3)), torch.rand(2, 5, 3)
    scaling, sets = encoder
    torch.testing.assert_close(encoder(x), sets.pool(sets.mlp(scaling(x))) / 5)
