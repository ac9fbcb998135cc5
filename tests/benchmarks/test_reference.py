"""The reference is what the library computes, written plainly."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from desp.benchmarks.chains import CHAINS, ChainCase
from desp.benchmarks.reference import (
    reference_chain,
    reference_energy,
    reference_gradient,
    reference_training_step,
)
from desp.data.shape import DataShape
from desp.energies import SetEnergy
from desp.errors import SettingsError
from desp.methods import Contrastive, MethodParts
from desp.samplers import LangevinSampler, langevin_step
from desp.samplers.base import value_and_grad_of
from desp.sets import SetRepresentation
from desp.settings import ContrastiveSettings, DeepSetsSettings, RepresentationSettings, SetEncoderEnergySettings

CPU = torch.device("cpu")


def small(case: ChainCase) -> ChainCase:
    """The same kind of network and sets, with fewer of everything."""
    features = min(case.code_features, 12)
    if isinstance(case.energy, SetEncoderEnergySettings):
        energy: DeepSetsSettings | SetEncoderEnergySettings = replace(case.energy, hidden=16, latent=features)
    else:
        energy = replace(case.energy, hidden=16)
    return replace(case, batch=3, size=min(case.size, 23), code_features=features, energy=energy)


SMALL = [small(case) for case in CHAINS]
FULL_SIZE = [case for case in CHAINS if case.task in ("polygons", "digits")]
each_small = pytest.mark.parametrize("case", SMALL, ids=lambda case: case.task)
each_size = pytest.mark.parametrize("case", SMALL + FULL_SIZE, ids=lambda case: f"{case.task}-{case.batch}")


def problem(case: ChainCase, dtype: torch.dtype) -> tuple[SetEnergy, torch.Tensor, torch.Tensor]:
    """An energy, codes, and sets anywhere in the unit cube."""
    state = torch.rand(case.start(CPU).shape, generator=torch.Generator().manual_seed(1))
    return case.build(CPU).to(dtype), case.code(CPU).to(dtype), state.to(dtype)


@each_small
def test_reference_energy_is_the_energy(case: ChainCase) -> None:
    energy, code, y = problem(case, torch.float64)
    mixed = y.clone()
    mixed[:, 1:3] = mixed[:, :1]  # three equal rows
    for sets in (y, mixed, torch.zeros_like(y), y[:, :1].expand_as(y)):
        expected = energy.energy(code, sets)
        torch.testing.assert_close(reference_energy(energy, code, sets), expected, rtol=1e-10, atol=1e-10)


def test_reference_energy_of_pairs() -> None:
    (clevr,) = (case for case in SMALL if case.task == "clevr")
    energy, code, y = problem(replace(clevr, energy=replace(clevr.energy, pairs=True)), torch.float64)
    torch.testing.assert_close(reference_energy(energy, code, y), energy.energy(code, y), rtol=1e-10, atol=1e-10)


def test_reference_energy_of_single_elements() -> None:
    case = replace(SMALL[0], size=1)
    energy, code, y = problem(case, torch.float64)
    torch.testing.assert_close(reference_energy(energy, code, y), energy.energy(code, y), rtol=1e-10, atol=1e-10)


@each_small
def test_a_step_from_equal_rows_is_the_same(case: ChainCase) -> None:
    """With N a power of two, as dividing by other sizes first may round nearly equal values to equal ones."""
    case = replace(case, size=8)
    energy, code, y = problem(case, torch.float64)
    with torch.no_grad():
        _, slope = value_and_grad_of(energy, code, case.size)(torch.zeros_like(y))
    expected = reference_gradient(energy, code, torch.zeros_like(y))
    assert float((slope - expected).abs().max()) <= 1e-10 * float(expected.norm())


@each_size
@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float64, 1e-10), (torch.float32, 1e-4)], ids=str)
def test_one_step_is_the_same(case: ChainCase, dtype: torch.dtype, allowed: float) -> None:
    """The largest difference of a step against the norm of the batch's gradient."""
    energy, code, y = problem(case, dtype)
    noise = case.noise_scale * torch.randn(y.shape, generator=torch.Generator().manual_seed(2), dtype=dtype)
    with torch.no_grad():
        ours, _, _, _ = langevin_step(y, value_and_grad_of(energy, code, case.size), noise, case.chain())
    gradient = reference_gradient(energy, code, y + noise)
    difference = (ours - (y + noise - gradient)).abs().max()
    assert float(difference) <= allowed * float(gradient.norm())


@each_small
def test_whole_chains_use_the_same_noise(case: ChainCase) -> None:
    energy, code, y = problem(case, torch.float64)
    with torch.no_grad():
        gradient = partial(value_and_grad_of, energy, size=case.size)
        ours, _ = LangevinSampler(case.chain(5)).sample(
            gradient, code, torch.zeros_like(y), torch.Generator().manual_seed(3)
        )
    reference = reference_chain(
        energy,
        code,
        torch.zeros_like(y),
        torch.Generator().manual_seed(3),
        steps=5,
        noise_scale=case.noise_scale,
    )
    torch.testing.assert_close(reference, ours, rtol=1e-8, atol=1e-8)


def test_training_step_descends_the_contrastive_loss() -> None:
    """Without any noise nothing is random, so loss and gradients are those of the method."""
    case = SMALL[0]
    energy, code, y = problem(case, torch.float64)
    chain = replace(case.chain(3), noise_scale=0.0)
    settings = ContrastiveSettings(energy=case.energy, training_sampler=chain, data_noise=0.0)
    shape = DataShape(case.code_shape, case.channels, case.size)
    padding = SetRepresentation(RepresentationSettings(padding="zero", scaling="none"))
    parts = MethodParts(torch.nn.Identity(), case.code_shape, shape, padding, "eager")
    method = Contrastive(settings, parts).double()
    method.energy.load_state_dict(energy.state_dict())
    energy = method.energy
    expected, _ = method(code, y, torch.Generator())
    expected.backward()
    gradients = [item.grad.clone() for item in energy.parameters() if item.grad is not None]
    before = [item.detach().clone() for item in energy.parameters()]
    optimizer = torch.optim.SGD(energy.parameters(), lr=1.0)
    loss = reference_training_step(energy, optimizer, code, y, settings, torch.Generator())
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-8, atol=1e-10)
    for old, new, gradient in zip(before, energy.parameters(), gradients, strict=True):
        torch.testing.assert_close(old - new.detach(), gradient, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("pooling", ["softmax", "mean", "sum"])
def test_other_poolings_have_no_reference(pooling: str) -> None:
    settings = DeepSetsSettings(hidden=4, pooling=pooling)  # type: ignore[arg-type]
    energy = settings.load()(settings, 2, (1,))
    with pytest.raises(SettingsError, match="no pooling"):
        reference_energy(energy, torch.zeros(1, 1), torch.zeros(1, 3, 2))


def test_the_five_chains_are_those_of_the_paper() -> None:
    shapes = {case.task: (case.batch, case.size, case.channels, case.code_shape, case.steps) for case in CHAINS}
    assert shapes == {
        "polygons": (100, 8, 2, (5,), 100),
        "digits": (100, 64, 2, (2,), 100),
        "mnist": (100, 342, 3, (64,), 500),
        "clevr": (100, 10, 5, (512,), 200),
        "celeba": (64, 5, 1, (5, 128), 50),
    }


def test_weights_depend_on_the_seed_alone() -> None:
    case = SMALL[0]
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second, other = case.build(CPU), case.build(CPU), case.build(CPU, seed=1)
    assert torch.equal(torch.rand(1), expected)
    weights = [next(iter(item.parameters())) for item in (first, second, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
