"""Settings of a predictor: energy, estimator, sampler, padding."""

from dataclasses import dataclass, field
from typing import Any, Literal, Self

from desp.settings.choices import Distance, Sizes, require_setting
from desp.settings.energy import (
    AttentionSettings,
    DeepSetsSettings,
    NetworkSettings,
    PooledLayersSettings,
    SetEncoderSettings,
    TransformerSettings,
)
from desp.settings.samplers import LangevinSettings, SamplerSettings, SolverSettings


@dataclass(frozen=True)
class PaddingSettings:
    """How sets of different sizes become tensors of one shape."""

    kind: Literal["zero", "presence"] = "presence"
    """zero: absent elements are zero vectors. presence: one more feature, 1 for present and 0 for absent."""
    threshold: float | None = None
    """Above it an element is present: coordinates (zero, .015 if None) or the extra feature (presence, .5)."""
    rule: Literal["every", "any"] = "every"
    """Only with zero: present when every coordinate lies above the threshold, or any one beyond +-threshold."""

    def __post_init__(self) -> None:
        valid = self.threshold is None or 0 <= self.threshold < 1
        require_setting(valid, "padding.threshold", "at least 0 and below 1, or None", self.threshold)


@dataclass(frozen=True)
class ContrastiveSettings:
    """Contrastive estimation: real sets get low energy, the chain's sets high energy (equations 3 to 5)."""

    kind: Literal["contrastive"] = "contrastive"
    chain: LangevinSettings = field(default_factory=lambda: LangevinSettings(steps=60, stochastic_steps=60))
    """The chain that draws from the model in every training step."""
    data_noise: float = 0.02
    """Standard deviation of the noise on real sets."""
    energy_penalty: float = 0.0
    """Factor on the mean squared energy in the loss; keeps energies from drifting away at high learning rates."""
    spare_runaways: bool = False
    """Do not raise samples of which an element would next go farther than `chain.largest_step`: the energy is too
    steep there, and would get steeper. The log has their share as `runaways`."""
    most_runaways: float = 0.05
    """Share of samples that may be spared between checkpoints; with more, training has failed (`on_nonfinite`)."""
    replay: float = 0.0
    """Share of chains that start where one of the latest for the same input ended; the others start at zero."""
    replay_capacity: int = 4096
    """How many of the latest sets are kept for that."""

    def __post_init__(self) -> None:
        require_setting(self.data_noise >= 0, "estimator.data_noise", "at least 0", self.data_noise)
        require_setting(
            self.chain.tries == 1, "estimator.chain.tries", "1: tries are for predicting", self.chain.tries
        )
        require_setting(self.energy_penalty >= 0, "estimator.energy_penalty", "at least 0", self.energy_penalty)
        require_setting(
            not self.spare_runaways or self.chain.largest_step is not None,
            "estimator.spare_runaways",
            "False without estimator.chain.largest_step (try .1)",
            self.spare_runaways,
        )
        most = self.most_runaways
        require_setting(0 < most <= 1, "estimator.most_runaways", "above 0 and at most 1", most)
        require_setting(0 <= self.replay <= 1, "estimator.replay", "between 0 and 1", self.replay)
        capacity = self.replay_capacity
        require_setting(capacity > 0, "estimator.replay_capacity", "positive", capacity)


@dataclass(frozen=True)
class SetRiskSettings:
    """Direct risk: a set distance on the result of an unrolled, differentiable descent.

    With the energy `set-encoder` it is DSPN (Zhang et al. 2019), and with sizes first C-DSPN.
    """

    kind: Literal["set-risk"] = "set-risk"
    distance: Distance = "chamfer"
    """The set distance that is minimised."""
    steps: int = 20
    """Unrolled gradient steps."""
    step_size: float = 1.0
    """Factor on the gradient of one step, for the energy of one sample."""
    scored: Literal["last", "all"] = "last"
    """Which sets the distance is taken of: the descent's end, or the mean over all, the start included."""
    sizes: Sizes = "descended"
    """descended: presence, or zero rows, move like everything else. clamped: presence starts at .5 and stays
    within [0, 1]. first: p(size | x) is learned, and as many elements as are most probable descend. The last two
    need presence padding."""
    size_weight: float = 1.0
    """Where sizes come first: weight of -log p(size | x) in the loss."""
    size_hidden: int = 128
    """Where sizes come first: width of the hidden layer of p(size | x)."""
    representation_weight: float = 0.0
    """Weight of the energy of true sets in the loss: Huber(g(Y), h(x)). Only with the energy set-encoder."""

    def __post_init__(self) -> None:
        for name in ("steps", "step_size", "size_hidden"):
            require_setting(getattr(self, name) > 0, f"estimator.{name}", "positive", getattr(self, name))
        for name in ("size_weight", "representation_weight"):
            require_setting(getattr(self, name) >= 0, f"estimator.{name}", "at least 0", getattr(self, name))
        masked = self.sizes != "first" or self.distance == "chamfer"
        require_setting(masked, "estimator.distance", "chamfer where sizes come first", self.distance)


@dataclass(frozen=True)
class DirectSettings:
    """Direct risk of a network that makes sets itself: the masked Chamfer distance, and -log p(size | x)."""

    kind: Literal["direct"] = "direct"
    size_weight: float = 1.0
    """Weight of -log p(size | x) in the loss."""
    size_hidden: int = 128
    """Width of the hidden layer of p(size | x)."""

    def __post_init__(self) -> None:
        require_setting(self.size_weight >= 0, "estimator.size_weight", "at least 0", self.size_weight)
        require_setting(self.size_hidden > 0, "estimator.size_hidden", "positive", self.size_hidden)


@dataclass(frozen=True)
class DenoisingSettings:
    """Denoising: the energy's gradient learns to take noise of every level off real sets; no chain in training.

    Sets are moved to [-1, 1] first, which is what levels and deviations refer to.
    """

    kind: Literal["denoising"] = "denoising"
    sizes: Literal["first", "denoised"] = "first"
    """first: p(size | x) is learned, a size is drawn, and exactly that many elements are denoised (needs presence
    padding). denoised: presence, or zero rows, are denoised like everything else."""
    mean_log_level: float = -1.2
    """Mean of the logarithm of the noise levels."""
    deviation_log_level: float = 1.5
    """Deviation of the logarithm of the noise levels."""
    data_deviation: float = 0.5
    """Deviation of the data, roughly."""
    energy_level: float = 0.05
    """The noise level at which sets are compared by their energy, where there is one."""
    size_weight: float = 1.0
    """Weight of -log p(size | x) in the loss. Its head learns as fast with any; a small one leaves the input
    encoder to the elements."""
    size_head: Literal["free", "ordered"] = "free"
    """free: any size may be likely. ordered: so are sizes near a learned one, which learns many sizes sooner."""

    def __post_init__(self) -> None:
        positive = ("deviation_log_level", "data_deviation", "energy_level")
        for name in positive:
            require_setting(getattr(self, name) > 0, f"estimator.{name}", "positive", getattr(self, name))
        require_setting(self.size_weight >= 0, "estimator.size_weight", "at least 0", self.size_weight)
        free = self.sizes == "first" or self.size_head == "free"
        require_setting(free, "estimator.size_head", "free where sizes are denoised", self.size_head)


EstimatorSettings = ContrastiveSettings | SetRiskSettings | DenoisingSettings | DirectSettings


RANGES = "separate column ranges (first, behind the last) of two columns or more, such as ((3, 7), (7, 9))"


def _separate_ranges(groups: Any) -> bool:
    pairs = isinstance(groups, tuple) and all(isinstance(group, tuple) and len(group) == 2 for group in groups)
    if not pairs or not all(0 <= first < behind - 1 for first, behind in groups):
        return False
    columns = [column for first, behind in groups for column in range(first, behind)]
    return len(columns) == len(set(columns))


@dataclass(frozen=True)
class PredictorSettings:
    """What a predictor is made of: energy, estimator, sampler, and how sets become tensors."""

    energy: NetworkSettings = field(default_factory=PooledLayersSettings)
    """The energy that scores a set for an input; or what makes sets without scoring them, a transformer or
    attention with `field`."""
    estimator: EstimatorSettings = field(default_factory=DenoisingSettings)
    """How the energy, or the transformer, is fitted to data."""
    sampler: SamplerSettings = field(default_factory=SolverSettings)
    """How the energy becomes predictions: chains, for denoising the solver. Systems of direct risk have no choice
    here: they predict as in training."""
    padding: PaddingSettings = field(default_factory=PaddingSettings)
    """How sets of different sizes become tensors."""
    scaling: Literal["auto", "none"] = "auto"
    """auto: features that are not near [0, 1] are scaled to it, and predictions are scaled back."""
    max_size: int | None = None
    """Largest set that can be predicted; None: the largest in the training data."""
    code: int | None = None
    """Numbers that the default encoder makes of an input; None: as many as the energy is wide, vectors as they
    are. Where the energy has a latent, that decides."""
    categories: tuple[tuple[int, int], ...] = ()
    """Column ranges (first, behind the last) of features that are one-hot; predictions hold exactly one kind."""

    @classmethod
    def contrastive(cls, **parts: Any) -> Self:
        """The paper's parts: E_DS, the contrastive estimator, Langevin chains; `parts` replace some of them."""
        own = {"energy": DeepSetsSettings(), "estimator": ContrastiveSettings(), "sampler": LangevinSettings()}
        return cls(**{**own, **parts})

    def __post_init__(self) -> None:
        require_setting(self.max_size is None or self.max_size > 0, "max_size", "positive or None", self.max_size)
        require_setting(self.code is None or self.code > 0, "code", "positive or None", self.code)
        if isinstance(self.energy, SetEncoderSettings | TransformerSettings):
            require_setting(self.code is None, "code", "None where energy.latent decides", self.code)
        require_setting(_separate_ranges(self.categories), "categories", RANGES, self.categories)
        self._check_sampler()
        self._check_direct()
        if isinstance(self.energy, SetEncoderSettings) and self.energy.shared:
            kind = self.padding.kind
            require_setting(kind == "presence", "padding.kind", "presence where energy.shared is on", kind)
        if isinstance(self.estimator, ContrastiveSettings) and self.estimator.spare_runaways:
            bounded = isinstance(self.energy, DeepSetsSettings | SetEncoderSettings)
            wanted = "deep-sets or set-encoder for estimator.spare_runaways"
            require_setting(bounded, "energy.kind", wanted, self.energy.kind)
        if isinstance(self.energy, AttentionSettings) and self.energy.field:
            denoised = isinstance(self.estimator, DenoisingSettings)
            wanted = "denoising where energy.field is on, as others need an energy"
            require_setting(denoised, "estimator.kind", wanted, self.estimator.kind)
        if isinstance(self.estimator, DenoisingSettings):
            knows_sizes = self.estimator.sizes == "denoised" or self.padding.kind == "presence"
            wanted = "presence where sizes come first (or set estimator.sizes to 'denoised')"
            require_setting(knows_sizes, "padding.kind", wanted, self.padding.kind)
            levelled = not isinstance(self.energy, SetEncoderSettings)
            require_setting(
                levelled, "energy.kind", "pooled-layers, attention or deep-sets for denoising", self.energy.kind
            )

    def _check_direct(self) -> None:
        """The transformer goes with its own estimator; presence, where rows are masked, is a feature."""
        direct, makes_sets = (
            isinstance(self.estimator, DirectSettings),
            isinstance(self.energy, TransformerSettings),
        )
        wanted = "direct for the transformer, which has no energy (estimator=DirectSettings())"
        require_setting(direct or not makes_sets, "estimator.kind", wanted, self.estimator.kind)
        wanted = "transformer for estimator direct (for an energy, use set-risk)"
        require_setting(makes_sets or not direct, "energy.kind", wanted, self.energy.kind)
        masked = direct
        if isinstance(self.estimator, SetRiskSettings):
            masked = self.estimator.sizes != "descended"
            coded = isinstance(self.energy, SetEncoderSettings) or self.estimator.representation_weight == 0
            wanted = "set-encoder where estimator.representation_weight is above 0"
            require_setting(coded, "energy.kind", wanted, self.energy.kind)
        wanted = "presence for the transformer, and for set-risk with sizes 'clamped' or 'first'"
        require_setting(not masked or self.padding.kind == "presence", "padding.kind", wanted, self.padding.kind)

    def _check_sampler(self) -> None:
        """Denoising goes with the solver, contrastive with chains; direct risk brings its own descent."""
        if isinstance(self.estimator, DenoisingSettings):
            wanted = "solver for estimator denoising (PredictorSettings.contrastive(...) has the paper's parts)"
            require_setting(isinstance(self.sampler, SolverSettings), "sampler.kind", wanted, self.sampler.kind)
            if isinstance(self.sampler, SolverSettings) and self.estimator.sizes == "denoised":
                wanted = "drawn where sizes are denoised"
                require_setting(self.sampler.sizes == "drawn", "sampler.sizes", wanted, self.sampler.sizes)
        elif isinstance(self.estimator, ContrastiveSettings):
            wanted = "langevin for contrastive (use PredictorSettings.contrastive(...), which brings it)"
            require_setting(isinstance(self.sampler, LangevinSettings), "sampler.kind", wanted, self.sampler.kind)
