"""Settings of energies E(x, Y), lower for more plausible sets."""

from dataclasses import dataclass
from typing import ClassVar

from desp.errors import DataError, SettingsError
from desp.settings.base import (
    Initialisation,
    InputKind,
    Pooling,
    Variant,
    require_divisor,
    require_not_negative,
    require_positive,
)
from desp.settings.encoders import (
    LAYERED_ENCODERS,
    ConvEncoderSettings,
    EncoderSettings,
    ScalingEncoderSettings,
    SumPooledSetEncoderSettings,
)


@dataclass(frozen=True)
class EnergySettings(Variant):
    """E(x, Y) of equation 1."""

    supports_noise_conditioning: ClassVar[bool] = False
    """Whether it can be trained by denoising, where the noise level sigma joins the code."""
    smooth: ClassVar[bool] = False
    """Whether its gradient is continuous in the set, which a density needs."""
    supports_mask_divergent: ClassVar[bool] = False
    """Whether, in contrastive training, gradient steps of samples that have not diverged stay short, so that a
    long next step marks a divergent one. Known of deep-sets and set-encoder; others were not tried."""
    masks_absent: ClassVar[bool] = False
    """Whether it can mask absent elements: energy-denoising builds it with `known_presence` where presence is
    known; other methods do not."""
    supports_row_subsets: ClassVar[bool] = False
    """Whether the set enters only through means over its rows, which a random subset of rows estimates;
    `training_rows` needs it."""

    hidden: int = 128
    """Width of all layers, also of the default encoder and, in denoising, of the cardinality head."""

    @property
    def elements_interact(self) -> bool:
        """Whether elements of a set see each other; else they are independent given the input (and p(n | x))."""
        return True

    @property
    def needs_presence(self) -> bool:
        """Whether sets must be padded with a presence feature."""
        return False

    def check_code(self, code_shape: tuple[int, ...], set_shape: tuple[int, int]) -> None:
        """Check that it can use codes of `code_shape`, the encoder's output for one input, for padded sets (N, C).

        Raises:
            SettingsError: it needs others.
        """

    def default_encoder(self, kind: InputKind) -> EncoderSettings:
        """The encoder that suits inputs of this kind: vectors standardised, without learned layers; else a code as
        wide as the layers."""
        if kind == "image":
            return ConvEncoderSettings(hidden=self.hidden, out=self.hidden)
        if kind == "set":
            return SumPooledSetEncoderSettings(hidden=self.hidden, out=self.hidden)
        return ScalingEncoderSettings()


@EnergySettings.register("deep-sets", "desp.energies.deep_sets:DeepSetsEnergy")
@dataclass(frozen=True)
class DeepSetsSettings(EnergySettings):
    """Energy E_DS of equation 8: an MLP on every element, a pooling, a second MLP."""

    summary: ClassVar[str] = "E_DS of the paper"
    supports_noise_conditioning: ClassVar[bool] = True
    supports_mask_divergent: ClassVar[bool] = True
    element_layers: int = 3
    """Linear layers before the pooling."""
    set_layers: int = 3
    """Linear layers after the pooling."""
    pooling: Pooling = "fspool"
    """How element features become set features. softmax: N times a mean weighted by a softmax of the feature
    itself at a learned temperature."""
    divide_by_size: bool = True
    """Divide pooled features by the padded set size N: a sum becomes the mean, and a mean is divided by N once
    more."""

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "element_layers", "set_layers")


@EnergySettings.register("set-encoder", "desp.energies.set_encoder:SetEncoderEnergy")
@dataclass(frozen=True)
class SetEncoderEnergySettings(EnergySettings):
    """Energy E_SE of equation 9: Huber distance between set code and input code."""

    summary: ClassVar[str] = "E_SE of the paper, not for denoising"
    supports_mask_divergent: ClassVar[bool] = True
    hidden: int = 256
    """Width of the hidden layers of the set encoder."""
    layers: int = 3
    """Linear layers of the set encoder."""
    latent: int = 64
    """Length H of the code, the same for sets and inputs."""
    pooling: Pooling = "fspool"
    """How element features become the code. softmax: N times a mean weighted by a softmax of the feature itself
    at a learned temperature."""
    divide_by_size: bool = False
    """Divide pooled features by the padded set size N."""
    shared: bool = False
    """One encoder for sets and inputs: inputs are sets like those to predict, as in an auto-encoder."""
    negative_slope: float = 0.01
    """Slope of the set encoder's activations below zero; 0: ReLU."""
    initialisation: Initialisation = "default"
    """Initial weights: torch's default, or Xavier-uniform with zero biases."""
    pairs: bool = False
    """Elements are encoded as all ordered pairs (relation network); divide_by_size divides by their number."""

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "layers", "latent")
        require_not_negative(self, "negative_slope")

    @property
    def needs_presence(self) -> bool:
        """With a shared encoder: input sets have presence, and are encoded like the sets to predict."""
        return self.shared

    def check_code(self, code_shape: tuple[int, ...], set_shape: tuple[int, int]) -> None:
        """Check that codes are of the latent space, or padded like the sets to predict where the encoder is
        shared.

        Raises:
            SettingsError: they are not.
        """
        if self.shared and code_shape != set_shape:
            raise SettingsError(
                f"energy.shared needs inputs that are sets like those to predict, padded to {set_shape[0]} rows "
                f"of {set_shape[1]} features, presence included; got shape {code_shape} for one input."
            )
        if not self.shared and code_shape != (self.latent,):
            raise SettingsError(
                f"The set-encoder energy needs codes of {self.latent} numbers (energy.latent), but the encoder "
                f"gives shape {code_shape} for one input."
            )

    def default_encoder(self, kind: InputKind) -> EncoderSettings:
        """To codes of the latent space, by the same kind of network where inputs are sets."""
        if self.shared and kind != "set":
            raise DataError(f"energy.shared needs inputs that are sets like those to predict, got kind '{kind}'.")
        if self.shared:
            return ScalingEncoderSettings()
        return LAYERED_ENCODERS[kind](self.hidden, self.latent, initialisation=self.initialisation)


@EnergySettings.register("pooled-layers", "desp.energies.network:NetworkEnergy")
@dataclass(frozen=True)
class PooledLayersSettings(EnergySettings):
    """Energy for denoising. Permutation-equivariant layers (Zaheer et al. 2017): smooth, and in each of them every
    element also sees the pooled set."""

    summary: ClassVar[str] = "permutation-equivariant layers, for denoising"
    supports_noise_conditioning: ClassVar[bool] = True
    layers: int = 2
    """How many times the set is pooled and broadcast to its elements."""
    pooling: Pooling = "softmax"
    """How element features become set features, the division by the padded set size N included. softmax: a mean
    weighted by a softmax of the feature itself at a learned temperature. sum: the mean. mean: the mean divided by
    N, which is rarely wanted. fspool: no density (`log_prob`), as gradients jump where elements change their
    order."""

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "layers")

    @property
    def supports_row_subsets(self) -> bool:  # type: ignore[override]
        """FSPool sorts, and `mean` divides by the number of rows twice."""
        return self.pooling in ("sum", "softmax")

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """FSPool has gradients that jump where elements change their order."""
        return self.pooling != "fspool"


@EnergySettings.register("attention", "desp.energies.network:NetworkEnergy")
@dataclass(frozen=True)
class AttentionSettings(EnergySettings):
    """Self-attention layers, as energy of energy-denoising or as network of denoiser and engression, for sets with
    much local structure."""

    summary: ClassVar[str] = "self-attention, for denoising"
    supports_noise_conditioning: ClassVar[bool] = True
    smooth: ClassVar[bool] = True
    masks_absent: ClassVar[bool] = True
    layers: int = 3
    """Layers: self-attention, unless `heads` is 0, and a feed-forward step on each element."""
    heads: int = 4
    """Attention heads; a divisor of the width. 0: no attention, so elements are independent given the input (and
    p(n | x)). Where this is nearly true of the data, it generalises best to sets larger than in training."""
    fourier_frequencies: int = 8
    """Fourier features: sine and cosine of each feature with 1, 2, ... up to this many periods over a length of 4.
    That is the range of the network's input at low noise, where c_in = 1 / sigma_data = 2 takes data in [-1, 1] to
    [-2, 2]. What repeats, such as positions of pixels, is learned fast with them. 0: none."""
    local_heads: bool = True
    """All heads but the first look at near elements more than at far ones. Elements of dozens of features are all
    far from each other while there is noise, and such heads would see nothing but the element itself. Without
    effect where there are fewer than two heads."""

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "layers")
        require_not_negative(self, "heads", "fourier_frequencies")
        if self.heads:
            require_divisor(self.heads, self.hidden)

    @property
    def elements_interact(self) -> bool:
        """By attention alone."""
        return self.heads > 0

    def default_encoder(self, kind: InputKind) -> EncoderSettings:
        """As for others, with the same Fourier features for elements of input sets."""
        if kind == "set":
            frequencies = self.fourier_frequencies
            return SumPooledSetEncoderSettings(self.hidden, self.hidden, fourier_frequencies=frequencies)
        return super().default_encoder(kind)
