"""Direct risk: the distance of the descent's end."""

import pytest
import torch
from torch import Tensor, nn

from desp.data import draw_polygons
from desp.distances import SET_DISTANCES
from desp.energies import SetEnergy, Tables, default_input_encoder, make_energy
from desp.estimators import SetRiskEstimator
from desp.samplers import UnrolledDescent
from desp.settings import DeepSetsSettings, Distance, SetRiskSettings

every_distance = pytest.mark.parametrize("distance", SET_DISTANCES)


class QuadraticEnergy(SetEnergy):
    """E = k/2 |y|^2: a descent of size s keeps (1 - k s)^T of its start."""

    def __init__(self, stiffness: float) -> None:
        super().__init__(nn.Identity())
        self.stiffness = nn.Parameter(torch.tensor(stiffness, dtype=torch.float64))

    def score(self, code: Tensor, y: Tensor, tables: Tables | None = None) -> Tensor:
        del code, tables
        return 0.5 * self.stiffness * y.square().sum(dim=(1, 2))


@every_distance
def test_loss_is_the_distance_of_the_descents_end(distance: Distance) -> None:
    energy, descent = QuadraticEnergy(0.2), UnrolledDescent(4, 2, steps=3, step_size=0.5).double()
    estimator = SetRiskEstimator(energy, descent, SetRiskSettings(distance=distance, steps=3, step_size=0.5))
    x, y = torch.randn(6, 1).double(), torch.rand(6, 4, 2).double()
    loss, statistics = estimator(x, y, torch.Generator())

    stiffness = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    start = descent.start.detach().requires_grad_()
    end = (1 - 0.5 * stiffness) ** 3 * start
    expected = SET_DISTANCES[distance](end.expand(6, 4, 2), y).mean()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(statistics["risk"], expected.detach())
    assert not statistics["risk"].requires_grad

    found = torch.autograd.grad(loss, [energy.stiffness, descent.start])
    torch.testing.assert_close(found, torch.autograd.grad(expected, [stiffness, start]))


def build(distance: Distance) -> SetRiskEstimator:
    settings = DeepSetsSettings(hidden=32)
    energy = make_energy(settings, 2, (5,), default_input_encoder("vector", (5,), settings))
    risk = SetRiskSettings(distance=distance, steps=4)
    return SetRiskEstimator(energy, UnrolledDescent(8, 2, risk.steps, risk.step_size), risk)


@every_distance
def test_nothing_is_random(distance: Distance, generator: torch.Generator) -> None:
    estimator, batch = build(distance), draw_polygons(8, generator)
    seeds = [estimator(batch.x, batch.sets.elements, torch.Generator().manual_seed(k))[0] for k in (1, 2)]
    assert torch.equal(*seeds)


@every_distance
def test_training_lowers_the_risk(distance: Distance, generator: torch.Generator) -> None:
    estimator, batch = build(distance), draw_polygons(16, generator)
    optimiser = torch.optim.Adam(estimator.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss, _ = estimator(batch.x, batch.sets.elements, generator)
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert losses[-1] < 0.7 * losses[0]


def test_assignments_cannot_be_captured() -> None:
    assert build("chamfer").capturable
    assert not build("hungarian").capturable
