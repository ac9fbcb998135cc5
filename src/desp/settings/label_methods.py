"""Settings of methods for binary labels of given elements: outputs are aligned with inputs, one number each."""

from dataclasses import dataclass, field
from typing import ClassVar

from desp.settings.base import InputKind, require_positive, require_setting
from desp.settings.encoders import EncoderSettings, MLPEncoderSettings
from desp.settings.energies import DeepSetsSettings, EnergySettings
from desp.settings.methods import EnergyMethodSettings, MethodSettings
from desp.settings.samplers import LabelSamplerSettings

MOST_ELEMENTS = 10
"""Largest set whose 2^n labellings are enumerated."""


def _require_two(labels: tuple[float, float]) -> None:
    require_setting(labels[0] < labels[1], "labels", "(low, high), finite, with low < high", labels)


@dataclass(frozen=True)
class EquivariantSettings(MethodSettings):
    """Permutation-equivariant layers (Zaheer et al. 2017) that give a logit for the label of each element."""

    can_align: ClassVar[bool] = True
    hidden: int = 256
    """Width of the layers."""
    layers: int = 4
    """Permutation-equivariant layers, the last one of them to the logit."""
    labels: tuple[float, float] = (0.0, 1.0)
    """The two values of a label in scaled units: 0 and 1 if the data have these, or if automatic scaling of own
    data maps them there, as it does where one lies outside [-.05, 1.05] or they differ by less than .2. On CelebA
    -.5 and .5, as its task halves the labels -1 and 1."""

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "layers")
        _require_two(self.labels)

    @property
    def width(self) -> int:
        """Width of the layers."""
        return self.hidden

    def default_encoder(self, kind: InputKind) -> EncoderSettings:
        """An MLP on each element."""
        require_setting(kind == "set", "inputs", f"sets for the method {self.kind}", kind)
        return MLPEncoderSettings(self.hidden, self.hidden)


@MethodSettings.register("tagger", "desp.methods.tagger:Tagger")
@dataclass(frozen=True)
class TaggerSettings(EquivariantSettings):
    """The baseline of the paper's subset anomalies: permutation-equivariant layers (Zaheer et al. 2017) to a
    probability for the label of each element. Labels are independent given the input."""

    summary: ClassVar[str] = "independent binary labels of given elements"
    sampler: LabelSamplerSettings = field(default_factory=lambda: LabelSamplerSettings(min_probability=1.0))
    """Which labels are predicted. By default the more probable one of each element, so that there is one answer;
    with `min_probability` None independent samples."""

    def __post_init__(self) -> None:
        super().__post_init__()
        least = self.sampler.min_probability
        require_setting(least in (None, 1), "sampler.min_probability", "1 or None for the method tagger", least)

    @property
    def learns_dependence(self) -> bool:
        """Each label has a probability of its own."""
        return False


@MethodSettings.register("autoregressive-tagger", "desp.methods.autoregressive_tagger:AutoregressiveTagger")
@dataclass(frozen=True)
class AutoregressiveTaggerSettings(EquivariantSettings):
    """Labels one after the other, in random order, each given those before it (Hoogeboom et al. 2022): any
    distribution over labellings, for sets of any size. It has the tagger's layers."""

    summary: ClassVar[str] = "binary labels of given elements, one after the other"


@MethodSettings.register("label-likelihood", "desp.methods.label_likelihood:LabelLikelihood")
@dataclass(frozen=True)
class LabelLikelihoodSettings(EnergyMethodSettings):
    """Maximum likelihood of an energy over all 2^n ways to label n elements: the sum in log Z is computed, not
    estimated by samples as in `contrastive`, and labels are sampled exactly. For sets of up to ten elements."""

    summary: ClassVar[str] = "exact likelihood of binary labels, for small sets"
    energy: EnergySettings = field(default_factory=lambda: DeepSetsSettings(divide_by_size=False))
    """The energy E(x, Y)."""
    labels: tuple[float, float] = (0.0, 1.0)
    """The two values of a label in scaled units: 0 and 1 if the data have these, or if automatic scaling of own
    data maps them there, as it does where one lies outside [-.05, 1.05] or they differ by less than .2. On CelebA
    -.5 and .5, as its task halves the labels -1 and 1."""
    sampler: LabelSamplerSettings = field(default_factory=LabelSamplerSettings)
    """Which labellings are predicted: by default exact samples."""

    def __post_init__(self) -> None:
        _require_two(self.labels)
