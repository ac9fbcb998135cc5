"""Settings of the network that scores sets, or makes them."""

from dataclasses import dataclass
from typing import Literal

from desp.settings.choices import Initialisation, Pooling, require_setting


@dataclass(frozen=True)
class DeepSetsSettings:
    """The energy E_DS of equation 8: an MLP on every element, a pooling, a second MLP."""

    kind: Literal["deep-sets"] = "deep-sets"
    hidden: int = 128
    """Width of all layers."""
    element_layers: int = 3
    """Linear layers before the pooling."""
    set_layers: int = 3
    """Linear layers after the pooling."""
    pooling: Pooling = "fspool"
    """How element features become set features."""
    divide_by_size: bool = True
    """Divide element features by the padded set size before pooling."""

    def __post_init__(self) -> None:
        require_setting(self.hidden > 0, "energy.hidden", "positive", self.hidden)
        require_setting(self.element_layers > 0, "energy.element_layers", "positive", self.element_layers)
        require_setting(self.set_layers > 0, "energy.set_layers", "positive", self.set_layers)


@dataclass(frozen=True)
class SetEncoderSettings:
    """The energy E_SE of equation 9: Huber distance between set code and input code."""

    kind: Literal["set-encoder"] = "set-encoder"
    hidden: int = 256
    """Width of the hidden layers of the set encoder."""
    layers: int = 3
    """Linear layers of the set encoder."""
    latent: int = 64
    """Length of the code that sets and inputs share."""
    pooling: Pooling = "fspool"
    """How element features become the code."""
    divide_by_size: bool = False
    """Divide element features by the padded set size before pooling."""
    shared: bool = False
    """Inputs are sets like those to predict, and one encoder gives the codes of both: an auto-encoder."""
    negative_slope: float = 0.01
    """Slope of the set encoder's activations below zero; 0: ReLU."""
    initialisation: Initialisation = "default"
    """First weights: torch's default, or Xavier-uniform with zero biases."""

    def __post_init__(self) -> None:
        require_setting(self.negative_slope >= 0, "energy.negative_slope", "at least 0", self.negative_slope)
        require_setting(self.hidden > 0, "energy.hidden", "positive", self.hidden)
        require_setting(self.layers > 0, "energy.layers", "positive", self.layers)
        require_setting(self.latent > 0, "energy.latent", "positive", self.latent)


@dataclass(frozen=True)
class PooledLayersSettings:
    """Smooth layers on every element, each of which also sees the pooled set: an energy for denoising."""

    kind: Literal["pooled-layers"] = "pooled-layers"
    hidden: int = 128
    """Width of all layers."""
    layers: int = 2
    """How many times elements hear of the whole set."""
    pooling: Pooling = "fspool"
    """How element features become set features."""

    def __post_init__(self) -> None:
        require_setting(self.hidden > 0, "energy.hidden", "positive", self.hidden)
        require_setting(self.layers > 0, "energy.layers", "positive", self.layers)


@dataclass(frozen=True)
class AttentionSettings:
    """Elements that attend to each other: an energy for denoising sets with much local structure."""

    kind: Literal["attention"] = "attention"
    hidden: int = 128
    """Width of all layers."""
    layers: int = 3
    """How many times elements look at each other."""
    heads: int = 4
    """Ways in which they look; a divisor of the width."""
    waves: int = 8
    """Waves of each feature that elements are described by, with 1 to so many periods over a length of 4, which
    for denoising is the range of the data where there is little noise; 0: none. What repeats, such as the places
    of pixels, is learned fast if it is among them."""
    field: bool = False
    """Denoising alone: layers end with moves of elements, which are no energy's gradient. Several times faster on
    large sets, but sets have no energy, so predictions cannot be compared by it."""

    def __post_init__(self) -> None:
        for name in ("hidden", "layers", "heads"):
            require_setting(getattr(self, name) > 0, f"energy.{name}", "positive", getattr(self, name))
        divides = self.hidden % self.heads == 0
        require_setting(divides, "energy.heads", f"a divisor of energy.hidden ({self.hidden})", self.heads)
        require_setting(self.waves >= 0, "energy.waves", "at least 0", self.waves)


@dataclass(frozen=True)
class TransformerSettings:
    """No energy: a size, then that many random points that become elements (TSPN, Kosiorek et al. 2020)."""

    kind: Literal["transformer"] = "transformer"
    hidden: int = 256
    """Features of an element in the transformer, and width of the input encoder."""
    layers: int = 3
    """How many times elements attend to each other."""
    heads: int = 4
    """Parts into which features are divided for that."""
    feedforward: int = 1024
    """Width of the layer between two attentions."""
    latent: int = 64
    """Length of the code that the input encoder gives."""

    def __post_init__(self) -> None:
        for name in ("hidden", "layers", "heads", "feedforward", "latent"):
            require_setting(getattr(self, name) > 0, f"energy.{name}", "positive", getattr(self, name))
        divided = self.hidden % self.heads == 0
        require_setting(divided, "energy.hidden", f"a multiple of energy.heads ({self.heads})", self.hidden)


EnergySettings = DeepSetsSettings | SetEncoderSettings | PooledLayersSettings | AttentionSettings
NetworkSettings = EnergySettings | TransformerSettings
