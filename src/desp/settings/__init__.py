"""Every setting, as frozen dataclasses that check themselves.

Nothing here knows torch, so that the command line can show all settings without loading it. What a setting
*does* is documented where it is used; the line below a field is what ``--help`` prints.
"""

from desp.settings.base import (
    Device,
    Distance,
    Engine,
    Initialisation,
    InputKind,
    MatmulPrecision,
    Pooling,
    Variant,
    require_setting,
)
from desp.settings.codec import from_json, to_json
from desp.settings.data import Columns, DataDescription
from desp.settings.encoders import (
    AutoEncoderSettings,
    ConvEncoderSettings,
    ElementsEncoderSettings,
    EncoderSettings,
    FSPoolSetEncoderSettings,
    IdentityEncoderSettings,
    LayeredEncoderSettings,
    MLPEncoderSettings,
    PaddedSetEncoderSettings,
    SumPooledSetEncoderSettings,
)
from desp.settings.energies import (
    AttentionSettings,
    DeepSetsSettings,
    EnergySettings,
    PooledLayersSettings,
    SetEncoderSettings,
)
from desp.settings.methods import (
    ContrastiveSettings,
    DenoiserSettings,
    DenoisingSettings,
    DiffusionSettings,
    MethodSettings,
    SetRiskSettings,
    TSPNSettings,
)
from desp.settings.migrations import SCHEMA, migrate_predictor, migrate_run, migrate_weights
from desp.settings.representation import RepresentationSettings
from desp.settings.run import RunSettings
from desp.settings.samplers import Aggregate, DescentSettings, EDMSettings, LangevinSettings, SamplerSettings
from desp.settings.tasks import (
    DigitsSettings,
    FilesSettings,
    MnistSettings,
    MnistVariant,
    PolygonsSettings,
    TaskSettings,
)
from desp.settings.training import TrainingSettings

__all__ = [
    "SCHEMA",
    "Aggregate",
    "AttentionSettings",
    "AutoEncoderSettings",
    "Columns",
    "ContrastiveSettings",
    "ConvEncoderSettings",
    "DataDescription",
    "DeepSetsSettings",
    "DenoiserSettings",
    "DenoisingSettings",
    "DescentSettings",
    "Device",
    "DiffusionSettings",
    "DigitsSettings",
    "Distance",
    "EDMSettings",
    "ElementsEncoderSettings",
    "EncoderSettings",
    "EnergySettings",
    "Engine",
    "FSPoolSetEncoderSettings",
    "FilesSettings",
    "IdentityEncoderSettings",
    "Initialisation",
    "InputKind",
    "LangevinSettings",
    "LayeredEncoderSettings",
    "MLPEncoderSettings",
    "MatmulPrecision",
    "MethodSettings",
    "MnistSettings",
    "MnistVariant",
    "PaddedSetEncoderSettings",
    "PolygonsSettings",
    "PooledLayersSettings",
    "Pooling",
    "RepresentationSettings",
    "RunSettings",
    "SamplerSettings",
    "SetEncoderSettings",
    "SetRiskSettings",
    "SumPooledSetEncoderSettings",
    "TSPNSettings",
    "TaskSettings",
    "TrainingSettings",
    "Variant",
    "from_json",
    "migrate_predictor",
    "migrate_run",
    "migrate_weights",
    "require_setting",
    "to_json",
]
