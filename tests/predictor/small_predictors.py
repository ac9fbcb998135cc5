"""Predictors that fit in milliseconds, one for every method and energy, and for every baseline."""

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from desp.predictor import SetPredictor
from desp.settings import (
    AttentionSettings,
    ContrastiveSettings,
    DeepSetsSettings,
    DenoiserSettings,
    DescentSettings,
    EDMSettings,
    EnergyDenoisingSettings,
    EnergySettings,
    LangevinSettings,
    MethodSettings,
    PooledLayersSettings,
    RepresentationSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
    TrainingSettings,
    TSPNSettings,
)

Pairs = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Parts:
    """All settings of a predictor."""

    method: MethodSettings
    representation: RepresentationSettings = field(default_factory=RepresentationSettings)

    def predictor(self, **options: Any) -> SetPredictor:
        """One with these settings, not fitted yet."""
        return SetPredictor(self.method, self.representation, **options)

    def represented(self, **changes: Any) -> "Parts":
        """The same method, with sets written otherwise."""
        return replace(self, representation=replace(self.representation, **changes))


ENERGIES: dict[str, EnergySettings] = {
    "deep-sets": DeepSetsSettings(hidden=8),
    "set-encoder": SetEncoderEnergySettings(hidden=8, latent=6),
}
# Nothing is ever exactly zero after a noisy step, so with this padding every row of a chain is an element.
KEEP_ALL = RepresentationSettings(padding="zero", threshold=0.0, presence_rule="any_beyond", scaling="none")
VARIANTS: dict[str, Parts] = {}
for name, energy in ENERGIES.items():
    VARIANTS[f"contrastive-{name}"] = Parts(
        ContrastiveSettings(
            energy=energy,
            training_sampler=LangevinSettings(steps=3, stochastic_steps=3),
            sampler=LangevinSettings(steps=4, stochastic_steps=3),
        ),
        KEEP_ALL,
    )
    VARIANTS[f"set-risk-{name}"] = Parts(
        SetRiskSettings(energy=energy, descent=DescentSettings(steps=3)), KEEP_ALL
    )
for energy in (DeepSetsSettings(hidden=8), PooledLayersSettings(hidden=8)):
    VARIANTS[f"denoising-{energy.kind}"] = Parts(
        EnergyDenoisingSettings(energy=energy, cardinality="denoised", sampler=EDMSettings(steps=3)), KEEP_ALL
    )
# Energy-denoising's own defaults, and other networks: the cardinality is predicted, then its elements.
DEFAULT = EnergyDenoisingSettings()
ATTENTION = AttentionSettings(hidden=8, layers=1, heads=2, fourier_frequencies=2)
FEW_STEPS = replace(DEFAULT.sampler, steps=3)
VARIANTS |= {
    "default": Parts(replace(DEFAULT, energy=PooledLayersSettings(hidden=8), sampler=FEW_STEPS)),
    "attention": Parts(replace(DEFAULT, energy=ATTENTION, sampler=FEW_STEPS)),
    "independent": Parts(replace(DEFAULT, energy=replace(ATTENTION, heads=0), sampler=FEW_STEPS)),
    "attention-denoiser": Parts(DenoiserSettings(network=ATTENTION, sampler=FEW_STEPS)),
}
DSPN = SetRiskSettings(
    energy=SetEncoderEnergySettings(
        hidden=8, latent=6, divide_by_size=True, negative_slope=0.0, initialisation="xavier"
    ),
    descent=DescentSettings(steps=3, step_size=25.0),
    supervise="all",
    cardinality="clamped",
)
# Sizes differ here, as presence is what these baselines are about.
BASELINES = {
    "dspn-chamfer": Parts(DSPN),
    "dspn-hungarian": Parts(replace(DSPN, distance="hungarian", supervise="last", representation_weight=0.1)),
    "c-dspn": Parts(replace(DSPN, cardinality="predicted", cardinality_hidden=64)),
    "tspn": Parts(
        TSPNSettings(hidden=8, heads=2, layers=2, feedforward=16, latent=6, cardinality_hidden=64),
    ),
}
VARIANTS |= BASELINES

PLAINEST = "contrastive-deep-sets"
# Enough training to move every weight.
SHORT = TrainingSettings(
    steps=3,
    batch_size=4,
    learning_rate=1e-2,
    warmup_steps=0,
    lr_schedule="constant",
    clip_norm=None,
    ema_decay=None,
)


def ragged_pairs() -> Pairs:
    """Ragged sets of one to four points in the unit square for inputs of three numbers."""
    generator = torch.Generator().manual_seed(3)
    return [
        (torch.randn(3, generator=generator), torch.rand(index % 4 + 1, 2, generator=generator))
        for index in range(12)
    ]


@cache
def fitted_once(name: str) -> SetPredictor:
    """The variant, fitted once in each test process. Hand out copies: tests may change what they are given."""
    predictor = VARIANTS[name].predictor(device="cpu")
    predictor.fit(ragged_pairs(), SHORT)
    return predictor
