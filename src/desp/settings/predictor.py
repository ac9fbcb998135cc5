"""Settings of a predictor: energy, estimator, sampler, padding."""

from dataclasses import dataclass, field
from typing import Literal

from desp.settings.choices import Distance, Pooling, require_setting


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

    def __post_init__(self) -> None:
        require_setting(self.hidden > 0, "energy.hidden", "positive", self.hidden)
        require_setting(self.layers > 0, "energy.layers", "positive", self.layers)
        require_setting(self.latent > 0, "energy.latent", "positive", self.latent)


EnergySettings = DeepSetsSettings | SetEncoderSettings


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
class LangevinSettings:
    """The chain of equations 5 and 6: `stochastic_steps` steps with noise, the rest without."""

    steps: int = 60
    """T: gradient steps in all."""
    stochastic_steps: int = 48
    """S: how many of the first steps add noise. S = T samples, S = 0 descends."""
    noise_scale: float = 0.015
    """Standard deviation of the noise of one step."""
    step_size: float = 1.0
    """Factor on the gradient."""
    noise_first: bool = True
    """Noise, then gradient (as released) or gradient, then noise (as printed in the paper)."""

    def __post_init__(self) -> None:
        require_setting(self.steps > 0, "steps", "positive", self.steps)
        require_setting(
            0 <= self.stochastic_steps <= self.steps,
            "stochastic_steps",
            f"between 0 and steps ({self.steps})",
            self.stochastic_steps,
        )
        require_setting(self.noise_scale >= 0, "noise_scale", "at least 0", self.noise_scale)
        require_setting(self.step_size > 0, "step_size", "positive", self.step_size)


@dataclass(frozen=True)
class ContrastiveSettings:
    """Contrastive estimation: real sets get low energy, the chain's sets high energy (equations 3 to 5)."""

    kind: Literal["contrastive"] = "contrastive"
    chain: LangevinSettings = field(default_factory=lambda: LangevinSettings(steps=60, stochastic_steps=60))
    """The chain that draws from the model in every training step."""
    data_noise: float = 0.02
    """Standard deviation of the noise on real sets."""

    def __post_init__(self) -> None:
        require_setting(self.data_noise >= 0, "estimator.data_noise", "at least 0", self.data_noise)


@dataclass(frozen=True)
class SetRiskSettings:
    """Direct risk: a set distance on the result of an unrolled, differentiable descent."""

    kind: Literal["set-risk"] = "set-risk"
    distance: Distance = "chamfer"
    """The set distance that is minimised."""
    steps: int = 20
    """Unrolled gradient steps."""
    step_size: float = 1.0
    """Factor on the gradient of one step."""

    def __post_init__(self) -> None:
        require_setting(self.steps > 0, "estimator.steps", "positive", self.steps)
        require_setting(self.step_size > 0, "estimator.step_size", "positive", self.step_size)


EstimatorSettings = ContrastiveSettings | SetRiskSettings


@dataclass(frozen=True)
class PredictorSettings:
    """What a predictor is made of: energy, estimator, sampler, and how sets become tensors."""

    energy: EnergySettings = field(default_factory=DeepSetsSettings)
    """The energy that scores a set for an input."""
    estimator: EstimatorSettings = field(default_factory=ContrastiveSettings)
    """How the energy is fitted to data."""
    sampler: LangevinSettings = field(default_factory=LangevinSettings)
    """How the energy becomes predictions (not used by set-risk, which descends as in training)."""
    padding: PaddingSettings = field(default_factory=PaddingSettings)
    """How sets of different sizes become tensors."""
    scaling: Literal["auto", "none"] = "auto"
    """auto: features that are not near [0, 1] are scaled to it, and predictions are scaled back."""
    max_size: int | None = None
    """Largest set that can be predicted; None: the largest in the training data."""

    def __post_init__(self) -> None:
        require_setting(self.max_size is None or self.max_size > 0, "max_size", "positive or None", self.max_size)
