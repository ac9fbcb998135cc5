"""What methods tell of how their chains run, and what decides it."""

import pytest
import torch
from torch import Tensor

from desp.data.shape import DataShape
from desp.methods import Method, build_method
from desp.samplers import ChainInfo
from desp.sets import SetRepresentation
from desp.settings import (
    ContrastiveSettings,
    DeepSetsSettings,
    EDMSettings,
    EnergyDenoisingSettings,
    LangevinSettings,
    MethodSettings,
    RepresentationSettings,
)

ENERGY = DeepSetsSettings(hidden=8)
RESTARTS = LangevinSettings(steps=2, stochastic_steps=2, restarts=3)


def build(settings: MethodSettings, shape: DataShape) -> Method:
    return build_method(settings, shape, SetRepresentation(RepresentationSettings()))


@pytest.mark.parametrize(
    ("settings", "chains"),
    [
        (ContrastiveSettings(energy=ENERGY, sampler=RESTARTS), [6, 6, 6]),  # all restarts of two sets
        (ContrastiveSettings(energy=ENERGY, sampler=LangevinSettings(2, 0, restarts=3)), [2]),  # without noise
        (EnergyDenoisingSettings(energy=ENERGY, sampler=EDMSettings(steps=2)), [None]),
    ],
)
def test_prediction_says_how_many_chains_there_are_and_how_they_ran(
    settings: MethodSettings, chains: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    method, asked = build(settings, DataShape((3,), 2, 4)), []
    engine = method.prediction_engine

    def run(
        sampler: object, code: Tensor, start: Tensor, generator: object, record: str, chains: int | None = None
    ) -> tuple[Tensor, ChainInfo]:
        del sampler, code, generator, record
        asked.append(chains)
        engine.used = "compiled"
        return start, ChainInfo()

    monkeypatch.setattr(engine, "run", run)
    method.sample(method.encode(torch.ones(2, 3)), torch.Generator())
    assert asked == chains
    assert method.engine_used == "compiled"
