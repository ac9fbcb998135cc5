"""Every setting, as frozen dataclasses that check themselves.

Nothing here knows torch, so that the command line can show all settings without loading it. What a setting
*does* is documented where it is used; the line below a field is what ``--help`` prints.
"""

from desp.settings.base import Device as Device
from desp.settings.base import Distance as Distance
from desp.settings.base import Engine as Engine
from desp.settings.base import Initialisation as Initialisation
from desp.settings.base import InputKind as InputKind
from desp.settings.base import MatmulPrecision as MatmulPrecision
from desp.settings.base import Pooling as Pooling
from desp.settings.base import Variant as Variant
from desp.settings.base import require_setting as require_setting
from desp.settings.box_methods import BoxDenoiserSettings as BoxDenoiserSettings
from desp.settings.box_methods import DetectorSettings as DetectorSettings
from desp.settings.codec import from_json as from_json
from desp.settings.codec import to_json as to_json
from desp.settings.data import Columns as Columns
from desp.settings.data import DataDescription as DataDescription
from desp.settings.encoders import ConvEncoderSettings as ConvEncoderSettings
from desp.settings.encoders import EncoderSettings as EncoderSettings
from desp.settings.encoders import FSPoolSetEncoderSettings as FSPoolSetEncoderSettings
from desp.settings.encoders import LayeredEncoderSettings as LayeredEncoderSettings
from desp.settings.encoders import MLPEncoderSettings as MLPEncoderSettings
from desp.settings.encoders import PyramidEncoderSettings as PyramidEncoderSettings
from desp.settings.encoders import ResNet34EncoderSettings as ResNet34EncoderSettings
from desp.settings.encoders import ScalingEncoderSettings as ScalingEncoderSettings
from desp.settings.encoders import SumPooledSetEncoderSettings as SumPooledSetEncoderSettings
from desp.settings.energies import AttentionSettings as AttentionSettings
from desp.settings.energies import DeepSetsSettings as DeepSetsSettings
from desp.settings.energies import EnergySettings as EnergySettings
from desp.settings.energies import PooledLayersSettings as PooledLayersSettings
from desp.settings.energies import SetEncoderEnergySettings as SetEncoderEnergySettings
from desp.settings.label_methods import LabelLikelihoodSettings as LabelLikelihoodSettings
from desp.settings.label_methods import TaggerSettings as TaggerSettings
from desp.settings.methods import ContrastiveSettings as ContrastiveSettings
from desp.settings.methods import DenoiserSettings as DenoiserSettings
from desp.settings.methods import DiffusionSettings as DiffusionSettings
from desp.settings.methods import EnergyDenoisingSettings as EnergyDenoisingSettings
from desp.settings.methods import MethodSettings as MethodSettings
from desp.settings.methods import SetRiskSettings as SetRiskSettings
from desp.settings.methods import TSPNSettings as TSPNSettings
from desp.settings.migrations import SCHEMA as SCHEMA
from desp.settings.migrations import migrate_predictor as migrate_predictor
from desp.settings.migrations import migrate_run as migrate_run
from desp.settings.migrations import migrate_weights as migrate_weights
from desp.settings.representation import RepresentationSettings as RepresentationSettings
from desp.settings.run import RunSettings as RunSettings
from desp.settings.samplers import Aggregate as Aggregate
from desp.settings.samplers import DescentSettings as DescentSettings
from desp.settings.samplers import EDMSettings as EDMSettings
from desp.settings.samplers import LabelSamplerSettings as LabelSamplerSettings
from desp.settings.samplers import LangevinSettings as LangevinSettings
from desp.settings.samplers import SamplerSettings as SamplerSettings
from desp.settings.tasks import CelebaSettings as CelebaSettings
from desp.settings.tasks import CelebaSource as CelebaSource
from desp.settings.tasks import ClevrSettings as ClevrSettings
from desp.settings.tasks import ClevrSource as ClevrSource
from desp.settings.tasks import ClevrTarget as ClevrTarget
from desp.settings.tasks import DigitsSettings as DigitsSettings
from desp.settings.tasks import FilesSettings as FilesSettings
from desp.settings.tasks import MnistDataset as MnistDataset
from desp.settings.tasks import MnistSettings as MnistSettings
from desp.settings.tasks import PolygonsSettings as PolygonsSettings
from desp.settings.tasks import TaskSettings as TaskSettings
from desp.settings.training import TrainingSettings as TrainingSettings
