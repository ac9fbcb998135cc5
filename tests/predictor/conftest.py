"""Predictors that fit in milliseconds, one for every estimator and energy, and for every compared system."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from desp.predictors import EnergyPredictor
from desp.settings import (
    AttentionSettings,
    ContrastiveSettings,
    DeepSetsSettings,
    DenoisingSettings,
    DirectSettings,
    EnergySettings,
    EstimatorSettings,
    LangevinSettings,
    PaddingSettings,
    PooledLayersSettings,
    PredictorSettings,
    SetEncoderSettings,
    SetRiskSettings,
    SolverSettings,
    TrainingSettings,
    TransformerSettings,
)

Pairs = list[tuple[Tensor, Tensor]]
Make = Callable[..., EnergyPredictor]

ENERGIES: dict[str, EnergySettings] = {
    "deep-sets": DeepSetsSettings(hidden=8),
    "set-encoder": SetEncoderSettings(hidden=8, latent=6),
}
ESTIMATORS: dict[str, EstimatorSettings] = {
    "contrastive": ContrastiveSettings(chain=LangevinSettings(steps=3, stochastic_steps=3)),
    "set-risk": SetRiskSettings(steps=3),
}
# Nothing is ever exactly zero after a noisy step, so with this padding every row of a chain is an element.
KEEP_ALL = PaddingSettings(kind="zero", threshold=0.0, rule="any")
VARIANTS = {
    f"{estimator}-{energy}": PredictorSettings(
        energy=ENERGIES[energy],
        estimator=ESTIMATORS[estimator],
        sampler=LangevinSettings(steps=4, stochastic_steps=3),
        padding=KEEP_ALL,
    )
    for estimator in ESTIMATORS
    for energy in ENERGIES
} | {
    f"denoising-{energy.kind}": PredictorSettings(
        energy=energy,
        estimator=DenoisingSettings(sizes="denoised"),
        sampler=SolverSettings(steps=3),
        padding=KEEP_ALL,
    )
    for energy in (DeepSetsSettings(hidden=8), PooledLayersSettings(hidden=8))
}
# The library's own choice, and the other networks it goes with: sizes are drawn first, then their elements.
DEFAULT = PredictorSettings()
ATTENTION = AttentionSettings(hidden=8, layers=1, heads=2, waves=2)
SIZES_FIRST: dict[str, EnergySettings] = {
    "default": replace(DEFAULT.energy, hidden=8),
    "attention": ATTENTION,
    "attention-field": replace(ATTENTION, field=True),
}
VARIANTS |= {
    name: replace(DEFAULT, energy=energy, sampler=replace(DEFAULT.sampler, steps=3))
    for name, energy in SIZES_FIRST.items()
}
DSPN_ENERGY = SetEncoderSettings(
    hidden=8, latent=6, divide_by_size=True, negative_slope=0.0, initialisation="xavier"
)
DSPN = SetRiskSettings(steps=3, step_size=25.0, scored="all", sizes="clamped")
# Sizes differ here, as presence is what these systems are about.
SYSTEMS = {
    "dspn-chamfer": PredictorSettings(energy=DSPN_ENERGY, estimator=DSPN),
    "dspn-hungarian": PredictorSettings(
        energy=DSPN_ENERGY,
        estimator=replace(DSPN, distance="hungarian", scored="last", representation_weight=0.1),
    ),
    "c-dspn": PredictorSettings(energy=DSPN_ENERGY, estimator=replace(DSPN, sizes="first", size_hidden=64)),
    "tspn": PredictorSettings(
        energy=TransformerSettings(hidden=8, heads=2, layers=2, feedforward=16, latent=6),
        estimator=DirectSettings(size_hidden=64),
    ),
}
VARIANTS |= SYSTEMS


PLAINEST = "contrastive-deep-sets"
# Enough training to move every weight.
SHORT = TrainingSettings(
    steps=3,
    batch_size=4,
    learning_rate=1e-2,
    warmup_steps=0,
    decay="constant",
    clip_norm=None,
    ema_decay=None,
)


def ragged_pairs() -> Pairs:
    generator = torch.Generator().manual_seed(3)
    return [
        (torch.randn(3, generator=generator), torch.rand(index % 4 + 1, 2, generator=generator))
        for index in range(12)
    ]


@cache
def fitted_once(name: str) -> EnergyPredictor:
    """The variant, fitted once in each test process. Hand out copies: tests may change what they are given."""
    predictor = EnergyPredictor(VARIANTS[name], device="cpu")
    predictor.fit(ragged_pairs(), SHORT)
    return predictor


@pytest.fixture(params=VARIANTS)
def variant_name(request: pytest.FixtureRequest) -> str:
    """The name of every kind of predictor in turn."""
    return str(request.param)


@pytest.fixture
def variant(variant_name: str) -> PredictorSettings:
    """Settings of every kind of predictor in turn."""
    return VARIANTS[variant_name]


@pytest.fixture
def fitted_variant(variant_name: str) -> EnergyPredictor:
    """Every kind of predictor in turn, fitted to `pairs`."""
    return deepcopy(fitted_once(variant_name))


@pytest.fixture
def settings() -> PredictorSettings:
    """Settings of the plainest predictor."""
    return VARIANTS[PLAINEST]


@pytest.fixture
def contrastive(settings: PredictorSettings) -> EnergyPredictor:
    """A contrastive predictor that is not fitted yet."""
    return EnergyPredictor(settings, device="cpu")


@pytest.fixture
def fitted() -> EnergyPredictor:
    """A contrastive predictor, fitted to `pairs`."""
    return deepcopy(fitted_once(PLAINEST))


@pytest.fixture
def short() -> TrainingSettings:
    """Enough training to move every weight."""
    return SHORT


@pytest.fixture
def pairs() -> Pairs:
    """Ragged sets of one to four points in the unit square for inputs of three numbers."""
    return ragged_pairs()


@pytest.fixture
def with_presence(settings: PredictorSettings) -> PredictorSettings:
    """The same with a presence column whose threshold about half of the rows pass after a noisy chain."""
    return replace(settings, padding=PaddingSettings(kind="presence", threshold=0.0))
