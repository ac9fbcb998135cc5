"""How long training is, when it validates, and at which learning rate."""

import math

from accelerate import Accelerator

from desp.settings import TrainingSettings
from desp.training.convergence import (
    PATIENCE,
    STEPS_WITHOUT_VALIDATION,
    decay_start,
    early_validation,
    is_late,
)
from desp.training.processes import any_process
from desp.training.state import TrainingState


def learning_rate(step: int, settings: TrainingSettings, end: int | None = None) -> float:
    """The learning rate of step `step` (counted from 0): linear warm-up, then constant, a cosine to zero, or
    constant with a linear decay to zero at the end.

    Args:
        step: which.
        settings: of the training.
        end: length of the run, where settings have none; None: not decided yet.
    """
    if settings.lr_schedule == "wsd":
        warm = min((step + 1) / max(settings.warmup_steps, 1), 1.0)
        return settings.learning_rate * warm * _decay(step, settings.steps or end)
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    if settings.lr_schedule == "constant" or settings.steps is None:
        return settings.learning_rate
    length = max(settings.steps - settings.warmup_steps, 1)
    progress = min((step - settings.warmup_steps) / length, 1.0)
    return settings.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))


def _decay(step: int, steps: int | None) -> float:
    """The factor of the rate: 1, then linearly to zero over the last fifth of `steps`."""
    if steps is None or step < (start := decay_start(steps)):
        return 1.0
    return max(steps - step, 0) / (steps - start + 1)


class Schedule:
    """Decides by settings and state alone, so that a resumed run goes on as it would have.

    Args:
        settings: of the training.
        validates: whether there is something to validate on.
    """

    def __init__(self, settings: TrainingSettings, *, validates: bool) -> None:
        self.settings, self.validates = settings, validates

    @property
    def sign(self) -> int:
        """1 if lower validation scores are better, else -1."""
        return 1 if self.settings.validation_mode == "min" else -1

    def end(self, state: TrainingState) -> int | None:
        """How many steps there are; None while that is not decided."""
        if self.settings.steps is None and not self.validates:
            return state.ending.end or STEPS_WITHOUT_VALIDATION
        return self.settings.steps or state.ending.end

    def at_end(self, state: TrainingState) -> bool:
        """Whether all steps are done."""
        end = self.end(state)
        return end is not None and state.step >= end

    def progress(self, state: TrainingState) -> str:
        """The step, and of how many, if that is known."""
        end = self.end(state)
        return f"{state.step}" if end is None else f"{state.step} of {end}"

    def rate(self, step: int, state: TrainingState) -> float:
        """The learning rate of step `step`; every roll-back halves it."""
        return learning_rate(step, self.settings, self.end(state)) * 0.5**state.attempt

    def validation_is_due(self, state: TrainingState) -> bool:
        """Whether the present weights are to be validated, and have not been."""
        step, every = state.step, self.settings.validate_every
        if not self.validates or every == 0 or step in (0, state.validated_step):
            return False
        early = self.settings.steps is None and early_validation(step, every)
        return early or step % every == 0 or self.at_end(state)

    def out_of_patience(self, state: TrainingState) -> bool:
        """Whether patience has run out, which ends a run of known length early."""
        steps, patience = self.settings.steps, self.settings.patience
        return steps is not None and patience is not None and state.validations_without_improvement >= patience

    def look_at_clock(self, state: TrainingState, accelerator: Accelerator) -> bool:
        """Where there is no length: begin the decay, in all processes at the same step, when time is short.

        From then on the length is a part of the state, so a resumed run ends there too, however fast it is. Time
        only shortens: a decay that has begun goes on. Returns whether it was decided now.
        """
        end = self.end(state)
        open_end = self.settings.steps is None and (end is None or state.step < decay_start(end))
        if not open_end or state.step % self.settings.log_every:
            return False
        late = any_process(accelerator, is_late(state.seconds, self.settings))
        if late:
            state.ending.end_after(state.step, "out of time")
        return late

    def look_at_scores(self, state: TrainingState, scores: list[float]) -> bool:
        """Where there is no length: decide it once validation has not improved for `patience` validations; returns
        whether it did."""
        ending, undecided = state.ending, self.end(state) is None
        ending.last = scores
        if undecided:
            ending.add(state.step, scores, self.sign, self.settings.patience or PATIENCE)
        return undecided and ending.end is not None

    def keeps_last(self, state: TrainingState) -> bool:
        """Whether the last weights are kept, and not those of the best validation; never ones that have
        overfitted."""
        validated, overfitted = state.validated_step == state.step, state.ending.stop_reason == "overfitted"
        wanted = self.settings.keep == "last" and validated and not overfitted
        return wanted and state.ending.last_is_kept(self.sign)
