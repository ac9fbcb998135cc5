"""Settings of a run: task and training loop around a predictor."""

from dataclasses import dataclass, field
from typing import Literal

from desp.settings.choices import Device, Engine, MnistVariant, require_setting
from desp.settings.energy import AttentionSettings
from desp.settings.predictor import DenoisingSettings, PredictorSettings


@dataclass(frozen=True)
class TrainingSettings:
    """The one training loop. The defaults are robust rather than the paper's, which its recipes name."""

    steps: int = 2000
    """Optimiser steps."""
    batch_size: int = 64
    """Examples a step, in each process."""
    size_groups: int = 1
    """Groups of like size that a batch is made of: in each, no more rows are computed than its largest set can
    need. Above 1 for denoising with attention and sizes first, on set-MNIST."""
    learning_rate: float = 1e-3
    """Peak learning rate of Adam."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Adam's decays of the mean gradient and of the mean square."""
    warmup_steps: int = 100
    """Steps over which the learning rate rises from zero."""
    decay: Literal["constant", "cosine"] = "cosine"
    """What the learning rate does after the warm-up."""
    clip_norm: float | None = 1.0
    """Largest gradient norm; None: no clipping."""
    ema_decay: float | None = 0.995
    """Decay of the weight average that predictions use; None: the last weights are used."""
    validate_every: int = 0
    """Steps between validations; 0: never."""
    patience: int | None = None
    """Stop after this many validations without improvement; None: never."""
    best_is: Literal["lowest", "highest"] = "lowest"
    """Which direction of the validation score is better."""
    checkpoint_every: int = 500
    """Steps between checkpoints."""
    log_every: int = 10
    """Steps between lines of the log."""
    on_nonfinite: Literal["stop", "rollback"] = "rollback"
    """After NaN or infinity, and when more samples run away than may be spared: stop, or go back to the
    last good checkpoint with half the learning rate."""
    data_workers: int = 0
    """Processes that load data; 0: the training process does."""
    tensorboard: bool = False
    """Also log for TensorBoard (extra `log`)."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "size_groups", "checkpoint_every", "log_every"):
            require_setting(getattr(self, name) > 0, f"training.{name}", "positive", getattr(self, name))
        for name in ("warmup_steps", "validate_every", "data_workers"):
            require_setting(getattr(self, name) >= 0, f"training.{name}", "at least 0", getattr(self, name))
        require_setting(self.learning_rate > 0, "training.learning_rate", "positive", self.learning_rate)
        decays = len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas)
        require_setting(decays, "training.betas", "two numbers of at least 0 and below 1", self.betas)
        require_setting(
            self.clip_norm is None or self.clip_norm > 0,
            "training.clip_norm",
            "positive or None",
            self.clip_norm,
        )
        require_setting(
            self.ema_decay is None or 0 < self.ema_decay < 1,
            "training.ema_decay",
            "between 0 and 1, or None",
            self.ema_decay,
        )
        require_setting(
            self.patience is None or (self.patience > 0 and self.validate_every > 0),
            "training.patience",
            "positive, with training.validate_every above 0, or None",
            self.patience,
        )

    def may_end_at(self, steps: int) -> bool:
        """Whether a run of that length is the beginning of a longer one, and gives the best of its weights so far.

        Its last weights are validated; so the longer run must have validated them, too.
        """
        return self.decay == "constant" and self.validate_every > 0 and steps % self.validate_every == 0


@dataclass(frozen=True)
class PolygonsSettings:
    """Regular polygons at random rotations; the input is the number of corners."""

    kind: Literal["polygons"] = "polygons"
    corners: tuple[int, ...] = (4, 5, 6, 7, 8)
    """The numbers of corners to learn."""

    def __post_init__(self) -> None:
        wanted = "different numbers of 3 or more"
        valid = len(set(self.corners)) == len(self.corners) > 0 and min(self.corners) >= 3
        require_setting(valid, "task.corners", wanted, self.corners)


@dataclass(frozen=True)
class DigitsSettings:
    """Point clouds of a one or a seven, each in two styles; the input is the digit."""

    kind: Literal["digits"] = "digits"


@dataclass(frozen=True)
class FilesSettings:
    """A user's own data."""

    kind: Literal["files"] = "files"
    path: str = ""
    """JSON lines with `input` and `set`, or an npz file."""
    held_out: float = 0.1
    """Share of the examples that is kept for validation and scoring."""

    def __post_init__(self) -> None:
        require_setting(0 < self.held_out < 1, "task.held_out", "between 0 and 1", self.held_out)


@dataclass(frozen=True)
class MnistSettings:
    """Handwritten digits, or pieces of clothing, as sets of points; the input is the set itself."""

    kind: Literal["mnist"] = "mnist"
    variant: MnistVariant = "mnist"
    """MNIST, or Fashion-MNIST."""
    data_dir: str = ""
    """Folder with the data; DESP_DATA, or else the user's data folder, if empty."""
    shifted: float = 0.0
    """Share of the sets in training that are moved by whole pixels to anywhere in the picture, so that points
    at its border, which are rare, are seen more often."""

    def __post_init__(self) -> None:
        require_setting(0 <= self.shifted <= 1, "task.shifted", "between 0 and 1", self.shifted)


TaskSettings = PolygonsSettings | DigitsSettings | FilesSettings | MnistSettings


@dataclass(frozen=True)
class RunSettings:
    """A whole run: everything that decides its result, but for the seed and the machine."""

    recipe: str
    """Name of the recipe these settings came from."""
    task: TaskSettings
    """Where data come from and how predictions are scored."""
    predictor: PredictorSettings = field(default_factory=PredictorSettings)
    """Energy, estimator, sampler."""
    training: TrainingSettings = field(default_factory=TrainingSettings)
    """The training loop."""
    engine: Engine = "auto"
    """How chains run: eager, with a compiled gradient, as one CUDA graph, or what suits the device and the run."""
    device: Device = "auto"
    """Where to run."""
    matmul_precision: Literal["highest", "high", "medium"] = "high"
    """float32 matrix products with tf32 where the device has it (high), in full precision (highest), or with the
    layers of chains in bfloat16 (medium), and those of attention without an energy in training too."""

    def __post_init__(self) -> None:
        energy, estimator = self.predictor.energy, self.predictor.estimator
        denoises = isinstance(estimator, DenoisingSettings) and estimator.sizes == "first"
        able = denoises and isinstance(energy, AttentionSettings) and isinstance(self.task, MnistSettings)
        wanted = "1, but for set-MNIST with estimator denoising, sizes first and energy attention"
        groups = self.training.size_groups
        require_setting(able or groups == 1, "training.size_groups", wanted, groups)
