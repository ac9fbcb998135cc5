"""Unrolled descent: the same as plain descent, and differentiable twice."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from desp.energies import SetEnergy, default_input_encoder, make_energy
from desp.samplers import LangevinSampler, UnrolledDescent
from desp.samplers.base import eager_gradient
from desp.settings import DeepSetsSettings, EnergySettings, LangevinSettings, SetEncoderSettings

CASES: dict[str, EnergySettings] = {
    "deep-sets": DeepSetsSettings(hidden=8),
    "set-encoder": SetEncoderSettings(hidden=8, latent=6),
}
every_energy = pytest.mark.parametrize("settings", CASES.values(), ids=CASES.keys())


def build(settings: EnergySettings) -> tuple[SetEnergy, UnrolledDescent, Tensor]:
    energy = make_energy(settings, 2, (3,), default_input_encoder("vector", (3,), settings)).double()
    return energy, UnrolledDescent(4, 2, steps=3, step_size=0.5).double(), torch.randn(5, 3).double()


@every_energy
def test_without_autograd_it_is_the_plain_sampler(settings: EnergySettings) -> None:
    energy, descent, x = build(settings)
    code = energy.encode(x).detach()
    with torch.no_grad():
        y, info = descent(energy, code, "trajectory")
    plain = LangevinSampler(LangevinSettings(steps=3, stochastic_steps=0, step_size=0.5))
    start = descent.start.detach().expand(5, 4, 2)
    expected, expected_info = plain.sample(eager_gradient(energy, code, 4), start, torch.Generator(), "trajectory")
    assert not y.requires_grad
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(info.energies, expected_info.energies)
    torch.testing.assert_close(info.gradient_norms, expected_info.gradient_norms)
    torch.testing.assert_close(info.trajectory, expected_info.trajectory)


@every_energy
def test_with_and_without_autograd_agree(settings: EnergySettings) -> None:
    energy, descent, x = build(settings)
    y, info = descent(energy, energy.encode(x), "trajectory")
    with torch.no_grad():
        quiet, _ = descent(energy, energy.encode(x))
    assert y.requires_grad
    torch.testing.assert_close(y.detach(), quiet)
    assert not info.trajectory.requires_grad
    assert torch.equal(info.trajectory[-1], y.detach())


def numerical_slope(weight: Tensor, place: tuple[int, ...], loss: Callable[[], Tensor]) -> float:
    size, values = 1e-6, []
    for shift in (size, -size):
        with torch.no_grad():
            weight[place] += shift
        values.append(loss().item())
        with torch.no_grad():
            weight[place] -= shift
    return (values[0] - values[1]) / (2 * size)


@every_energy
def test_gradients_reach_weights_through_the_descent(settings: EnergySettings) -> None:
    energy, descent, x = build(settings)

    def loss() -> Tensor:
        return descent(energy, energy.encode(x))[0].square().sum()

    modules = nn.ModuleDict({"energy": energy, "descent": descent})
    loss().backward()
    for name, weight in modules.named_parameters():
        place = (0,) * weight.dim()
        expected = numerical_slope(weight, place, loss)
        # A shift of the energy moves no set: the last bias of a code that is not compared has no gradient.
        found = 0.0 if weight.grad is None else weight.grad[place].item()
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-8), name


def test_every_input_starts_at_the_learned_set() -> None:
    energy, descent, x = build(CASES["deep-sets"])
    _, info = descent(energy, energy.encode(x), "trajectory")
    assert torch.equal(info.trajectory[0], descent.start.detach().expand(5, 4, 2))
    assert ((descent.start >= 0) & (descent.start <= 1)).all()
    assert descent.start.requires_grad


def test_records() -> None:
    energy, descent, x = build(CASES["deep-sets"])
    _, nothing = descent(energy, energy.encode(x))
    _, trace = descent(energy, energy.encode(x), "trace")
    assert nothing.energies is None
    assert trace.energies.shape == trace.gradient_norms.shape == (3, 5)
    assert trace.trajectory is None
