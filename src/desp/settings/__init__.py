"""Every setting, as frozen dataclasses that check themselves.

Nothing here knows torch, so that the command line can show all settings without loading it. What a setting
*does* is documented where it is used; the line below a field is what ``--help`` prints.
"""

from desp.settings.choices import (
    Device,
    Distance,
    Engine,
    FromTries,
    Initialisation,
    InputKind,
    MnistVariant,
    Pooling,
)
from desp.settings.codec import from_json, to_json
from desp.settings.energy import (
    AttentionSettings,
    DeepSetsSettings,
    EnergySettings,
    NetworkSettings,
    PooledLayersSettings,
    SetEncoderSettings,
    TransformerSettings,
)
from desp.settings.predictor import (
    ContrastiveSettings,
    DenoisingSettings,
    DirectSettings,
    EstimatorSettings,
    PaddingSettings,
    PredictorSettings,
    SetRiskSettings,
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
from desp.settings.samplers import LangevinSettings, SamplerSettings, SolverSettings

__all__ = [
    "AttentionSettings",
    "ContrastiveSettings",
    "DeepSetsSettings",
    "DenoisingSettings",
    "Device",
    "DigitsSettings",
    "DirectSettings",
    "Distance",
    "EnergySettings",
    "Engine",
    "EstimatorSettings",
    "FilesSettings",
    "FromTries",
    "Initialisation",
    "InputKind",
    "LangevinSettings",
    "MnistSettings",
    "MnistVariant",
    "NetworkSettings",
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
    "TransformerSettings",
    "from_json",
    "to_json",
]
