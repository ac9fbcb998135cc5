"""Settings and a recipe; no torch is loaded here."""

from dataclasses import dataclass
from typing import ClassVar

from desp.recipes.registry import recipe
from desp.settings import (
    DenoisingSettings,
    EncoderSettings,
    EnergySettings,
    InputKind,
    MethodSettings,
    MLPEncoderSettings,
    RunSettings,
    TaskSettings,
    TrainingSettings,
)


@EnergySettings.register("spring", "outside_sets.parts:SpringEnergy")
@dataclass(frozen=True)
class SpringSettings(EnergySettings):
    """Elements on springs to a point that the code gives."""

    noise_conditional: ClassVar[bool] = True
    hidden: int = 16
    """Width of the layers."""


@EncoderSettings.register("linear", "outside_sets.parts:build_linear")
@dataclass(frozen=True)
class LinearEncoderSettings(EncoderSettings):
    """A linear code."""

    input_kinds: ClassVar[tuple[InputKind, ...]] = ("vector",)
    out: int = 4
    """Length of the code."""


@MethodSettings.register("regression", "outside_sets.parts:Regression")
@dataclass(frozen=True)
class RegressionSettings(MethodSettings):
    """One set for each input, by a linear map of its code."""

    deterministic: ClassVar[bool] = True
    hidden: int = 8
    """Length of the code."""

    @property
    def width(self) -> int:
        """Of the code."""
        return self.hidden

    def auto_encoder(self, kind: InputKind) -> EncoderSettings:
        """An MLP."""
        del kind
        return MLPEncoderSettings(hidden=self.hidden, out=self.hidden)


@TaskSettings.register("segments", "outside_sets.task:SegmentsTask")
@dataclass(frozen=True)
class SegmentsSettings(TaskSettings):
    """Two points at a distance that the input gives, turned at random."""

    longest: float = 0.4
    """The largest distance."""


@recipe(table=None, task="segments", system="denoising", protocol="ours", hardware="any CPU")
def outside_segments() -> RunSettings:
    """Segments, by an energy and an encoder of this package."""
    return RunSettings(
        recipe="outside-segments",
        task=SegmentsSettings(),
        method=DenoisingSettings(energy=SpringSettings(), encoder=LinearEncoderSettings()),
        training=TrainingSettings(steps=6, batch_size=8, checkpoint_every=3, validate_every=3, log_every=1),
        device="cpu",
    )
