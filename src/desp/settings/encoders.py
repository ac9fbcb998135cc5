"""Settings of encoders h(x): from an input to its code, the embedding that conditions the energy."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from desp.settings.base import (
    Initialisation,
    InputKind,
    Variant,
    require_not_negative,
    require_positive,
    require_setting,
)


@dataclass(frozen=True)
class EncoderSettings(Variant):
    """From inputs (B, ...) to codes (B, H), or (B, N, H) with a code for each element."""

    input_kinds: ClassVar[tuple[InputKind, ...]] = ()
    """What inputs it can take."""

    def without_files(self) -> Self:
        """The same encoder, built without reading files: for saved weights, which replace its initial ones."""
        return self


@EncoderSettings.register("scaling", "desp.nn.encoders:build_scaling")
@dataclass(frozen=True)
class ScalingEncoderSettings(EncoderSettings):
    """Encoder without learned layers: standardised vectors; or input sets in the units and with the padding of
    those to predict, for a shared set encoder."""

    input_kinds: ClassVar[tuple[InputKind, ...]] = ("vector", "set")


@dataclass(frozen=True)
class LayeredEncoderSettings(EncoderSettings):
    """Base of encoders with the fields below; resnet34 and pyramid have their own."""

    hidden: int = 128
    """Width of the hidden layers, or channels of the widest one."""
    out: int = 128
    """Length H of the code, or of each element's code."""
    standardise_codes: bool = False
    """Batch norm without scale and shift on the codes, so that each of their numbers has mean 0, variance 1."""
    initialisation: Initialisation = "default"
    """Initial weights: torch's default, or Xavier-uniform with zero biases."""

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "out")


@EncoderSettings.register("mlp", "desp.nn.encoders:build_mlp")
@dataclass(frozen=True)
class MLPEncoderSettings(LayeredEncoderSettings):
    """Encoder: an MLP on standardised vectors, or on each element of an input set: a code for each element, for
    outputs that are aligned with them."""

    input_kinds: ClassVar[tuple[InputKind, ...]] = ("vector", "set")
    layers: int = 3
    """Linear layers."""
    sigmoid: bool = False
    """A sigmoid after the last layer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "layers")


@EncoderSettings.register("conv", "desp.nn.encoders:build_conv")
@dataclass(frozen=True)
class ConvEncoderSettings(LayeredEncoderSettings):
    """Encoder of images: strided convolutions and a mean over positions."""

    input_kinds: ClassVar[tuple[InputKind, ...]] = ("image",)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_setting(self.hidden >= 4, "hidden", "at least 4: the first layer has a quarter", self.hidden)


@EncoderSettings.register("pyramid", "desp.nn.pyramid:build_pyramid")
@dataclass(frozen=True)
class PyramidEncoderSettings(EncoderSettings):
    """Images through a feature pyramid: a code for each location of three grids, at strides 4, 8 and 16, for
    networks that read the image where their elements are."""

    input_kinds: ClassVar[tuple[InputKind, ...]] = ("image",)
    hidden: int = 64
    """Channels of the trunk's first stage; the last has four times as many."""
    out: int = 128
    """Features of each location."""

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "out")
        require_setting(self.hidden >= 2, "hidden", "at least 2: the first layer has half", self.hidden)


@EncoderSettings.register("resnet34", "desp.nn.encoders:build_resnet34")
@dataclass(frozen=True)
class ResNet34EncoderSettings(EncoderSettings):
    """Images of 65 x 65 pixels or more, made for 128 x 128, through ResNet-34 and two more convolutions to one
    vector: the image encoder of DSPN on CLEVR, as released."""

    input_kinds: ClassVar[tuple[InputKind, ...]] = ("image",)
    out: int = 512
    """Length H of the code."""
    standardise_codes: bool = False
    """Batch norm without scale and shift on the codes."""
    initialisation: Initialisation = "default"
    """Initial weights: torchvision's and torch's default, or Xavier-uniform with zero biases."""
    weights: str = ""
    """Path of a safetensors file with initial (pretrained) weights of ResNet-34, in torchvision's names; empty:
    random ones. Once a predictor is saved, the file is not needed any more."""

    def __post_init__(self) -> None:
        require_positive(self, "out")
        safe = not self.weights or self.weights.endswith(".safetensors")
        wanted = (
            "a .safetensors file, as pickles are not read (to convert one: "
            "safetensors.torch.save_file(torch.load('resnet34.pth', weights_only=True), 'resnet34.safetensors'))"
        )
        require_setting(safe, "weights", wanted, self.weights)

    def without_files(self) -> Self:
        """With random initial weights."""
        return replace(self, weights="")


@EncoderSettings.register("sum-pooled-set", "desp.nn.encoders:build_sum_pooled_set")
@dataclass(frozen=True)
class SumPooledSetEncoderSettings(LayeredEncoderSettings):
    """Encoder of input sets: an MLP on Fourier features of each element, a sum over present ones / N, an MLP."""

    input_kinds: ClassVar[tuple[InputKind, ...]] = ("set",)
    fourier_frequencies: int = 8
    """Fourier features: sine and cosine of each feature at this many frequencies, concatenated to the features of
    an element; 0: none."""
    with_maximum: bool = False
    """Pool by the maximum of each feature, too, beside the sum: whether there is an element of some kind is hard
    to tell from a sum over many."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_not_negative(self, "fourier_frequencies")


@EncoderSettings.register("fspool-set", "desp.nn.encoders:build_fspool_set")
@dataclass(frozen=True)
class FSPoolSetEncoderSettings(LayeredEncoderSettings):
    """Encoder of input sets: an MLP on each element, then FSPool."""

    input_kinds: ClassVar[tuple[InputKind, ...]] = ("set",)
    hidden: int = 256
    """Width of the hidden layers."""
    out: int = 64
    """Length H of the code."""
    presence_as_feature: bool = False
    """True: presence is a feature of each row, and absent rows, zero vectors, are encoded and pooled like others;
    the result is divided by N, as in DSPN. False: absent rows are masked."""


LAYERED_ENCODERS: dict[InputKind, type[LayeredEncoderSettings]] = {
    "vector": MLPEncoderSettings,
    "set": FSPoolSetEncoderSettings,
    "image": ConvEncoderSettings,
}
