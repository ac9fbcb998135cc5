"""What every energy must be, and the formula of each."""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from desp.energies import NetworkEnergy, SetEnergy
from desp.methods import Contrastive
from desp.settings import (
    AttentionSettings,
    DeepSetsSettings,
    EnergySettings,
    PooledLayersSettings,
    SetEncoderEnergySettings,
)
from small_methods import with_energy

CASES: dict[str, EnergySettings] = {
    "deep-sets": DeepSetsSettings(hidden=8),
    "deep-sets, not divided": DeepSetsSettings(hidden=8, divide_by_size=False),
    "deep-sets, mean": DeepSetsSettings(hidden=8, pooling="mean", element_layers=2, set_layers=1),
    "deep-sets, sum": DeepSetsSettings(hidden=8, pooling="sum"),
    "set-encoder": SetEncoderEnergySettings(hidden=8, latent=6),
    "set-encoder, divided": SetEncoderEnergySettings(hidden=8, latent=6, layers=2, divide_by_size=True),
    "set-encoder, ReLU": SetEncoderEnergySettings(hidden=8, latent=6, negative_slope=0.0, initialisation="xavier"),
    "set-encoder, sum": SetEncoderEnergySettings(hidden=8, latent=6, pooling="sum"),
    "set-encoder, pairs": SetEncoderEnergySettings(hidden=8, latent=6, layers=2, divide_by_size=True, pairs=True),
    "set-encoder, pairs, sum": SetEncoderEnergySettings(hidden=8, latent=6, pooling="sum", pairs=True),
    "pooled-layers": PooledLayersSettings(hidden=8, pooling="fspool"),
    "deep-sets, softmax": DeepSetsSettings(hidden=8, pooling="softmax"),
    "set-encoder, softmax": SetEncoderEnergySettings(hidden=8, latent=6, pooling="softmax"),
    "pooled-layers, softmax": PooledLayersSettings(hidden=8, pooling="softmax"),
    "pooled-layers, mean": PooledLayersSettings(hidden=8, layers=1, pooling="mean"),
    "attention": AttentionSettings(hidden=8, layers=2, heads=2, fourier_frequencies=2),
    "attention, no Fourier features": AttentionSettings(hidden=8, layers=1, heads=1, fourier_frequencies=0),
}
every_energy = pytest.mark.parametrize("settings", CASES.values(), ids=CASES.keys())


def build(settings: EnergySettings) -> Contrastive:
    """An encoder for inputs of three numbers and an energy of two-dimensional elements, in double precision."""
    method = with_energy(settings).double()
    for weight in method.parameters():
        if not weight.any():  # what begins with zeros would hide its mistakes
            torch.nn.init.normal_(weight, std=0.3)
    return method


def score(method: Contrastive, x: Tensor, y: Tensor) -> Tensor:
    """The energies of sets for inputs."""
    return method.energy(method.encode(x), y)


def example(batch: int = 4, size: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch, 3, generator=generator, dtype=torch.float64)
    return x, torch.rand(batch, size, 2, generator=generator, dtype=torch.float64)


@every_energy
def test_order_does_not_matter(settings: EnergySettings, assert_invariant: Callable[..., None]) -> None:
    method, (x, y) = build(settings), example()
    assert score(method, x, y).shape == (4,)
    assert_invariant(lambda sets: score(method, x, sets), y, tolerance=1e-10)


@every_energy
def test_is_never_negative(settings: EnergySettings) -> None:
    if isinstance(settings, (PooledLayersSettings, AttentionSettings)):
        pytest.skip("any number: only its gradient is trained")
    method = build(settings)
    x, y = example(batch=200)
    assert (score(method, 3 * x, 10 * y - 5) >= 0).all()


@every_energy
def test_depends_on_input_and_set(settings: EnergySettings) -> None:
    method, (x, y) = build(settings), example()
    assert (score(method, x, y) != score(method, x.flip(0), y)).all()
    assert (score(method, x, y) != score(method, x, y.flip(0))).all()


@every_energy
def test_what_is_prepared_or_not(settings: EnergySettings) -> None:
    method, (x, y) = build(settings), example()
    energy, code = method.energy, method.encode(x)
    if isinstance(energy, NetworkEnergy):
        _, *cache = energy.prepare(code, 5)
        assert torch.equal(energy.energy(code, y, *cache), energy.energy(code, y))
    assert torch.equal(energy.energy(code, y), energy(code, y))
    assert torch.equal(method.energies(code, y), energy(code, y))


def gradient_by_autograd(energy: SetEnergy, code: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    leaf = y.detach().requires_grad_()
    values = energy.energy(code, leaf)
    (slope,) = torch.autograd.grad(values.sum(), leaf, create_graph=True)
    return values, slope


SETS = {
    "different": example()[1],
    "identical rows": torch.zeros(4, 5, 2, dtype=torch.float64),
    "some identical": torch.cat([example()[1], example()[1][:, :3]], dim=1),
    "one element": example(size=1)[1],
    "large": example(size=40)[1],
}


@every_energy
@pytest.mark.parametrize("y", SETS.values(), ids=SETS.keys())
def test_gradient_written_out_is_that_of_autograd(settings: EnergySettings, y: Tensor) -> None:
    method = build(settings)
    energy, code = method.energy, method.encode(example()[0])
    with torch.no_grad():
        values, slope = energy.value_and_gradient(y, energy.prepare(code, y.shape[1]))
    expected_values, expected_slope = gradient_by_autograd(energy, code, y)
    torch.testing.assert_close(values, expected_values, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(slope, expected_slope, rtol=1e-10, atol=1e-12)
    assert not values.requires_grad
    assert not slope.requires_grad


@every_energy
def test_gradient_as_it_is_compiled_is_that_of_autograd(
    settings: EnergySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, (x, y) = build(settings), example()
    energy, code = method.energy, method.encode(x)
    expected_values, expected_slope = gradient_by_autograd(energy, code, y)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with torch.no_grad():
        values, slope = energy.value_and_gradient(y, energy.prepare(code, y.shape[1]))
    torch.testing.assert_close(values, expected_values, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(slope, expected_slope, rtol=1e-10, atol=1e-12)


@every_energy
def test_gradient_written_out_can_be_differentiated(settings: EnergySettings) -> None:
    method, (x, y) = build(settings), example()
    energy, code = method.energy, method.encode(x)
    weights = [item for item in method.parameters() if item.requires_grad]

    def derivatives(slope: Tensor) -> tuple[Tensor | None, ...]:
        return torch.autograd.grad(slope.square().sum(), weights, allow_unused=True, retain_graph=True)

    leaf = y.clone().requires_grad_()
    found = derivatives(energy.value_and_gradient(leaf, energy.prepare(code, 5))[1])
    expected = derivatives(gradient_by_autograd(energy, code, y)[1])
    for mine, theirs in zip(found, expected, strict=True):
        if theirs is None or mine is None:  # a bias that does not matter: no gradient, or a gradient of zero
            assert all(part is None or not part.any() for part in (mine, theirs))
        else:
            torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


@every_energy
def test_gradient_of_empty_sets_is_empty(settings: EnergySettings) -> None:
    method, (x, y) = build(settings), example(size=0)
    values, slope = method.energy.value_and_gradient(y, method.energy.prepare(method.encode(x), 0))
    torch.testing.assert_close(values, score(method, x, y))
    assert slope.shape == (4, 0, 2)


class OwnEnergy(SetEnergy):
    """What a user may write: a score and nothing else."""

    def energy(self, code: Tensor, y: Tensor) -> Tensor:
        return (y.mean(dim=1) - code[:, :2]).square().sum(dim=1)


def test_an_energy_needs_a_score_alone() -> None:
    energy, (x, y) = OwnEnergy(), example()
    values, slope = energy.value_and_gradient(y, energy.prepare(x, 5))
    assert torch.equal(values, energy(x, y))
    torch.testing.assert_close(slope, (2 * (y.mean(dim=1) - x[:, :2]) / 5).unsqueeze(1).expand_as(y))


@every_energy
@pytest.mark.parametrize("size", [1, 2])
def test_small_sets(settings: EnergySettings, size: int) -> None:
    """Ranks run from the first to the last element, which divides by one less than there are."""
    method, (x, y) = build(settings), example(size=size)
    assert (score(method, x, y) != score(method, x.flip(0), y)).all()
    assert (score(method, x, y) != score(method, x, y.flip(0))).all()
    torch.testing.assert_close(score(method, x, y), score(method, x, y.flip(1)))
    inputs = (method.encode(x).detach().requires_grad_(), y.requires_grad_())
    assert torch.autograd.gradcheck(method.energy.energy, inputs)


@every_energy
def test_sets_of_a_batch_do_not_see_each_other(settings: EnergySettings) -> None:
    method, (x, y) = build(settings), example()
    together = y.clone().requires_grad_()
    values = score(method, x, together)
    (slope,) = torch.autograd.grad(values.sum(), together)
    for k in range(len(x)):
        alone = y[k : k + 1].clone().requires_grad_()
        value = score(method, x[k : k + 1], alone)
        torch.testing.assert_close(value[0], values[k])
        torch.testing.assert_close(torch.autograd.grad(value.sum(), alone)[0][0], slope[k])


@every_energy
def test_derivatives_in_input_and_set(settings: EnergySettings) -> None:
    method, (x, y) = build(settings), example(batch=2, size=3)
    inputs = (method.encode(x).detach().requires_grad_(), y.requires_grad_())
    assert torch.autograd.gradcheck(method.energy.energy, inputs)
    assert torch.autograd.gradgradcheck(method.energy.energy, inputs)


@every_energy
def test_pairwise_energies_are_those_of_each_pair(settings: EnergySettings) -> None:
    method, (x, y) = build(settings), example(batch=4)
    code = method.encode(x[:3])
    found = method.energy.pairwise(code, y)
    assert found.shape == (3, 4)
    for i, j in itertools.product(range(3), range(4)):
        torch.testing.assert_close(found[i, j], method.energy(code[i : i + 1], y[j : j + 1])[0])


def assert_slopes_in_weights(module: nn.Module, loss: Callable[[], Tensor]) -> dict[str, Tensor]:
    """The gradients of `loss` in all weights, checked along one random direction by finite differences."""
    weights = dict(module.named_parameters())
    found = torch.autograd.grad(loss(), list(weights.values()), allow_unused=True)
    slopes = {name: slope for name, slope in zip(weights, found, strict=True) if slope is not None}
    direction = {name: torch.randn_like(weight) for name, weight in weights.items()}
    along = sum(float((slope * direction[name]).sum()) for name, slope in slopes.items())
    step, ends = 1e-7, []
    for moved in (step, -2 * step):
        with torch.no_grad():
            for name, weight in weights.items():
                weight.add_(direction[name], alpha=moved)
        ends.append(float(loss().detach()))
    assert along == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4)
    return slopes


@every_energy
def test_second_derivatives_reach_the_weights(settings: EnergySettings) -> None:
    method, (x, y) = build(settings), example(batch=3)
    y.requires_grad_()

    def loss() -> Tensor:
        (slope,) = torch.autograd.grad(score(method, x, y).sum(), y, create_graph=True)
        return slope.square().sum()

    slopes = assert_slopes_in_weights(method, loss)
    touched = [name for name, slope in slopes.items() if slope.any()]
    assert any(name.endswith(("layers.0.weight", "from_element.weight")) for name in touched)


@every_energy
def test_all_weights_are_trained(settings: EnergySettings) -> None:
    method, (x, y) = build(settings), example()
    slopes = assert_slopes_in_weights(method, lambda: score(method, x, y).sum())
    assert [name for name, _ in method.named_parameters() if name not in slopes or not slopes[name].any()] == []
