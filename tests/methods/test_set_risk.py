"""Direct risk: the distance of the descent's end."""

from typing import Literal

import pytest
import torch
from desp.estimators import SetRiskEstimator
from torch import Tensor, nn

from desp.data import draw_polygons
from desp.distances import SET_DISTANCES, chamfer
from desp.energies import SetEnergy, Tables, default_input_encoder, make_energy
from desp.nn import SizeHead, first_rows
from desp.samplers import UnrolledDescent
from desp.settings import DeepSetsSettings, Distance, SetEncoderSettings, SetRiskSettings

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


# -- DSPN and C-DSPN -----------------------------------------------------------------------------------

ENERGY = SetEncoderSettings(hidden=8, latent=6, divide_by_size=True, negative_slope=0.0, initialisation="xavier")


def padded_sets(sizes: list[int]) -> Tensor:
    """Sets with presence as last feature, their elements not at the first rows but at the last."""
    there = torch.arange(4).flip(0) < torch.tensor(sizes).unsqueeze(1)
    return torch.cat([torch.rand(len(sizes), 4, 2), torch.ones(len(sizes), 4, 1)], dim=-1) * there.unsqueeze(-1)


def system(risk: SetRiskSettings) -> SetRiskEstimator:
    energy = make_energy(ENERGY, 3, (5,), default_input_encoder("vector", (5,), ENERGY))
    sizes = SizeHead(6, 4, 8, layers=2) if risk.sizes == "first" else None
    descent = UnrolledDescent(4, 3, risk.steps, risk.step_size, risk.sizes)
    return SetRiskEstimator(energy, descent, risk, sizes).double()


@every_distance
@pytest.mark.parametrize("scored", ["last", "all"])
def test_the_loss_of_dspn(distance: Distance, scored: Literal["last", "all"]) -> None:
    risk = SetRiskSettings(
        distance=distance, steps=3, step_size=25.0, scored=scored, sizes="clamped", representation_weight=0.1
    )
    estimator, x, y = system(risk), torch.randn(5, 5).double(), padded_sets([0, 1, 2, 3, 4]).double()
    loss, statistics = estimator(x, y, torch.Generator())
    code = estimator.energy.encode(x)
    _, info = estimator.descent(estimator.energy, code, "trajectory")
    sets = list(info.trajectory) if scored == "all" else [info.trajectory[-1]]
    assert len(sets) == (4 if scored == "all" else 1)
    mean = sum(SET_DISTANCES[distance](item, y).mean() for item in sets) / len(sets)
    true = estimator.energy.score(code, y).mean()
    torch.testing.assert_close(statistics["risk"], mean)
    torch.testing.assert_close(statistics["representation"], true.detach())
    torch.testing.assert_close(loss, mean + 0.1 * true)


def test_the_loss_of_c_dspn() -> None:
    """Ragged sets by themselves, one by one; the size that is descended is the true one."""
    risk = SetRiskSettings(steps=3, step_size=25.0, scored="all", sizes="first", size_weight=0.5)
    estimator, x, y = system(risk), torch.randn(5, 5).double(), padded_sets([0, 1, 2, 3, 4]).double()
    loss, statistics = estimator(x, y, torch.Generator())
    code, there = estimator.energy.encode(x), first_rows(torch.arange(5), 4)
    sets = estimator.descent.all_sets(estimator.energy, code, there)
    distances = [
        chamfer(item[row : row + 1, :row, :-1], y[row : row + 1, 4 - row :, :-1])[0]
        for item in sets
        for row in range(5)
    ]
    log_p = estimator.sizes(code)[torch.arange(5), torch.arange(5)]
    torch.testing.assert_close(statistics["risk"], torch.stack(distances).mean().detach())
    torch.testing.assert_close(statistics["size"], -log_p.mean().detach())
    torch.testing.assert_close(loss, torch.stack(distances).mean() - 0.5 * log_p.mean())


@pytest.mark.parametrize("sizes", ["clamped", "first"])
def test_a_system_learns_sets_of_several_sizes(sizes: Literal["clamped", "first"]) -> None:
    estimator = system(SetRiskSettings(steps=5, step_size=25.0, scored="all", sizes=sizes))
    x, y = torch.eye(5).double(), padded_sets([0, 1, 2, 3, 4]).double()
    optimiser, losses = torch.optim.Adam(estimator.parameters(), lr=1e-2), []
    for _ in range(60):
        loss, statistics = estimator(x, y, torch.Generator())
        losses.append(statistics["risk"].item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert losses[-1] < 0.5 * losses[0]


def test_assignments_cannot_be_captured() -> None:
    assert build("chamfer").capturable
    assert not build("hungarian").capturable
