"""State of the training loop, and the outcome of training."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from desp.training.convergence import Ending, StopReason


@dataclass(frozen=True)
class Window:
    """Means of the logged statistics since the last checkpoint; shows divergence before the next is saved."""

    steps: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def plus(self, means: dict[str, float], steps: int) -> "Window":
        """With `steps` more steps, whose statistics have these means."""
        sums = {name: self.sums.get(name, 0.0) + steps * value for name, value in means.items()}
        return Window(self.steps + steps, {**self.sums, **sums})

    @property
    def means(self) -> dict[str, float]:
        """Over all of its steps; nothing if there are none."""
        return {name: total / self.steps for name, total in self.sums.items()}


@dataclass
class TrainingState:
    """Everything but tensors that a resumed run must know."""

    step: int = 0
    attempt: int = 0
    """How often training was rolled back; part of every seed, so that a new attempt draws anew."""
    best_score: float | None = None
    best_step: int | None = None
    validations_without_improvement: int = 0
    validated_step: int = 0
    """The step of the last validation."""
    seconds: float = 0.0
    engine: str | None = None
    """How chains run; a resumed run goes on with it."""
    window: Window = field(default_factory=Window)
    """What the steps since the last checkpoint were like."""
    rollback_step: int | None = None
    """In a checkpoint of an interruption: the earlier step that a roll-back returns to; None: to this one."""
    ending: Ending = field(default_factory=Ending)
    """Whether validation still improves, and where training ends."""

    @classmethod
    def of(cls, saved: dict[str, Any]) -> "TrainingState":
        """The state that `asdict` saved, which stays as it is; what an older checkpoint lacks gets its default."""
        saved = deepcopy(saved)
        ending = saved.get("ending", {})
        if "verdict" in ending:  # of an older checkpoint
            ending["stop_reason"] = ending.pop("verdict")
        parts = {"window": Window(**saved.get("window", {})), "ending": Ending(**ending)}
        return cls(**{**saved, **parts})


@dataclass(frozen=True)
class TrainingOutcome:
    """What training gave.

    Attributes:
        weights: to predict with: of the best validation or of the last step, see `TrainingSettings.keep`; with
            `ema_decay` their moving average.
        steps: optimiser steps done.
        score: validation score of these weights, if there was validation; ``kept_score`` in ``summary.json``.
        score_step: the step they are from, if there was validation; there ``kept_step``.
        score_standard_error: of the score, if there is one for each validation example; there ``kept_score_se``.
        seconds: wall time, resumed parts added up.
        engine: ``graph`` if whole steps ran as a CUDA graph, else how chains ran.
        stopped_early: whether patience ended a run before its given number of steps; false where that was open.
        rollbacks: how often training rolled back to a checkpoint after NaN or divergence.
        stop_reason: why it ended, where its length was not given.
        recent_gain: how much better the score became over the second half of the steps before the decay.
        cardinality_temperature: what p(n | x) was calibrated by, if it was; the score is from before that.
    """

    weights: dict[str, Tensor] = field(repr=False)
    steps: int
    score: float | None
    score_step: int | None
    seconds: float
    engine: str
    stopped_early: bool
    rollbacks: int = 0
    score_standard_error: float | None = None
    stop_reason: StopReason | None = None
    recent_gain: float | None = None
    cardinality_temperature: float | None = None

    def summary(self) -> dict[str, Any]:
        """All but the weights, under the names of ``summary.json``."""
        return {
            "steps": self.steps,
            "seconds": round(self.seconds, 2),
            "engine": self.engine,
            "kept_score": self.score,
            "kept_step": self.score_step,
            "kept_score_se": self.score_standard_error,
            "stop_reason": self.stop_reason,
            "recent_gain": self.recent_gain,
            "cardinality_temperature": self.cardinality_temperature,
            "stopped_early": self.stopped_early,
            "rollbacks": self.rollbacks,
        }
