"""Unrolled descent: the same as plain descent, and differentiable twice."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from desp.energies import SetEncoderEnergy
from desp.methods import Contrastive
from desp.samplers import LangevinSampler, UnrolledDescent
from desp.samplers.base import value_and_grad_of
from desp.settings import (
    DeepSetsSettings,
    DescentSettings,
    EnergySettings,
    LangevinSettings,
    SetEncoderEnergySettings,
)
from desp.settings.methods import SetRiskCardinality
from small_methods import with_energy

CASES: dict[str, EnergySettings] = {
    "deep-sets": DeepSetsSettings(hidden=8),
    "set-encoder": SetEncoderEnergySettings(hidden=8, latent=6),
}
DESCENT, DSPN = DescentSettings(steps=3, step_size=0.5), DescentSettings(steps=5, step_size=25.0)
every_energy = pytest.mark.parametrize("settings", CASES.values(), ids=CASES.keys())


def build(settings: EnergySettings) -> tuple[Contrastive, UnrolledDescent, Tensor]:
    method = with_energy(settings, size=4).double()
    return method, UnrolledDescent(4, 2).double(), torch.randn(5, 3).double()


@every_energy
def test_without_autograd_it_is_the_plain_sampler(settings: EnergySettings) -> None:
    method, descent, x = build(settings)
    energy, code = method.energy, method.encode(x).detach()
    with torch.no_grad():
        y, info = descent(energy, code, DESCENT, "sets")
    plain = LangevinSampler(LangevinSettings(steps=3, stochastic_steps=0, step_size=0.5))
    start = descent.start.detach().expand(5, 4, 2)
    gradient = partial(value_and_grad_of, energy, size=4)
    expected, expected_info = plain.sample(gradient, code, start, torch.Generator(), "sets")
    assert not y.requires_grad
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(info.energies, expected_info.energies)
    torch.testing.assert_close(info.gradient_norms, expected_info.gradient_norms)
    torch.testing.assert_close(info.trajectory, expected_info.trajectory)


@every_energy
def test_with_and_without_autograd_agree(settings: EnergySettings) -> None:
    method, descent, x = build(settings)
    y, info = descent(method.energy, method.encode(x), DESCENT, "sets")
    with torch.no_grad():
        quiet, _ = descent(method.energy, method.encode(x), DESCENT)
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
    method, descent, x = build(settings)

    def loss() -> Tensor:
        return descent(method.energy, method.encode(x), DESCENT)[0].square().sum()

    modules = nn.ModuleDict({"method": method, "descent": descent})
    loss().backward()
    for name, weight in modules.named_parameters():
        place = (0,) * weight.dim()
        expected = numerical_slope(weight, place, loss)
        # A shift of the energy moves no set: the last bias of a code that is not compared has no gradient.
        found = 0.0 if weight.grad is None else weight.grad[place].item()
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-8), name


def test_every_input_starts_at_the_learned_set() -> None:
    method, descent, x = build(CASES["deep-sets"])
    _, info = descent(method.energy, method.encode(x), DESCENT, "sets")
    assert torch.equal(info.trajectory[0], descent.start.detach().expand(5, 4, 2))
    assert ((descent.start >= 0) & (descent.start <= 1)).all()
    assert descent.start.requires_grad


# -- DSPN ----------------------------------------------------------------------------------------------


def dspn_inner_loop(
    encoder: Callable[[Tensor], Tensor], target: Tensor, start: Tensor, steps: int, step_size: float
) -> list[Tensor]:
    """DSPN's loop as it was released: one loss for the whole batch, set and mask moved apart, the mask clamped."""
    current, mask = start[:, :-1].expand(len(target), -1, -1), start[:, -1].expand(len(target), -1).clamp(0, 1)
    sets = [torch.cat([current, mask.unsqueeze(-1)], dim=-1)]
    for _ in range(steps):
        found = encoder(torch.cat([current, mask.unsqueeze(-1)], dim=-1))
        loss = nn.functional.smooth_l1_loss(found, target)
        to_set, to_mask = torch.autograd.grad(loss, [current, mask], create_graph=True)
        current, mask = current - step_size * to_set, (mask - step_size * to_mask).clamp(0, 1)
        sets.append(torch.cat([current, mask.unsqueeze(-1)], dim=-1))
    return sets


def dspn(presence: SetRiskCardinality, *, pairs: bool = False) -> tuple[SetEncoderEnergy, UnrolledDescent]:
    settings = SetEncoderEnergySettings(
        hidden=8,
        latent=6,
        divide_by_size=True,
        shared=True,
        negative_slope=0.0,
        initialisation="xavier",
        pairs=pairs,
    )
    energy = SetEncoderEnergy(settings, 3, (4, 3)).double()
    return energy, UnrolledDescent(4, 3, presence).double()


def padded_sets(batch: int = 7) -> Tensor:
    """Sets of 0 to 4 elements with presence as last feature."""
    there = torch.arange(4) < torch.arange(batch).remainder(5).unsqueeze(1)
    return torch.cat([torch.rand(batch, 4, 2), torch.ones(batch, 4, 1)], dim=-1).double() * there.unsqueeze(-1)


@pytest.mark.parametrize("pairs", [False, True])
def test_it_is_the_inner_loop_of_dspn(pairs: bool) -> None:
    energy, descent = dspn("clamped", pairs=pairs)
    with torch.no_grad():
        descent.start[:2, -1] = torch.tensor([0.0, 1.2])  # a learned start may leave the range
    data = padded_sets()
    code = energy.encode(data)
    found = descent.all_sets(energy, code, DSPN)
    # The step of the batch's mean is that of one sample times the batch.
    expected = dspn_inner_loop(energy.set_encoder, energy.encode(data), descent.start, 5, 25.0 * len(data))
    torch.testing.assert_close(torch.stack(found), torch.stack(expected))
    assert (torch.stack(found)[..., -1].detach().unique() == 1).any()
    with torch.no_grad():
        end, info = descent(energy, code.detach(), DSPN, "sets")
    torch.testing.assert_close(info.trajectory, torch.stack(expected).detach())
    torch.testing.assert_close(end, expected[-1].detach())

    weights = [*energy.parameters(), descent.start]
    mine, theirs = (
        torch.autograd.grad(torch.stack([(item - data).square().mean() for item in sets]).mean(), weights)
        for sets in (found, expected)
    )
    for left, right in zip(mine, theirs, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-8, atol=1e-12)


def test_clamped_presence_starts_at_a_half() -> None:
    _, descent = dspn("clamped")
    assert (descent.start[:, -1] == 0.5).all()
    assert (descent.start[:, :-1] != 0.5).all()


def test_a_predicted_presence_stays_and_only_present_rows_move() -> None:
    energy, descent = dspn("predicted")
    code, there = energy.encode(padded_sets()), torch.arange(4) < torch.arange(7).remainder(5).unsqueeze(1)
    sets = descent.all_sets(energy, code, DSPN, there)
    assert descent.start.shape == (4, 2)
    assert len(sets) == 6
    for item in sets:
        assert torch.equal(item[..., -1], there.double())
        assert not item[~there].any()
    assert torch.equal(sets[0][..., :-1], descent.start * there.unsqueeze(-1))
    assert (sets[-1][..., :-1] != sets[0][..., :-1])[there].any()
    energies = torch.stack([energy.energy(code, item) for item in (sets[0], sets[1])])
    assert (energies[1][there.any(dim=1)] <= energies[0][there.any(dim=1)]).all()


def test_gradients_of_a_descent_with_given_presence() -> None:
    energy, descent = dspn("predicted")
    for layer in energy.set_encoder.mlp.linears:  # at zero, absent rows lie on the activation's kink
        nn.init.uniform_(layer.bias, 0.01, 0.1)
    data, there = padded_sets(), torch.arange(4) < torch.arange(7).remainder(5).unsqueeze(1)

    def loss() -> Tensor:
        return descent(energy, energy.encode(data), DSPN, presence=there)[0].square().sum()

    loss().backward()
    for name, weight in nn.ModuleDict({"energy": energy, "descent": descent}).named_parameters():
        place = (0,) * weight.dim()
        expected = numerical_slope(weight, place, loss)
        assert weight.grad[place].item() == pytest.approx(expected, rel=1e-4, abs=1e-8), name


def test_records() -> None:
    method, descent, x = build(CASES["deep-sets"])
    _, nothing = descent(method.energy, method.encode(x), DESCENT)
    _, trace = descent(method.energy, method.encode(x), DESCENT, "energies")
    assert nothing.energies is None
    assert trace.energies.shape == trace.gradient_norms.shape == (3, 5)
    assert trace.trajectory is None
