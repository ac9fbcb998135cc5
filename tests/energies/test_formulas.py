"""The formula of each energy, and which codes it takes."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from desp.energies import DeepSetsEnergy, NetworkEnergy, SetEncoderEnergy, SetField
from desp.methods.denoising import NetworkField
from desp.nn import SetNetwork
from desp.nn.set_network import _AttentionLayer, _PooledLayer
from desp.settings import AttentionSettings, DeepSetsSettings, PooledLayersSettings, SetEncoderEnergySettings
from small_methods import with_energy

DEEP_SETS = DeepSetsSettings(hidden=8)


def example(batch: int = 4, size: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch, 3, generator=generator, dtype=torch.float64)
    return x, torch.rand(batch, size, 2, generator=generator, dtype=torch.float64)


def test_deep_sets_formula() -> None:
    energy = with_energy(DeepSetsSettings(hidden=8, pooling="sum")).double().energy
    assert isinstance(energy, DeepSetsEnergy)
    x, y = example()
    for k in range(4):
        rows = [energy.element_mlp(torch.cat([x[k], element])) / 5 for element in y[k]]
        features = energy.set_mlp(torch.stack(rows).sum(dim=0))
        # Column j of a lower triangular matrix is zero above row j.
        expected = sum((features[j:] @ energy.lower[j:, j]) ** 2 for j in range(8))
        torch.testing.assert_close(energy(x, y)[k], expected)


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 4)])
def test_deep_sets_has_as_many_layers_as_asked_for_before_and_after_the_pooling(before: int, after: int) -> None:
    energy = with_energy(DeepSetsSettings(hidden=8, element_layers=before, set_layers=after)).energy
    assert isinstance(energy, DeepSetsEnergy)
    assert (len(energy.element_mlp.linears), len(energy.set_mlp.linears)) == (before, after)


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_the_set_encoders_activations_have_the_slope_asked_for(slope: float) -> None:
    settings = SetEncoderEnergySettings(hidden=8, latent=4, negative_slope=slope, pooling="sum")
    energy = with_energy(settings).double().energy
    assert isinstance(energy, SetEncoderEnergy)
    _, y = example()
    first, *others = energy.set_encoder.mlp.linears
    values = first(y)
    for layer in others:
        values = layer(torch.where(values > 0, values, slope * values))
    torch.testing.assert_close(energy.set_encoder(y), values.sum(dim=1))


def test_deep_sets_codes_for_all_elements_or_each_its_own() -> None:
    energy, (_, y) = with_energy(DEEP_SETS).double().energy, example()
    code = torch.randn(4, 3, dtype=torch.float64)
    shared = energy.energy(code, y)
    torch.testing.assert_close(energy.energy(code.unsqueeze(1).expand(4, 5, 3), y), shared)

    own = torch.randn(4, 5, 3, dtype=torch.float64)
    order = torch.tensor([3, 1, 4, 0, 2])
    together = energy.energy(own[:, order], y[:, order])
    torch.testing.assert_close(together, energy.energy(own, y))
    assert not torch.isclose(energy.energy(own, y[:, order]), together).any()


@pytest.fixture
def auto_encoding() -> SetEncoderEnergy:
    """E_SE as set auto-encoders use it: h = g."""
    settings = SetEncoderEnergySettings(hidden=8, latent=6, shared=True)
    energy = settings.load()(settings, 2, (5, 2)).double()
    assert isinstance(energy, SetEncoderEnergy)
    return energy


def score(energy: SetEncoderEnergy, x: Tensor, y: Tensor) -> Tensor:
    """The energy of sets for inputs that are sets."""
    return energy(energy.encode(x), y)


def test_set_encoder_energy_is_zero_iff_codes_are_equal(auto_encoding: SetEncoderEnergy) -> None:
    _, y = example()
    zeros = torch.zeros(4, dtype=torch.float64)
    torch.testing.assert_close(score(auto_encoding, y, y), zeros)
    torch.testing.assert_close(score(auto_encoding, y, y.flip(1)), zeros)
    assert (score(auto_encoding, y, y + 0.1) > 0).all()


def test_set_encoder_formula(auto_encoding: SetEncoderEnergy) -> None:
    _, y = example()
    codes = auto_encoding.set_encoder(y)
    shift = torch.tensor([0.0, 0.5, -0.5, 1.0, 3.0, -4.0], dtype=torch.float64)
    expected = (0 + 0.125 + 0.125 + 0.5 + 2.5 + 3.5) / 6
    torch.testing.assert_close(auto_encoding.energy(codes + shift, y), torch.full_like(codes[:, 0], expected))


def test_a_shared_encoder_is_trained_through_both_codes(auto_encoding: SetEncoderEnergy) -> None:
    _, y = example()
    weight = auto_encoding.set_encoder.mlp.linears[0].weight
    code = auto_encoding.encode(y)
    (through_input,) = torch.autograd.grad(code.sum(), weight, retain_graph=True)
    assert (through_input != 0).any()
    energies = auto_encoding.energy(code, y + 0.1)
    (through_both,) = torch.autograd.grad(energies.sum(), weight)
    (through_set,) = torch.autograd.grad(auto_encoding.energy(code.detach(), y + 0.1).sum(), weight)
    assert not torch.isclose(through_both, through_set).all()


def test_an_energy_that_encodes_inputs_itself_knows_how_long_codes_are(auto_encoding: SetEncoderEnergy) -> None:
    assert auto_encoding.code_features((5, 2)) == 6 == auto_encoding.encode(example()[1]).shape[-1]
    other = with_energy(DEEP_SETS).energy
    assert other.code_features((3,)) == 3
    assert other.code_features((5, 7)) == 7
    x, _ = example()
    assert other.encode(x) is x


@pytest.mark.parametrize(
    ("settings", "layer"),
    [
        (PooledLayersSettings(hidden=8, pooling="fspool"), _PooledLayer),
        (AttentionSettings(hidden=8, layers=1, heads=2, fourier_frequencies=1), _AttentionLayer),
    ],
)
def test_an_energy_is_the_sum_of_its_networks_outputs(settings: Any, layer: type[nn.Module]) -> None:
    energy, (x, y) = with_energy(settings).double().energy, example()
    assert isinstance(energy, NetworkEnergy)
    assert [type(part) for part in energy.network.layers] == [layer] * settings.layers
    assert energy.conservative
    outputs = energy.network(x, y)
    assert outputs.shape == (4, 5, 1)
    torch.testing.assert_close(energy(x, y), outputs.sum(dim=(1, 2)))


@pytest.mark.parametrize(
    "settings", [PooledLayersSettings(hidden=8, pooling="fspool"), AttentionSettings(hidden=8)]
)
def test_codes_for_all_elements_or_each_its_own(settings: Any) -> None:
    energy, (x, y) = with_energy(settings).double().energy, example()
    torch.testing.assert_close(energy(x.unsqueeze(1).expand(4, 5, 3), y), energy(x, y))
    own, order = torch.randn(4, 5, 3, dtype=torch.float64), torch.tensor([3, 1, 4, 0, 2])
    torch.testing.assert_close(energy(own[:, order], y[:, order]), energy(own, y))
    assert not torch.isclose(energy(own, y[:, order]), energy(own, y)).any()


def field_with_known_presence(kind: str) -> tuple[SetField, SetNetwork]:
    settings = AttentionSettings(hidden=8, layers=2, heads=2, fourier_frequencies=2)
    if kind == "energy":
        energy = settings.load()(settings, 3, (3,), known_presence=True).double()
        return energy, energy.network
    network = SetNetwork(settings, 3, (3,), known_presence=True, outputs=3).double()
    return NetworkField(network), network


@pytest.mark.parametrize("kind", ["energy", "denoiser"])
def test_absent_elements_that_are_known_make_no_difference(kind: str) -> None:
    field, network = field_with_known_presence(kind)
    assert field.conservative == (kind == "energy")
    code, elements = example()
    presence = torch.where(torch.arange(5) < torch.tensor([[5], [3], [1], [0]]), 1.0, -1.0).double()
    y = torch.cat([elements, presence.unsqueeze(-1)], dim=-1)
    assert torch.equal(network.mask(y), presence > 0)
    assert SetNetwork(AttentionSettings(hidden=8), 3, (3,)).mask(y) is None
    more = torch.cat([y, torch.tensor([7.0, -2.0, -1.0]).double().expand(4, 4, 3)], dim=1)
    for size, first in ((5, 0), (3, 1)):  # of the last three, no more than three rows are present
        some = slice(first, 4)
        value, slope = field.value_and_gradient(y[some, :size], field.prepare(code[some], size))
        wider, wide = field.value_and_gradient(more[some], field.prepare(code[some], 9))
        torch.testing.assert_close(value, wider, equal_nan=True)
        assert value.isnan().all() == (kind == "denoiser")
        torch.testing.assert_close(slope, wide[:, :size])
        assert not wide[:, 5:].any()
        assert not slope[..., :2][presence[some, :size] < 0].any()
        assert slope[..., :2][presence[some, :size] > 0].all()
