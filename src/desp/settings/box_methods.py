"""Settings of methods for boxes in images, which are read where the boxes are."""

from dataclasses import dataclass, field
from typing import ClassVar

from desp.settings.base import InputKind, require_divisor, require_not_negative, require_positive, require_setting
from desp.settings.diffusion import DiffusionSettings
from desp.settings.encoders import EncoderSettings, PyramidEncoderSettings
from desp.settings.methods import MethodSettings
from desp.settings.samplers import EDMSettings


@MethodSettings.register("box-denoiser", "desp.methods.box_denoiser:BoxDenoiser")
@dataclass(frozen=True)
class BoxDenoiserSettings(DiffusionSettings):
    """EDM diffusion of boxes in an image: noisy boxes attend to each other and to the image, and read its features
    inside and around themselves (RoIAlign). The energy of a set is how far denoising leads away from it."""

    summary: ClassVar[str] = "EDM diffusion of boxes in images"
    can_align: ClassVar[bool] = False
    has_energy: ClassVar[bool] = True
    p_mean: float = -2.0
    p_std: float = 1.7
    noise_draws: int = 4
    cardinality_weight: float = 0.1
    sampler: EDMSettings = field(default_factory=lambda: EDMSettings(cardinality="mode"))
    hidden: int = 256
    """Width of all layers."""
    layers: int = 4
    """Layers of self-attention among boxes and cross-attention to the image."""
    heads: int = 8
    """Attention heads; a divisor of the width."""
    fourier_frequencies: int = 8
    """Fourier features, concatenated: sine and cosine, at this many frequencies, of each feature of an element and
    of its box in image coordinates; 0: none."""
    points: int = 6
    """Side P of the grid of P x P points at which features are interpolated for each box (RoIAlign, He et al.
    2017): inside the box at stride 4, over the box enlarged twofold at stride 8."""
    centre_weight: float = 0.1
    """Weight of a detector's loss (heat map of centres) on the image's features, which learn faster with it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "hidden", "layers", "heads", "points")
        require_not_negative(self, "fourier_frequencies", "centre_weight")
        require_divisor(self.heads, self.hidden)

    @property
    def needs_presence(self) -> bool:
        """The network takes a box and its presence apart."""
        return True

    @property
    def width(self) -> int:
        """Width of the layers."""
        return self.hidden

    def default_encoder(self, kind: InputKind) -> EncoderSettings:
        """A pyramid of features: the only encoder that boxes can be read from."""
        require_setting(kind == "image", "inputs", "images for the method box-denoiser", kind)
        return PyramidEncoderSettings()


@MethodSettings.register("detector", "desp.methods.detector:Detector")
@dataclass(frozen=True)
class DetectorSettings(MethodSettings):
    """A plain detector of boxes in images: a heat map of centres, with an offset and a size at each; no energy."""

    summary: ClassVar[str] = "boxes in images by a heat map of centres"
    samples_follow_data: ClassVar[bool] = False
    hidden: int = 128
    """Width of its heads."""

    def __post_init__(self) -> None:
        require_positive(self, "hidden")

    @property
    def deterministic(self) -> bool:
        """Nothing is sampled."""
        return True

    @property
    def learns_dependence(self) -> bool:
        """Each box is a peak of its own."""
        return False

    @property
    def width(self) -> int:
        """Width of the heads."""
        return self.hidden

    @property
    def needs_presence(self) -> bool:
        """A detection's confidence is its presence."""
        return True

    def default_encoder(self, kind: InputKind) -> EncoderSettings:
        """A pyramid of features: the only encoder that a heat map can be made from."""
        require_setting(kind == "image", "inputs", "images for the method detector", kind)
        return PyramidEncoderSettings()
