"""The first losses of each estimator on polygons, as text.

They change only when the method does. After a wanted change, write them anew and look at the difference::

    python tests/estimators/test_golden.py
"""

import json
from pathlib import Path

import pytest
import torch

from desp.data import draw_polygons
from desp.energies import default_input_encoder, make_energy
from desp.estimators import ContrastiveEstimator, Estimator, SetRiskEstimator
from desp.randomness import make_generator
from desp.samplers import UnrolledDescent
from desp.settings import (
    ContrastiveSettings,
    DeepSetsSettings,
    EnergySettings,
    LangevinSettings,
    SetEncoderSettings,
    SetRiskSettings,
)

GOLDEN = Path(__file__).parents[1] / "golden"

ENERGIES: dict[str, EnergySettings] = {
    "deep-sets": DeepSetsSettings(hidden=16),
    "set-encoder": SetEncoderSettings(hidden=16, latent=8),
}
ESTIMATORS: dict[str, ContrastiveSettings | SetRiskSettings] = {
    "contrastive": ContrastiveSettings(
        chain=LangevinSettings(steps=5, stochastic_steps=5, noise_scale=0.01), data_noise=0.015
    ),
    "set-risk-chamfer": SetRiskSettings(distance="chamfer", steps=5),
    "set-risk-hungarian": SetRiskSettings(distance="hungarian", steps=5),
}


def build(energy_name: str, estimator_name: str) -> Estimator:
    torch.manual_seed(0)
    settings, method = ENERGIES[energy_name], ESTIMATORS[estimator_name]
    energy = make_energy(settings, 2, (5,), default_input_encoder("vector", (5,), settings))
    if isinstance(method, ContrastiveSettings):
        return ContrastiveEstimator(energy, method, engine="eager")
    return SetRiskEstimator(energy, UnrolledDescent(8, 2, method.steps, method.step_size), method)


def losses(energy_name: str, estimator_name: str) -> list[float]:
    """Five steps of Adam on fresh polygons."""
    estimator = build(energy_name, estimator_name)
    optimiser = torch.optim.Adam(estimator.parameters(), lr=1e-3)
    values = []
    for step in range(5):
        batch = draw_polygons(16, make_generator(0, "data", step))
        loss, _ = estimator(batch.x, batch.sets.elements, make_generator(0, "chain", step))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        values.append(loss.item())
    return values


@pytest.mark.parametrize("energy", ENERGIES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_losses_are_those_on_file(energy: str, estimator: str) -> None:
    expected = json.loads((GOLDEN / f"{estimator}.json").read_text())[energy]
    assert losses(energy, estimator) == pytest.approx(expected, rel=1e-4, abs=1e-7)


if __name__ == "__main__":
    for name in ESTIMATORS:
        table = {energy: losses(energy, name) for energy in ENERGIES}
        (GOLDEN / f"{name}.json").write_text(json.dumps(table, indent=2) + "\n")
