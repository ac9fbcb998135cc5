"""Settings of denoising methods."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from desp.settings.base import InputKind, require_not_negative, require_positive, require_setting
from desp.settings.encoders import EncoderSettings, LayeredEncoderSettings, SumPooledSetEncoderSettings
from desp.settings.energies import AttentionSettings, EnergySettings, PooledLayersSettings
from desp.settings.methods import EnergyMethodSettings, MethodSettings
from desp.settings.samplers import EDMSettings


@dataclass(frozen=True)
class DiffusionSettings(MethodSettings):
    """What all denoising methods share. Sets are scaled to [-1, 1], which all sigmas refer to."""

    can_align: ClassVar[bool] = True
    cardinality: Literal["predicted", "denoised"] = "predicted"
    """predicted: p(n | x) is learned, n is sampled, and exactly n elements are denoised (needs presence padding).
    denoised: presence, or zero rows, are denoised like everything else."""
    cardinality_weight: float = 1.0
    """Weight of -log p(n | x), the cross-entropy of the cardinality, in the loss. A small one lets the denoising
    loss dominate the encoder's gradients."""
    p_mean: float = -1.2
    """Mean of log sigma in training."""
    p_std: float = 1.5
    """Standard deviation of log sigma in training."""
    sigma_data: float = 0.5
    """Standard deviation of the data scaled to [-1, 1], roughly."""
    noise_draws: int = 1
    """Noisy copies of each set in a training step, which share its encoded input. More than 1 pays off where
    encoding the input takes most of the time."""
    sampler: EDMSettings = field(default_factory=EDMSettings)
    """How sets are sampled."""

    def __post_init__(self) -> None:
        require_positive(self, "p_std", "sigma_data", "noise_draws")
        require_not_negative(self, "cardinality_weight")
        drawn = self.cardinality == "predicted" or self.sampler.cardinality == "sampled"
        wanted = "left at 'sampled': with method.cardinality = 'denoised' there is no p(n | x) to take the mode of"
        require_setting(drawn, "sampler.cardinality", wanted, self.sampler.cardinality)

    @property
    def predicts_cardinality(self) -> bool:
        """Unless it is denoised."""
        return self.cardinality == "predicted"


@dataclass(frozen=True)
class SetDiffusionSettings(DiffusionSettings):
    """Denoising methods whose network sees a code of the input beside the noisy set."""

    standardise_codes: bool = False
    """Standardise codes (batch norm without scale and shift): of the default encoders of sets and images, and of
    the elements that outputs are aligned with. At initialisation an encoder maps all inputs to nearly the same
    code; next to the much larger variation of the noisy set, the network may never learn to use it.
    Encoders of input sets then pool by sum and maximum."""

    def default_encoder(self, kind: InputKind) -> EncoderSettings:
        """As for others, with standardised codes if that is asked for."""
        return self._standardised(super().default_encoder(kind))

    def aligned_encoder(self) -> EncoderSettings:
        """As for others, with standardised codes if that is asked for."""
        return self._standardised(super().aligned_encoder())

    def _standardised(self, encoder: EncoderSettings) -> EncoderSettings:
        if not self.standardise_codes or not isinstance(encoder, LayeredEncoderSettings):
            return encoder
        if isinstance(encoder, SumPooledSetEncoderSettings):
            return replace(encoder, standardise_codes=True, with_maximum=True)
        return replace(encoder, standardise_codes=True)


@MethodSettings.register("energy-denoising", "desp.methods.denoising:EnergyDenoising")
@dataclass(frozen=True)
class EnergyDenoisingSettings(EnergyMethodSettings, SetDiffusionSettings):
    """Denoising with an energy, which `denoiser` lacks: its gradient learns, by score matching, to remove noise of
    every level; no chain in training."""

    summary: ClassVar[str] = "score matching of an energy"
    energy: EnergySettings = field(default_factory=PooledLayersSettings)
    """The energy E(x, Y, sigma), conditional on the noise level."""
    training_rows: int | None = None
    """Rows of padded sets that a training step looks at, drawn anew for each, where nearly all sets have that
    many (with zero padding, padding counts as elements); None: all. Steps are cheaper, but what only all elements
    show together, such as even spaces between them, is not learned. Only with the energy pooled-layers with
    pooling softmax or sum; other energies take all rows."""
    energy_sigma: float = 0.05
    """The sigma at which the energy of predictions is reported, for sets scaled to [-1, 1]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "energy_sigma")
        rows = self.training_rows
        require_setting(rows is None or rows > 0, "training_rows", "positive, or None", rows)
        conditional, wanted = self.energy.supports_noise_conditioning, "pooled-layers, attention or deep-sets"
        require_setting(conditional, "energy", f"{wanted} for denoising", self.energy.kind)

    @property
    def has_density(self) -> bool:
        """With a smooth energy and a predicted cardinality."""
        return self.energy.smooth and self.predicts_cardinality


@MethodSettings.register("denoiser", "desp.methods.denoising:Denoiser")
@dataclass(frozen=True)
class DenoiserSettings(SetDiffusionSettings):
    """Denoising without an energy, which `energy-denoising` has: EDM diffusion. The preconditioned network F is
    minus the output of attention layers. Sampling needs no backward pass, so it is faster than `energy-denoising`
    with the same layers, but nothing tells which of several predictions is more plausible."""

    summary: ClassVar[str] = "EDM diffusion, no energy"
    network: AttentionSettings = field(default_factory=AttentionSettings)
    """The layers of the denoiser."""

    @property
    def backbone(self) -> AttentionSettings:
        """The network."""
        return self.network

    @property
    def learns_dependence(self) -> bool:
        """Where elements see each other in the network."""
        return self.network.elements_interact
