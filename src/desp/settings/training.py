"""Settings of the training loop."""

from dataclasses import dataclass, replace
from typing import Literal

from desp.settings.base import require_not_negative, require_positive, require_setting
from desp.settings.types import Checked

SMALLEST_BATCH = 16
"""The smallest batch that `elements_per_batch` makes of a larger one."""


@dataclass(frozen=True)
class TrainingSettings(Checked):
    """The training loop. The defaults are not the paper's; the `-paper` recipes have those."""

    steps: int | None = 2000
    """Optimiser steps; None: until validation no longer improves beyond its noise (see `patience`), or `minutes`
    are over, with the learning rate decaying in the last fifth (`wsd`). With nothing to validate by, 2000 steps,
    or fewer where `minutes` are over."""
    minutes: float | None = None
    """With steps None: minutes of training, validations included; the learning rate begins to decay in time for
    that, and its decay is never cut, so that it may end a little later. None: no limit."""
    batch_size: int = 64
    """Batch size of each process."""
    elements_per_batch: int | None = None
    """Largest number of elements in a batch, padding included: where the largest set has more than
    elements_per_batch / batch_size elements, all batches of the run are smaller, but not of fewer than 16 sets,
    which batch norm needs. None: no limit."""
    learning_rate: float = 1e-3
    """Peak learning rate of Adam."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Adam's beta_1 and beta_2."""
    warmup_steps: int = 100
    """Steps over which the learning rate rises from zero."""
    lr_schedule: Literal["constant", "cosine", "wsd"] = "cosine"
    """Learning-rate schedule after the warm-up: constant, cosine decay to zero, or constant with a linear decay to
    zero over the last fifth of the steps (wsd: warm-up, stable, decay)."""
    clip_norm: float | None = 1.0
    """Largest gradient norm; None: no clipping."""
    ema_decay: float | None = 0.995
    """Decay of the exponential moving average (EMA) of weights, used in prediction; None: no averaging."""
    validate_every: int = 0
    """Steps between validations; the last weights are validated, too, and with steps None the weights after an
    eighth, a quarter and half of this many steps. 0: never. In Python, 0 stands for about ten validations (every
    steps // 10 steps, and at the end) if `fit` is given `validation_data` or `validation`; without one of them it
    validates only with the default method and no training settings, on data with a length, as it then holds out a
    tenth itself."""
    patience: int | None = None
    """Stop after this many validations without improvement; None: never. With steps None they begin the final
    decay (or, if the model overfits, stop at once): validations in a row that are not better than the last
    improvement by more than the standard error of the difference, spanning at least a third of the steps so far;
    None: 10."""
    validation_mode: Literal["min", "max"] = "min"
    """Whether a smaller or a larger validation score is better. For all tasks and for `validation_data` a smaller
    one is; max is for `validation` functions of your own."""
    keep: Literal["best", "last"] = "best"
    """Which weights are kept where there is validation. best: the ones of the best score. last: the last, unless
    those of the best validation are better by two standard errors of the difference. That needs a validation score
    of each example; of a single score the noise is not known, and any better one counts."""
    calibrate_cardinality: bool = False
    """When training ends, divide the logits of a predicted p(n | x) by the temperature, at least 1, that gives the
    smallest mean -log p(n | x) on validation examples; for methods that sample from it."""
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
        require_positive(self, "batch_size", "checkpoint_every", "log_every", "learning_rate")
        self._check_length()
        require_not_negative(self, "warmup_steps", "validate_every", "data_workers")
        valid_betas = all(0 <= beta < 1 for beta in self.betas)
        require_setting(valid_betas, "betas", "two numbers of at least 0 and below 1", self.betas)
        valid_clip = self.clip_norm is None or self.clip_norm > 0
        require_setting(valid_clip, "clip_norm", "positive or None", self.clip_norm)
        valid_decay = self.ema_decay is None or 0 < self.ema_decay < 1
        require_setting(valid_decay, "ema_decay", "between 0 and 1, or None", self.ema_decay)
        patience_fits = self.patience is None or (self.patience > 0 and self.validate_every > 0)
        require_setting(patience_fits, "patience", "positive, with validate_every above 0, or None", self.patience)

    def is_exact_prefix(self, steps: int) -> bool:
        """Whether a run of that length is the beginning of a longer one, and gives the best of its weights so far.

        The last weights are always validated, so the longer run must validate at that step, too.
        """
        validated_there = self.validate_every > 0 and steps % self.validate_every == 0
        return self.lr_schedule == "constant" and self.keep == "best" and validated_there

    @property
    def needs_score_per_example(self) -> bool:
        """Whether scores of validations are compared beyond their noise."""
        return self.keep == "last" or self.steps is None

    def of_length(self, steps: int | None) -> "TrainingSettings":
        """The same with another number of steps; with one, there is no limit of minutes."""
        return replace(self, steps=steps, minutes=self.minutes if steps is None else None)

    def batch_size_for(self, max_size: int) -> int:
        """The batch size for sets of up to `max_size` elements."""
        if self.elements_per_batch is None:
            return self.batch_size
        return min(self.batch_size, max(SMALLEST_BATCH, self.elements_per_batch // max(max_size, 1)))

    def _check_length(self) -> None:
        for name in ("steps", "minutes", "elements_per_batch"):
            value = getattr(self, name)
            require_setting(value is None or value > 0, name, "positive, or None", value)
        fixed = self.steps is not None
        limited = not fixed or self.minutes is None
        require_setting(limited, "minutes", "None where steps are given (it goes with steps None)", self.minutes)
        validates = fixed or self.validate_every > 0
        require_setting(validates, "validate_every", "above 0 where steps are None", self.validate_every)
        ends_anywhere = fixed or self.lr_schedule == "wsd"
        wanted = "wsd where steps are None: others need a length"
        require_setting(ends_anywhere, "lr_schedule", wanted, self.lr_schedule)
