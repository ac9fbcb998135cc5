"""When training is long enough: validation scores with their noise, and the end that follows from them.

Learning rates follow warm-up, stable, decay (WSD): the decay is the last fifth of the steps, whenever it begins,
so a run needs no length beforehand. One that ended after N steps, the decay among them, is the same, weight for
weight, as one that was given N steps, with the same engine and without roll-backs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from desp.errors import SettingsError
from desp.settings import TrainingSettings

# The decay is the last of so many equal parts of the steps.
DECAY_DIVISOR = 5
# Standard errors by which the weights of the best validation must be better than the last ones to be kept.
CLEAR_DIFFERENCE_SE = 2.0
# Validations without improvement beyond the standard error, in a row, after which training has converged, ...
PATIENCE = 10
# ... if they are also so large a part of all steps: later, the same number of steps brings less.
MIN_WAIT_FRACTION = 1 / 3
# Without validation examples nothing tells when to stop.
STEPS_WITHOUT_VALIDATION = 2000

StopReason = Literal["converged", "overfitted", "out of time"]


@dataclass
class Ending:
    """Whether validation still improves, and where training ends; a part of the saved state.

    Attributes:
        reference: validation scores of each example at the last improvement beyond their noise; all are finite.
        reference_step: when that was.
        waited: validations since then.
        best: scores of the validation with the best mean.
        last: scores of the last validation.
        end: the last step, once it is decided.
        stop_reason: why that.
        steps, means: of every validation before the end was decided, and the mean of its scores.
    """

    reference: list[float] = field(default_factory=list)
    reference_step: int = 0
    waited: int = 0
    best: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    end: int | None = None
    stop_reason: StopReason | None = None
    steps: list[int] = field(default_factory=list)
    means: list[float] = field(default_factory=list)

    def add(self, step: int, scores: Sequence[float], sign: int, patience: int) -> None:
        """Take in the scores of a validation; decides the end after `patience` without improvement.

        A single score has no noise that is known, so it never says that weights have overfitted.

        Args:
            step: when.
            scores: one of each example, or one alone.
            sign: 1 if lower is better, else -1.
            patience: how many validations in a row may bring no improvement beyond the standard error.

        Raises:
            SettingsError: no validation gave finite scores.
        """
        self.steps.append(step)
        self.means.append(mean_and_error(scores)[0])
        reference = self.reference if all_finite(self.reference) else []
        gain, error = paired_difference(reference or scores, scores)
        if all_finite(scores) and (not reference or sign * gain > error):
            self.reference, self.reference_step, self.waited = list(scores), step, 0
            return
        self.waited += 1
        if self.waited >= patience and step - self.reference_step >= MIN_WAIT_FRACTION * step:
            if not reference:
                wrong = sum(not math.isfinite(score) for score in scores)
                raise SettingsError(
                    f"None of {self.waited} validations gave finite scores of all examples (the last one {wrong} "
                    f"of {len(scores)} that are not), so nothing tells when training is long enough. Check the "
                    "`validation` function and the validation data, or set training.steps."
                )
            overfitted = len(scores) > 1 and -sign * gain > CLEAR_DIFFERENCE_SE * error
            self.end_after(step, "overfitted" if overfitted else "converged")

    def end_after(self, step: int, reason: StopReason) -> None:
        """Decide the end: after a decay, which weights that have overfitted do not need."""
        self.end, self.stop_reason = (step if reason == "overfitted" else with_decay(step)), reason

    def last_is_kept(self, sign: int) -> bool:
        """Whether the last weights are kept: no earlier ones are better beyond the noise."""
        if not self.best or not self.last:
            return False
        worse, error = paired_difference(self.last, self.best)
        return sign * worse <= CLEAR_DIFFERENCE_SE * error

    def recent_gain(self) -> float | None:
        """By how much the mean score fell (rose, if negative) over the second half of the steps before the decay:
        where lower is better, about an upper bound of what half as many steps more would gain."""
        pairs = zip(self.steps, self.means, strict=True)
        before = [mean for step, mean in pairs if step <= self.steps[-1] / 2]
        return before[-1] - self.means[-1] if before else None


def checked_scores(scores: Any) -> Float[Tensor, " n"]:
    """What a validation gave: one score, or one for each example.

    Raises:
        SettingsError: it gave something else.
    """
    try:
        values = torch.as_tensor(scores, dtype=torch.float64).reshape(-1)
    except (TypeError, ValueError, RuntimeError):
        values = torch.empty(0)
    if values.numel() == 0:
        given = "no scores" if isinstance(scores, Tensor) else repr(scores)
        raise SettingsError(
            f"validation must return a number, or a tensor with a score for each example; it returned {given}."
        )
    return values


def all_finite(scores: Sequence[float]) -> bool:
    """Whether none is NaN or infinite."""
    return all(map(math.isfinite, scores))


def paired_difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """The mean of first - second over examples, and its standard error; 0 of a single one.

    Raises:
        SettingsError: they are not of the same examples.
    """
    if len(first) != len(second):
        raise SettingsError(
            f"validation must score the same examples each time; there were {len(second)} scores before, and "
            f"{len(first)} now."
        )
    differences = [a - b for a, b in zip(first, second, strict=True)]
    return mean_and_error(differences)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and its standard error; 0 of a single value."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return mean, 0.0
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, math.sqrt(variance / len(values))


def with_decay(step: int) -> int:
    """The length of a run whose decay begins after `step` steps; `decay_start` is the inverse."""
    return step + step // (DECAY_DIVISOR - 1)


def decay_start(steps: int) -> int:
    """How many steps of a run of `steps` come before its decay."""
    return steps - steps // DECAY_DIVISOR


def is_late(seconds: float, settings: TrainingSettings) -> bool:
    """Whether the decay must begin for training to end in time."""
    return settings.minutes is not None and seconds >= 60 * settings.minutes * (1 - 1 / DECAY_DIVISOR)


def early_validation(step: int, every: int) -> bool:
    """Whether a run without a length validates at `step`, before its first regular validation: few examples are
    overfitted soon."""
    return step < every and step in {every // 8, every // 4, every // 2}
