"""Direct risk: the distance of the descent's end."""

from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from desp.data import draw_polygons
from desp.data.shape import DataShape
from desp.distances import SET_DISTANCES, chamfer
from desp.energies import SetEnergy
from desp.methods import SetRisk, build_method
from desp.sets import SetRepresentation, prefix_mask
from desp.settings import (
    DeepSetsSettings,
    DescentSettings,
    Distance,
    RepresentationSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
)
from small_methods import Given

every_distance = pytest.mark.parametrize("distance", SET_DISTANCES)


class QuadraticEnergy(SetEnergy):
    """E = k/2 |y|^2: a descent of size s keeps (1 - k s)^T of its start."""

    def __init__(self, stiffness: float) -> None:
        super().__init__()
        self.stiffness = nn.Parameter(torch.tensor(stiffness, dtype=torch.float64))

    def energy(self, code: Tensor, y: Tensor) -> Tensor:
        del code
        return 0.5 * self.stiffness * y.square().sum(dim=(1, 2))


def make(
    settings: SetRiskSettings,
    size: int,
    input_shape: tuple[int, ...] = (5,),
    padding: SetRepresentation | None = None,
    encoder: nn.Module | None = None,
) -> SetRisk:
    padding = padding or SetRepresentation(RepresentationSettings("zero", scaling="none"))
    method = build_method(settings, DataShape(input_shape, 2, size), padding, encoder)
    assert isinstance(method, SetRisk)
    return method


@every_distance
def test_loss_is_the_distance_of_the_descents_end(distance: Distance) -> None:
    energy = QuadraticEnergy(0.2)
    settings = SetRiskSettings(energy=Given(energy=energy), distance=distance, descent=DescentSettings(3, 0.5))
    method = make(settings, 4, (1,), encoder=nn.Identity()).double()
    start_of = method.descent.start
    x, y = torch.randn(6, 1).double(), torch.rand(6, 4, 2).double()
    loss, statistics = method(x, y, torch.Generator())

    stiffness = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    start = start_of.detach().requires_grad_()
    end = (1 - 0.5 * stiffness) ** 3 * start
    expected = SET_DISTANCES[distance](end.expand(6, 4, 2), y).mean()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(statistics["risk"], expected.detach())
    assert not statistics["risk"].requires_grad

    found = torch.autograd.grad(loss, [energy.stiffness, start_of])
    torch.testing.assert_close(found, torch.autograd.grad(expected, [stiffness, start]))


def build(distance: Distance) -> SetRisk:
    descent = DescentSettings(steps=4)
    return make(SetRiskSettings(energy=DeepSetsSettings(hidden=32), distance=distance, descent=descent), 8)


@every_distance
def test_nothing_is_random(distance: Distance, generator: torch.Generator) -> None:
    method, batch = build(distance), draw_polygons(8, generator)
    seeds = [method(batch.x, batch.sets.elements, torch.Generator().manual_seed(k))[0] for k in (1, 2)]
    assert torch.equal(*seeds)


@every_distance
def test_training_lowers_the_risk(distance: Distance, generator: torch.Generator) -> None:
    method, batch = build(distance), draw_polygons(16, generator)
    optimiser = torch.optim.Adam(method.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss, _ = method(batch.x, batch.sets.elements, generator)
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert losses[-1] < 0.7 * losses[0]


# -- DSPN and C-DSPN -----------------------------------------------------------------------------------

ENERGY = SetEncoderEnergySettings(
    hidden=8, latent=6, divide_by_size=True, negative_slope=0.0, initialisation="xavier"
)


def padded_sets(sizes: list[int]) -> Tensor:
    """Sets with presence as last feature, their elements not at the first rows but at the last."""
    there = torch.arange(4).flip(0) < torch.tensor(sizes).unsqueeze(1)
    return torch.cat([torch.rand(len(sizes), 4, 2), torch.ones(len(sizes), 4, 1)], dim=-1) * there.unsqueeze(-1)


def system(steps: int, **settings: Any) -> SetRisk:
    descent = DescentSettings(steps, 25.0)
    risk = SetRiskSettings(energy=ENERGY, descent=descent, cardinality_hidden=8, **settings)
    return make(risk, 4, padding=SetRepresentation(RepresentationSettings())).double()


def assert_same_gradients(method: nn.Module, loss: Tensor, expected: Tensor) -> None:
    """Every part of a loss trains all that it depends on, the encoder too."""
    weights = [*method.parameters()]
    torch.testing.assert_close(torch.autograd.grad(loss, weights), torch.autograd.grad(expected, weights))


@every_distance
@pytest.mark.parametrize("supervise", ["last", "all"])
def test_the_loss_of_dspn(distance: Distance, supervise: Literal["last", "all"]) -> None:
    method = system(3, distance=distance, supervise=supervise, cardinality="clamped", representation_weight=0.1)
    x, y = torch.randn(5, 5).double(), padded_sets([0, 1, 2, 3, 4]).double()
    loss, statistics = method(x, y, torch.Generator())
    code = method.encode(x)
    _, info = method.descent(method.energy, code, DescentSettings(3, 25.0), "sets")
    sets = list(info.trajectory) if supervise == "all" else [info.trajectory[-1]]
    assert len(sets) == (4 if supervise == "all" else 1)
    mean = sum(SET_DISTANCES[distance](item, y).mean() for item in sets) / len(sets)
    true = method.energy.energy(code, y).mean()
    torch.testing.assert_close(statistics["risk"], mean)
    torch.testing.assert_close(statistics["representation_loss"], true.detach())
    torch.testing.assert_close(loss, mean + 0.1 * true)
    iterates = method.descent.all_sets(method.energy, code, DescentSettings(3, 25.0))[-len(sets) :]
    differentiable = sum(SET_DISTANCES[distance](item, y).mean() for item in iterates) / len(sets)
    assert_same_gradients(method, loss, differentiable + 0.1 * true)


def test_the_loss_of_c_dspn() -> None:
    """Ragged sets by themselves, one by one; the cardinality that is descended is the true one."""
    method = system(3, supervise="all", cardinality="predicted", cardinality_weight=0.5)
    x, y = torch.randn(5, 5).double(), padded_sets([0, 1, 2, 3, 4]).double()
    loss, statistics = method(x, y, torch.Generator())
    code, mask = method.encode(x), prefix_mask(torch.arange(5), 4)
    sets = method.descent.all_sets(method.energy, code, DescentSettings(3, 25.0), mask)
    distances = [
        chamfer(item[row : row + 1, :row, :-1], y[row : row + 1, 4 - row :, :-1])[0]
        for item in sets
        for row in range(5)
    ]
    log_p = method.cardinality(code)[torch.arange(5), torch.arange(5)]
    torch.testing.assert_close(statistics["risk"], torch.stack(distances).mean().detach())
    torch.testing.assert_close(statistics["cardinality_loss"], -log_p.mean().detach())
    torch.testing.assert_close(loss, torch.stack(distances).mean() - 0.5 * log_p.mean())
    assert_same_gradients(method, loss, torch.stack(distances).mean() - 0.5 * log_p.mean())


@pytest.mark.parametrize("cardinality", ["clamped", "predicted"])
def test_a_system_learns_sets_of_several_cardinalities(cardinality: Literal["clamped", "predicted"]) -> None:
    method = system(5, supervise="all", cardinality=cardinality)
    x, y = torch.eye(5).double(), padded_sets([0, 1, 2, 3, 4]).double()
    optimiser, losses = torch.optim.Adam(method.parameters(), lr=1e-2), []
    for _ in range(60):
        loss, statistics = method(x, y, torch.Generator())
        losses.append(statistics["risk"].item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("cardinality", ["clamped", "predicted"])
def test_prediction_may_descend_otherwise_than_training(cardinality: Literal["clamped", "predicted"]) -> None:
    longer = DescentSettings(7, 5.0)
    method, x = system(3, cardinality=cardinality, sampler=longer), torch.randn(5, 5).double()
    code, noise = method.encode(x), torch.Generator()
    mask = None if method.cardinality is None else prefix_mask(method.cardinality.mode(code), 4)
    for given, used in ((None, longer), (DescentSettings(2, 1.0), DescentSettings(2, 1.0))):
        sets, info = method.sample(code, noise, given, "sets")
        with torch.no_grad():
            expected, _ = method.descent(method.energy, code, used, presence=mask)
        torch.testing.assert_close(sets, expected)
        assert len(info.trajectory) == used.steps + 1
    plain = system(3, cardinality=cardinality)
    assert len(plain.sample(plain.encode(x), noise, record="energies")[1].energies) == 3
