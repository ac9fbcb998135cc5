"""Every setting, as frozen dataclasses that check themselves.

Nothing here knows torch, so that the command line can show all settings without loading it. What a setting
*does* is documented where it is used; the line below a field is what ``--help`` prints.
"""

from desp.settings.choices import Device, Distance, Engine, InputKind, MnistVariant, Pooling
from desp.settings.codec import from_json, to_json
from desp.settings.predictor import (
    ContrastiveSettings,
    DeepSetsSettings,
    DenoisingSettings,
    EnergySettings,
    EstimatorSettings,
    LangevinSettings,
    PaddingSettings,
    PooledLayersSettings,
    PredictorSettings,
    SamplerSettings,
    SetEncoderSettings,
    SetRiskSettings,
    SolverSettings,
)
from desp.settings.run import (
    DigitsSettings,
    FilesSettings,
    MnistSettings,
    PolygonsSettings,
    RunSettings,
    TaskSettings,
    TrainingSettings,
)

__all__ = [
    "ContrastiveSettings",
    "DeepSetsSettings",
    "DenoisingSettings",
    "Device",
    "DigitsSettings",
    "Distance",
    "EnergySettings",
    "Engine",
    "EstimatorSettings",
    "FilesSettings",
    "InputKind",
    "LangevinSettings",
    "MnistSettings",
    "MnistVariant",
    "PaddingSettings",
    "PolygonsSettings",
    "PooledLayersSettings",
    "Pooling",
    "PredictorSettings",
    "RunSettings",
    "SamplerSettings",
    "SetEncoderSettings",
    "SetRiskSettings",
    "SolverSettings",
    "TaskSettings",
    "TrainingSettings",
    "from_json",
    "to_json",
]
