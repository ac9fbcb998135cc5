"""desp: predict sets when more than one answer is right.

An *energy* scores a set for an input, an *estimator* fits the energy to data, a *sampler* turns it into
predictions. `EnergyPredictor` ties the three together.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from desp.errors import DespError
    from desp.predictors import EnergyPredictor, Mode, Prediction
    from desp.samplers import LogDensity
    from desp.sets import SetBatch
    from desp.settings import (
        AttentionSettings,
        ContrastiveSettings,
        DeepSetsSettings,
        DenoisingSettings,
        DirectSettings,
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

# Where each public name lives. Loaded on first use: importing torch takes seconds, `desp --help` must not.
_HOMES = {
    "AttentionSettings": "desp.settings",
    "ContrastiveSettings": "desp.settings",
    "DeepSetsSettings": "desp.settings",
    "DenoisingSettings": "desp.settings",
    "DespError": "desp.errors",
    "DirectSettings": "desp.settings",
    "EnergyPredictor": "desp.predictors",
    "LangevinSettings": "desp.settings",
    "LogDensity": "desp.samplers",
    "Mode": "desp.predictors",
    "PaddingSettings": "desp.settings",
    "PooledLayersSettings": "desp.settings",
    "Prediction": "desp.predictors",
    "PredictorSettings": "desp.settings",
    "SetBatch": "desp.sets",
    "SetEncoderSettings": "desp.settings",
    "SetRiskSettings": "desp.settings",
    "SolverSettings": "desp.settings",
    "TrainingSettings": "desp.settings",
    "TransformerSettings": "desp.settings",
}

__all__ = [
    "AttentionSettings",
    "ContrastiveSettings",
    "DeepSetsSettings",
    "DenoisingSettings",
    "DespError",
    "DirectSettings",
    "EnergyPredictor",
    "LangevinSettings",
    "LogDensity",
    "Mode",
    "PaddingSettings",
    "PooledLayersSettings",
    "Prediction",
    "PredictorSettings",
    "SetBatch",
    "SetEncoderSettings",
    "SetRiskSettings",
    "SolverSettings",
    "TrainingSettings",
    "TransformerSettings",
    "__version__",
]

try:
    __version__ = version("desp")
except PackageNotFoundError:  # used from a checkout that was never installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'desp' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})  # completion must know the names that are loaded on first use
