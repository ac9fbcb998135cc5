"""desp: predict sets when more than one answer is right.

`SetPredictor` is fitted to (input, set) pairs and predicts K sets for an input. A *method* is how a model is
trained and how sets are sampled from it; some methods train an *energy*, which scores a set for an input.

'The paper', its equations, sections and tables: Zhang, Burghouts and Snoek, "Set Prediction without Imposing
Structure as Conditional Density Estimation", ICLR 2021.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from desp.distances import chamfer as chamfer
    from desp.distances import hungarian as hungarian
    from desp.energies import SetEnergy as SetEnergy
    from desp.errors import DespError as DespError
    from desp.methods import Method as Method
    from desp.predictor import Mode as Mode
    from desp.predictor import Prediction as Prediction
    from desp.predictor import SetPredictor as SetPredictor
    from desp.samplers import LogDensity as LogDensity
    from desp.sets import SetBatch as SetBatch
    from desp.settings import AttentionSettings as AttentionSettings
    from desp.settings import AutoregressiveTaggerSettings as AutoregressiveTaggerSettings
    from desp.settings import ContrastiveSettings as ContrastiveSettings
    from desp.settings import DataDescription as DataDescription
    from desp.settings import DeepSetsSettings as DeepSetsSettings
    from desp.settings import DenoiserSettings as DenoiserSettings
    from desp.settings import DescentSettings as DescentSettings
    from desp.settings import EDMSettings as EDMSettings
    from desp.settings import EnergyDenoisingSettings as EnergyDenoisingSettings
    from desp.settings import EngressionSettings as EngressionSettings
    from desp.settings import LabelLikelihoodSettings as LabelLikelihoodSettings
    from desp.settings import LabelSamplerSettings as LabelSamplerSettings
    from desp.settings import LangevinSettings as LangevinSettings
    from desp.settings import PooledLayersSettings as PooledLayersSettings
    from desp.settings import RepresentationSettings as RepresentationSettings
    from desp.settings import SetEncoderEnergySettings as SetEncoderEnergySettings
    from desp.settings import SetRiskSettings as SetRiskSettings
    from desp.settings import TaggerSettings as TaggerSettings
    from desp.settings import TrainingSettings as TrainingSettings
    from desp.settings import TSPNSettings as TSPNSettings

    __version__: str

# Where each public name lives. Loaded on first use: importing torch takes seconds, `desp --help` must not.
_HOMES = {
    "AttentionSettings": "desp.settings",
    "ContrastiveSettings": "desp.settings",
    "DataDescription": "desp.settings",
    "DeepSetsSettings": "desp.settings",
    "DenoiserSettings": "desp.settings",
    "DescentSettings": "desp.settings",
    "LabelSamplerSettings": "desp.settings",
    "DespError": "desp.errors",
    "EDMSettings": "desp.settings",
    "EnergyDenoisingSettings": "desp.settings",
    "EngressionSettings": "desp.settings",
    "LabelLikelihoodSettings": "desp.settings",
    "LangevinSettings": "desp.settings",
    "LogDensity": "desp.samplers",
    "Method": "desp.methods",
    "Mode": "desp.predictor",
    "PooledLayersSettings": "desp.settings",
    "Prediction": "desp.predictor",
    "RepresentationSettings": "desp.settings",
    "SetBatch": "desp.sets",
    "SetEncoderEnergySettings": "desp.settings",
    "SetEnergy": "desp.energies",
    "SetPredictor": "desp.predictor",
    "SetRiskSettings": "desp.settings",
    "TSPNSettings": "desp.settings",
    "AutoregressiveTaggerSettings": "desp.settings",
    "TaggerSettings": "desp.settings",
    "TrainingSettings": "desp.settings",
    "chamfer": "desp.distances",
    "hungarian": "desp.distances",
}

__all__ = sorted((*_HOMES, "__version__"))  # noqa: PLE0605 - one list is enough


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'desp' has no attribute '{name}'")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # takes longer than all else here

    try:
        return _version_of_checkout() or version("desp")
    except PackageNotFoundError:
        return "0+unknown"


def _version_of_checkout() -> str | None:
    """What pyproject.toml says where this code lies in its repository, installed or not; another version may be
    installed as well."""
    import tomllib
    from pathlib import Path

    try:
        project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, IndexError, ValueError):
        return None
    known = project.get("project", {})
    return known.get("version") if known.get("name") == "desp" else None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})  # completion must know the names that are loaded on first use
