"""Settings of the training loop."""

from dataclasses import dataclass
from typing import Literal

from desp.settings.base import require_not_negative, require_positive, require_setting
from desp.settings.types import Checked


@dataclass(frozen=True)
class TrainingSettings(Checked):
    """The training loop. The defaults are not the paper's; the `-paper` recipes have those."""

    steps: int = 2000
    """Optimiser steps."""
    batch_size: int = 64
    """Batch size of each process."""
    learning_rate: float = 1e-3
    """Peak learning rate of Adam."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Adam's beta_1 and beta_2."""
    warmup_steps: int = 100
    """Steps over which the learning rate rises from zero."""
    lr_schedule: Literal["constant", "cosine"] = "cosine"
    """Learning-rate schedule after the warm-up: constant, or cosine decay to zero."""
    clip_norm: float | None = 1.0
    """Largest gradient norm; None: no clipping."""
    ema_decay: float | None = 0.995
    """Decay of the exponential moving average (EMA) of weights, used in prediction; None: the last weights."""
    validate_every: int = 0
    """Steps between validations; 0: never. In Python `fit` also needs `validation`."""
    patience: int | None = None
    """Stop after this many validations without improvement; None: never."""
    validation_mode: Literal["min", "max"] = "min"
    """Whether a smaller or a larger validation score is better."""
    checkpoint_every: int = 500
    """Steps between checkpoints."""
    log_every: int = 10
    """Steps between lines of the log."""
    on_divergence: Literal["stop", "rollback"] = "rollback"
    """After NaN or infinity, and when too many samples diverge: stop, or roll back to the last good checkpoint
    with half the learning rate."""
    data_workers: int = 0
    """Processes that load examples of map-style datasets, own files included; 0: the training process does. Not
    used for iterable datasets and for tasks that draw batches on the device."""
    tensorboard: bool = False
    """Also log for TensorBoard (extra `log`)."""

    def __post_init__(self) -> None:
        require_positive(self, "steps", "batch_size", "checkpoint_every", "log_every", "learning_rate")
        require_not_negative(self, "warmup_steps", "validate_every", "data_workers")
        decays = len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas)
        require_setting(decays, "betas", "two numbers of at least 0 and below 1", self.betas)
        clipped = self.clip_norm is None or self.clip_norm > 0
        require_setting(clipped, "clip_norm", "positive or None", self.clip_norm)
        averaged = self.ema_decay is None or 0 < self.ema_decay < 1
        require_setting(averaged, "ema_decay", "between 0 and 1, or None", self.ema_decay)
        patient = self.patience is None or (self.patience > 0 and self.validate_every > 0)
        require_setting(patient, "patience", "positive, with validate_every above 0, or None", self.patience)

    def may_end_at(self, steps: int) -> bool:
        """Whether a run of that length is the beginning of a longer one, and gives the best of its weights so far.

        The last weights are always validated, so the longer run must validate at that step, too.
        """
        return self.lr_schedule == "constant" and self.validate_every > 0 and steps % self.validate_every == 0
