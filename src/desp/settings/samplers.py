"""Settings of samplers: how sets are sampled from a trained model."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from desp.settings.base import Variant, require_not_negative, require_positive, require_setting

Aggregate = Literal["lowest", "mean"]

BEST_OF = 40
"""How many predictions are made for one best set, unless another number is given. The best set is their medoid,
or the most confident boxes of all. The more predictions, the nearer the medoid is to the middle of the
distribution."""


def default_samples(*, best: bool, deterministic: bool) -> int:
    """How many sets are predicted for an input where no number is given.

    Args:
        best: one set is made of them, or picked.
        deterministic: all would be the same.
    """
    return BEST_OF if best and not deterministic else 1


@dataclass(frozen=True)
class SamplerSettings(Variant):
    """How sets are sampled: from noise, zeros or a learned start. The one part that may change after training.

    These settings only give a kind its name and values: each method builds its own sampler from them.
    """

    has_steps: ClassVar[bool] = True
    """Whether a set is made step by step, which can be shown."""

    @property
    def deterministic(self) -> bool:
        """Whether all K samples for one input are identical."""
        return False

    @property
    def follows_distribution(self) -> bool:
        """Whether sets are drawn about as often as they are probable under the model; else probable ones are
        preferred. It says nothing where `deterministic`."""
        return True

    @property
    def single_chain(self) -> "SamplerSettings | None":
        """The same with a single chain for each set; None: it has one already, or no chains."""
        return None


@SamplerSettings.register("langevin")
@dataclass(frozen=True)
class LangevinSettings(SamplerSettings):
    """Sampler: the Langevin chain of equations 5 and 6, `stochastic_steps` steps with noise, the rest without."""

    steps: int = 60
    """T: gradient steps in all."""
    stochastic_steps: int = 48
    """S: the first S steps add noise. S = T: Langevin sampling; S = 0: plain gradient descent."""
    noise_scale: float = 0.015
    """Standard deviation of the noise of one step, for features scaled to about [0, 1]."""
    final_noise_scale: float | None = None
    """Noise scale of the last stochastic step, if there are several; until then the scale decays geometrically.
    None: constant."""
    step_size: float = 1.0
    """Factor on the gradient."""
    noise_first: bool = True
    """True: noise, then gradient, as in the paper's released code. False: gradient, then noise: equation 5."""
    momentum: float = 0.0
    """Heavy-ball momentum of the steps without noise; 0: plain descent, as in the paper."""
    max_step_norm: float | None = None
    """Clip the gradient step of each element to this norm, which keeps chains finite where the energy is too
    steep; None: no clipping."""
    restarts: int = 1
    """Chains run for each predicted set. More than 1 only where a single answer is right: with several, `lowest`
    over-represents low-energy answers and `mean` averages different ones."""
    aggregate: Aggregate = "lowest"
    """What is made of several restarts. lowest: the final set of the chain with the lowest energy. mean: the
    Wasserstein barycenter of the final sets of the half with lower energy."""

    def __post_init__(self) -> None:
        require_positive(self, "steps", "step_size", "restarts")
        require_not_negative(self, "noise_scale")
        within = f"between 0 and the steps of the same chain ({self.steps})"
        require_setting(
            0 <= self.stochastic_steps <= self.steps, "stochastic_steps", within, self.stochastic_steps
        )
        final = self.final_noise_scale
        require_setting(
            final is None or 0 < final <= self.noise_scale,
            "final_noise_scale",
            f"above 0 and at most noise_scale ({self.noise_scale}), or None",
            final,
        )
        require_setting(0 <= self.momentum < 1, "momentum", "at least 0 and below 1", self.momentum)
        limit = self.max_step_norm
        require_setting(limit is None or limit > 0, "max_step_norm", "positive or None", limit)

    @property
    def deterministic(self) -> bool:
        """Whether no step adds noise: chains start at zeros."""
        return self.noise_at(0) == 0

    @property
    def follows_distribution(self) -> bool:
        """With one chain for each set."""
        return self.restarts == 1

    @property
    def single_chain(self) -> "LangevinSettings | None":
        """The same with one restart, where there are several."""
        return replace(self, restarts=1) if self.restarts > 1 else None

    def noise_at(self, step: int) -> float:
        """Standard deviation of the noise of a step, counted from 0."""
        if step >= self.stochastic_steps:
            return 0.0
        if self.final_noise_scale is None or self.stochastic_steps == 1:
            return self.noise_scale
        progress = step / (self.stochastic_steps - 1)
        return float(self.noise_scale ** (1 - progress) * self.final_noise_scale**progress)


@SamplerSettings.register("edm")
@dataclass(frozen=True)
class EDMSettings(SamplerSettings):
    """Sampler of Karras et al. (2022): from noise to sets along the probability-flow ODE."""

    steps: int = 20
    """Number of steps, and of noise levels from sigma_max to sigma_min; the last step ends at 0."""
    order: Literal[1, 2] = 2
    """1: Euler, one denoiser evaluation a step. 2: Heun, two of them, and far more accurate."""
    sigma_max: float = 20.0
    """The noise level at which sets are pure noise; sigma_data is about one half."""
    sigma_min: float = 0.002
    """The lowest noise level before 0."""
    rho: float = 7.0
    """1: equidistant noise levels; larger: more of them at low noise."""
    churn: float = 0.0
    """gamma of Karras et al. (2022), S_churn / steps and not S_churn itself: before each step but the last, new
    noise raises sigma to (1 + churn) sigma; 0: no new noise, the probability-flow ODE."""
    cardinality: Literal["sampled", "mode"] = "sampled"
    """Where the cardinality is predicted: sampled from p(n | x), or its mode, where only one can be right."""
    temperature: float = 1.0
    """Factor on the initial noise. Below 1, sets are nearer to the most usual ones, and less diverse than the
    data. With churn, the noise that is added later stays what it is."""

    def __post_init__(self) -> None:
        require_positive(self, "steps", "rho", "temperature")
        require_setting(
            0 < self.sigma_min < self.sigma_max, "sigma_min", "above 0, below sigma_max", self.sigma_min
        )
        require_not_negative(self, "churn")

    @property
    def follows_distribution(self) -> bool:
        """Where the cardinality is sampled, and all of the initial noise is taken."""
        return self.cardinality == "sampled" and self.temperature == 1


@SamplerSettings.register("descent")
@dataclass(frozen=True)
class DescentSettings(SamplerSettings):
    """Sampler: gradient steps from a learned start, which direct risk and DSPN unroll in training."""

    steps: int = 20
    """Gradient steps."""
    step_size: float = 1.0
    """Factor on the gradient of the energy of one sample."""

    def __post_init__(self) -> None:
        require_positive(self, "steps", "step_size")

    @property
    def deterministic(self) -> bool:
        """The start is learned, and nothing is drawn."""
        return True


@SamplerSettings.register("labels")
@dataclass(frozen=True)
class LabelSamplerSettings(SamplerSettings):
    """Sampler: labels of all elements at once, by their probabilities, without a chain."""

    has_steps: ClassVar[bool] = False
    min_probability: float | None = None
    """None: K independent samples. A number: the most probable answers, each once, that have at least this
    probability; where these are fewer than K, the most probable one takes the other places. Above .5: the most
    probable one alone."""

    def __post_init__(self) -> None:
        least = self.min_probability
        require_setting(
            least is None or 0 < least <= 1, "min_probability", "above 0 and at most 1, or None", least
        )

    @property
    def deterministic(self) -> bool:
        """Where the most probable answer alone is predicted: no other one can be above .5."""
        return self.min_probability is not None and self.min_probability > 0.5

    @property
    def follows_distribution(self) -> bool:
        """With independent samples."""
        return self.min_probability is None
