"""Settings of samplers: how sets are drawn from an energy."""

from dataclasses import dataclass
from typing import Literal

from desp.settings.choices import FromTries, require_setting


@dataclass(frozen=True)
class LangevinSettings:
    """The chain of equations 5 and 6: `stochastic_steps` steps with noise, the rest without."""

    steps: int = 60
    """T: gradient steps in all."""
    stochastic_steps: int = 48
    """S: how many of the first steps add noise. S = T samples, S = 0 descends."""
    noise_scale: float = 0.015
    """Standard deviation of the noise of one step."""
    last_noise: float | None = None
    """That of the last of several; between, it falls evenly in its logarithm. None: the same in all."""
    step_size: float = 1.0
    """Factor on the gradient."""
    noise_first: bool = True
    """Noise, then gradient (as released) or gradient, then noise (as printed in the paper)."""
    momentum: float = 0.0
    """Share of the last step that the next one without noise repeats; 0: plain descent, as in the paper."""
    largest_step: float | None = None
    """No element goes farther in one gradient step: keeps chains finite where an energy is too steep."""
    tries: int = 1
    """Chains for each predicted set, for as many times the work. For when one answer is right: of several, lower
    ones come too often, and their mean is none."""
    from_tries: FromTries = "lowest"
    """What is made of several tries. lowest: the one that ends lowest, so that a few that fail do not count. mean:
    that of the lower half, element by element as they match: nearest to all that the energy cannot tell apart."""
    kind: Literal["langevin"] = "langevin"

    def __post_init__(self) -> None:
        require_setting(self.steps > 0, "steps", "positive", self.steps)
        require_setting(
            0 <= self.stochastic_steps <= self.steps,
            "stochastic_steps",
            f"between 0 and the steps of the same chain ({self.steps})",
            self.stochastic_steps,
        )
        require_setting(self.noise_scale >= 0, "noise_scale", "at least 0", self.noise_scale)
        last = self.last_noise
        require_setting(
            last is None or 0 < last <= self.noise_scale,
            "last_noise",
            f"above 0 and at most noise_scale ({self.noise_scale}), or None",
            last,
        )
        require_setting(self.step_size > 0, "step_size", "positive", self.step_size)
        require_setting(0 <= self.momentum < 1, "momentum", "at least 0 and below 1", self.momentum)
        require_setting(self.tries > 0, "tries", "positive", self.tries)
        limit = self.largest_step
        require_setting(limit is None or limit > 0, "largest_step", "positive or None", limit)

    def noise_at(self, step: int) -> float:
        """Standard deviation of the noise of a step, counted from 0."""
        if step >= self.stochastic_steps:
            return 0.0
        if self.last_noise is None or self.stochastic_steps == 1:
            return self.noise_scale
        way = step / (self.stochastic_steps - 1)
        return float(self.noise_scale ** (1 - way) * self.last_noise**way)


@dataclass(frozen=True)
class SolverSettings:
    """From noise to sets, level by level, along a denoising energy (the sampler of Karras et al. 2022)."""

    kind: Literal["solver"] = "solver"
    steps: int = 20
    """Noise levels to pass."""
    order: Literal[1, 2] = 2
    """1: Euler, one gradient a step. 2: Heun, two of them, and far more accurate."""
    highest: float = 20.0
    """The level at which sets are pure noise; the data's deviation is about half."""
    lowest: float = 0.002
    """The last level before none."""
    spacing: float = 7.0
    """1: levels at equal distances; larger: more of them at low noise."""
    stochasticity: float = 0.0
    """Noise added again in each step, as a share of its level; 0: the first noise decides everything."""
    refinement: int = 0
    """Steps at the lowest level afterwards, down the energy where there is one."""
    matching: int = 0
    """Steps after these that bring the set's own code to the input's (E_SE); for inputs that are sets like those
    to predict."""
    sizes: Literal["drawn", "likeliest"] = "drawn"
    """Where sizes come first: one drawn from p(size | x), or the likeliest, where only one can be right."""

    def __post_init__(self) -> None:
        require_setting(self.steps > 0, "sampler.steps", "positive", self.steps)
        require_setting(0 < self.lowest < self.highest, "sampler.lowest", "above 0, below highest", self.lowest)
        require_setting(self.spacing > 0, "sampler.spacing", "positive", self.spacing)
        require_setting(self.stochasticity >= 0, "sampler.stochasticity", "at least 0", self.stochasticity)
        require_setting(self.refinement >= 0, "sampler.refinement", "at least 0", self.refinement)
        require_setting(self.matching >= 0, "sampler.matching", "at least 0", self.matching)


SamplerSettings = LangevinSettings | SolverSettings
