"""What training knows of itself while it runs, and what it gives at the end."""

from dataclasses import dataclass, field

from torch import Tensor


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

    @property
    def rate_factor(self) -> float:
        """Every roll-back halves the learning rate."""
        return 0.5**self.attempt

    def out_of_patience(self, patience: int | None) -> bool:
        """Whether as many validations as `patience` allows have brought nothing."""
        return patience is not None and self.validations_without_improvement >= patience


@dataclass(frozen=True)
class TrainingOutcome:
    """What training gave.

    Attributes:
        weights: the weights to predict with: the best ones, or the averaged, or the last.
        steps: optimiser steps done.
        best_score: best validation score, if there was validation.
        best_step: the step it belongs to.
        seconds: wall time, resumed parts added up.
        engine: ``graph`` if whole steps ran as a CUDA graph, else how chains ran.
        stopped_early: whether patience ran out.
        rollbacks: how often NaN or infinity sent training back.
    """

    weights: dict[str, Tensor] = field(repr=False)
    steps: int
    best_score: float | None
    best_step: int | None
    seconds: float
    engine: str
    stopped_early: bool
    rollbacks: int = 0
