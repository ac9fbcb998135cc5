"""Settings of methods: how a model is trained and how sets are sampled from it."""

from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Literal, Self

from desp.settings.base import (
    Distance,
    InputKind,
    Variant,
    require_divisor,
    require_not_negative,
    require_positive,
    require_setting,
)
from desp.settings.encoders import (
    LAYERED_ENCODERS,
    EncoderSettings,
    FSPoolSetEncoderSettings,
    MLPEncoderSettings,
)
from desp.settings.energies import DeepSetsSettings, EnergySettings
from desp.settings.samplers import DescentSettings, LangevinSettings, SamplerSettings


@dataclass(frozen=True)
class MethodSettings(Variant):
    """A method owns all its parts: encoder, energy or network, and the sampler that predicts."""

    has_energy: ClassVar[bool] = False
    """Whether sets have an energy, by which predictions can be compared."""
    can_align: ClassVar[bool] = False
    """Whether element i of an output can belong to element i of the input."""
    samples_follow_data: ClassVar[bool] = True
    """Whether the distribution of sets for an input is learned, so that samples follow it; without
    `learns_dependence`, that of single elements."""
    encoder: EncoderSettings | None = None
    """Encoder of the inputs, h(x) in the paper; None: the default for the kind of input."""

    @property
    def backbone(self) -> EnergySettings:
        """The energy or network, whose width default encoders and heads take over."""
        raise NotImplementedError  # an abstract property, as a dataclass has no abstract fields

    @property
    def width(self) -> int:
        """Width of its layers."""
        return self.backbone.hidden

    @property
    def deterministic(self) -> bool:
        """Whether all K predictions for one input are identical."""
        return self.prediction_sampler is not None and self.prediction_sampler.deterministic

    @property
    def has_density(self) -> bool:
        """Whether sets have a normalised density (`log_prob`)."""
        return False

    @property
    def learns_dependence(self) -> bool:
        """Whether it learns how elements of a set depend on each other, given the input."""
        return True

    @property
    def predicts_cardinality(self) -> bool:
        """Whether p(n | x) is learned, and elements are then sampled given n. Where outputs are aligned, inputs
        give n and nothing of it is learned."""
        return False

    @property
    def needs_presence(self) -> bool:
        """Whether sets must be padded with a presence feature, by which a predicted cardinality is given."""
        return self.predicts_cardinality

    @property
    def prediction_sampler(self) -> SamplerSettings | None:
        """How it samples when it predicts; None where there is nothing to choose."""
        return getattr(self, "sampler", None)

    def with_part(self, name: Literal["energy", "sampler"], part: EnergySettings | SamplerSettings) -> Self:
        """The same method with another energy, or another sampler to predict by.

        Raises:
            SettingsError: it has none.
        """
        has = name in {item.name for item in fields(self)}
        require_setting(has, f"method.{name}", f"left out: the method {self.kind} has none", part.kind)
        return replace(self, **{name: part})  # type: ignore[arg-type] # which field it is is checked above

    def without_files(self) -> Self:
        """The same method, built without reading files: for saved weights, which replace its initial ones."""
        return self if self.encoder is None else replace(self, encoder=self.encoder.without_files())

    def default_encoder(self, kind: InputKind) -> EncoderSettings:
        """The encoder that suits inputs of this kind."""
        return self.backbone.default_encoder(kind)

    def aligned_encoder(self) -> EncoderSettings:
        """The encoder of elements that outputs are aligned with."""
        return MLPEncoderSettings(self.width, self.width)


@dataclass(frozen=True)
class EnergyMethodSettings(MethodSettings):
    """A method that trains an energy."""

    has_energy: ClassVar[bool] = True
    can_align: ClassVar[bool] = True
    energy: EnergySettings = field(default_factory=DeepSetsSettings)
    """The energy E(x, Y)."""

    @property
    def backbone(self) -> EnergySettings:
        """The energy."""
        return self.energy

    @property
    def learns_dependence(self) -> bool:
        """Where elements see each other in the energy."""
        return self.energy.elements_interact

    @property
    def needs_presence(self) -> bool:
        """Where the energy does, too."""
        return super().needs_presence or self.energy.needs_presence


@MethodSettings.register("contrastive", "desp.methods.contrastive:Contrastive")
@dataclass(frozen=True)
class ContrastiveSettings(EnergyMethodSettings):
    """The paper's method, DESP: maximum likelihood; the gradient of log Z from short Langevin chains
    (equations 3 to 5)."""

    summary: ClassVar[str] = "the paper's: maximum likelihood with Langevin samples"
    training_sampler: LangevinSettings = field(
        default_factory=lambda: LangevinSettings(steps=60, stochastic_steps=60)
    )
    """The chain that samples from the model in every training step."""
    sampler: LangevinSettings = field(default_factory=LangevinSettings)
    """The chain that predicts."""
    data_noise: float = 0.02
    """Standard deviation of the noise on real sets."""
    start_noise: tuple[float, float] | None = None
    """Where training chains start. None: at zeros, as in the paper's released code. (low, high): at the real set,
    without `data_noise`, plus other noise, its standard deviation drawn log-uniformly between these; similar to
    contrastive divergence (Hinton 2002), which starts at the data themselves."""
    infonce_temperature: float | None = None
    """Temperature tau of InfoNCE (van den Oord et al. 2018): adds tau times the cross-entropy of the softmax over
    j of -E(x_i, Y_j) / tau at j = i to the loss, for the real sets Y_j of the batch, with `data_noise` (with
    several processes, each takes the sets of its own batch). tau is its weight as well; the log has `infonce`
    without the weight. It ties energies to inputs early where inputs are hard to encode. Energies other than
    `set-encoder` are computed for all pairs of a batch, which takes memory. None: no such loss."""
    real_energy_weight: float = 0.0
    """Adds this times the mean energy of real sets, with `data_noise`, to the loss. With `set-encoder` it keeps
    the codes of inputs and sets so close that their Huber distance is quadratic: beyond, the gradient in a set
    hardly depends on the input."""
    mask_divergent: bool = False
    """Stop the gradient of divergent samples: those with an element whose next gradient step would exceed
    `training_sampler.max_step_norm`. There the energy is too steep, and raising it further would make it steeper.
    The log has their fraction as `divergent`."""
    max_divergent_fraction: float = 0.05
    """With mask_divergent: fraction of samples that may diverge between checkpoints; with more, training fails
    (`on_divergence`)."""

    def __post_init__(self) -> None:
        require_not_negative(self, "data_noise", "real_energy_weight")
        noise, chain = self.start_noise, self.training_sampler
        ordered = noise is None or 0 < noise[0] <= noise[1]
        require_setting(ordered, "start_noise", "(low, high) with 0 < low <= high, finite, or None", noise)
        temperature = self.infonce_temperature
        positive = temperature is None or temperature > 0
        require_setting(positive, "infonce_temperature", "positive, or None", temperature)
        wanted = "1: restarts are for prediction"
        require_setting(chain.restarts == 1, "training_sampler.restarts", wanted, chain.restarts)
        limited = not self.mask_divergent or chain.max_step_norm is not None
        wanted = "False without training_sampler.max_step_norm (try .1)"
        require_setting(limited, "mask_divergent", wanted, self.mask_divergent)
        most = self.max_divergent_fraction
        require_setting(0 < most <= 1, "max_divergent_fraction", "above 0 and at most 1", most)
        energy_supports_it = not self.mask_divergent or self.energy.supports_mask_divergent
        require_setting(
            energy_supports_it,
            "energy",
            "one with supports_mask_divergent for mask_divergent, such as deep-sets or set-encoder",
            self.energy.kind,
        )


SetRiskCardinality = Literal["descended", "clamped", "predicted"]


@MethodSettings.register("set-risk", "desp.methods.set_risk:SetRisk")
@dataclass(frozen=True)
class SetRiskSettings(EnergyMethodSettings):
    """Direct risk: a set distance on the result of an unrolled, differentiable descent.

    With the energy `set-encoder` it is DSPN (Zhang et al. 2019) if the cardinality is clamped, C-DSPN if it is
    predicted.
    """

    summary: ClassVar[str] = "a set distance as loss, such as DSPN"
    samples_follow_data: ClassVar[bool] = False
    distance: Distance = "chamfer"
    """The set distance that is minimised; where outputs are aligned with inputs, the Huber distance of elements i
    of both sets takes its place."""
    descent: DescentSettings = field(default_factory=DescentSettings)
    """The descent that is unrolled in training."""
    sampler: DescentSettings | None = None
    """The descent that predicts; None: the same as in training."""
    supervise: Literal["last", "all"] = "last"
    """last: the loss is the distance of the end of the descent. all: the mean of the distances of the start and
    all iterates (deep supervision)."""
    cardinality: SetRiskCardinality = "descended"
    """descended: presence, or zero rows, are descended like everything else. clamped: presence is descended too,
    and clamped to [0, 1] at the start, which is learned from .5 on, and after every step. predicted: p(n | x) is
    learned, and the mode of it gives how many elements descend. The last two need presence padding."""
    cardinality_weight: float = 1.0
    """Weight of -log p(n | x) in the loss, where the cardinality is predicted."""
    cardinality_hidden: int = 128
    """Width of the hidden layer of p(n | x), where the cardinality is predicted."""
    representation_weight: float = 0.0
    """Weight of the energy of true sets in the loss: Huber(g(Y), h(x)). Only with the energy set-encoder."""

    def __post_init__(self) -> None:
        require_positive(self, "cardinality_hidden")
        require_not_negative(self, "cardinality_weight", "representation_weight")
        distance_supports_masks = not self.predicts_cardinality or self.distance == "chamfer"
        require_setting(
            distance_supports_masks, "distance", "chamfer where the cardinality is predicted", self.distance
        )
        energy_compares_codes = self.energy.kind == "set-encoder" or self.representation_weight == 0
        require_setting(
            energy_compares_codes, "energy", "set-encoder where representation_weight is above 0", self.energy.kind
        )

    @property
    def needs_presence(self) -> bool:
        """Also where it is clamped."""
        return super().needs_presence or self.cardinality == "clamped"

    @property
    def predicts_cardinality(self) -> bool:
        """C-DSPN does."""
        return self.cardinality == "predicted"

    @property
    def prediction_sampler(self) -> DescentSettings:
        """The descent that predicts."""
        return self.sampler or self.descent


@MethodSettings.register("tspn", "desp.methods.tspn:TSPN")
@dataclass(frozen=True)
class TSPNSettings(MethodSettings):
    """TSPN (Kosiorek et al. 2020): a cardinality, then that many random points through a transformer; no
    energy."""

    summary: ClassVar[str] = "a cardinality, then a transformer"
    samples_follow_data: ClassVar[bool] = False
    hidden: int = 256
    """Features of an element in the transformer, and width of the default encoder."""
    layers: int = 3
    """Transformer layers."""
    heads: int = 4
    """Attention heads; a divisor of the width."""
    feedforward: int = 1024
    """Width of the feed-forward layers."""
    latent: int = 64
    """Length H of the default encoder's code; of another encoder, its own settings decide."""
    cardinality_weight: float = 1.0
    """Weight of -log p(n | x) in the loss."""
    cardinality_hidden: int = 128
    """Width of the hidden layer of p(n | x)."""

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "layers", "heads", "feedforward", "latent", "cardinality_hidden")
        require_not_negative(self, "cardinality_weight")
        require_divisor(self.heads, self.hidden)

    @property
    def width(self) -> int:
        """Of the transformer."""
        return self.hidden

    @property
    def predicts_cardinality(self) -> bool:
        """Always."""
        return True

    def default_encoder(self, kind: InputKind) -> EncoderSettings:
        """To standardised codes: the decoder sees codes beside random points, and would not see small
        differences."""
        if kind == "set":
            return FSPoolSetEncoderSettings(
                self.hidden, self.latent, standardise_codes=True, presence_as_feature=True
            )
        return LAYERED_ENCODERS[kind](self.hidden, self.latent, standardise_codes=True)
