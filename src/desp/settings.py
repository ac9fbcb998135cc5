"""Every setting, as frozen dataclasses that check themselves.

This module knows nothing of torch, so that the command line can show all settings without loading it. What a
setting *does* is documented where it is used; the lines below a field are what ``--help`` prints.
"""

import dataclasses
import difflib
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from desp.errors import SettingsError

T = TypeVar("T")

Pooling = Literal["fspool", "mean", "max", "sum"]
Distance = Literal["chamfer", "hungarian"]
Engine = Literal["auto", "eager", "graph"]
Device = Literal["auto", "cpu", "cuda"]
InputKind = Literal["vector", "set", "image"]


def _require(condition: bool, setting: str, expected: str, got: object) -> None:
    if not condition:
        raise SettingsError(f"{setting} must be {expected}, got {got!r}.")


@dataclass(frozen=True)
class DeepSetsSettings:
    """The energy E_DS of equation 8: an MLP on every element, a pooling, a second MLP."""

    kind: Literal["deep-sets"] = "deep-sets"
    hidden: int = 256
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
        _require(self.hidden > 0, "energy.hidden", "positive", self.hidden)
        _require(self.element_layers > 0, "energy.element_layers", "positive", self.element_layers)
        _require(self.set_layers > 0, "energy.set_layers", "positive", self.set_layers)


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
        _require(self.hidden > 0, "energy.hidden", "positive", self.hidden)
        _require(self.layers > 0, "energy.layers", "positive", self.layers)
        _require(self.latent > 0, "energy.latent", "positive", self.latent)


EnergySettings = DeepSetsSettings | SetEncoderSettings


@dataclass(frozen=True)
class PaddingSettings:
    """How sets of different sizes become tensors of one shape."""

    kind: Literal["zero", "presence"] = "presence"
    """zero: absent elements are zero vectors. presence: one more feature, 1 for present and 0 for absent."""
    threshold: float = 0.5
    """Above it an element counts as present (the coordinates with zero, the extra feature with presence)."""
    rule: Literal["every", "any"] = "every"
    """Only with zero: present when every coordinate, or any coordinate, exceeds the threshold in size."""

    def __post_init__(self) -> None:
        _require(0 <= self.threshold < 1, "padding.threshold", "at least 0 and below 1", self.threshold)


@dataclass(frozen=True)
class LangevinSettings:
    """The chain of equations 5 and 6: `stochastic_steps` steps with noise, the rest without."""

    steps: int = 100
    """T: gradient steps in all."""
    stochastic_steps: int = 80
    """S: how many of the first steps add noise. S = T samples, S = 0 descends."""
    noise_scale: float = 0.01
    """Standard deviation of the noise of one step."""
    step_size: float = 1.0
    """Factor on the gradient."""
    noise_first: bool = True
    """Noise, then gradient (as released) or gradient, then noise (as printed in the paper)."""

    def __post_init__(self) -> None:
        _require(self.steps > 0, "steps", "positive", self.steps)
        _require(
            0 <= self.stochastic_steps <= self.steps,
            "stochastic_steps",
            f"between 0 and steps ({self.steps})",
            self.stochastic_steps,
        )
        _require(self.noise_scale >= 0, "noise_scale", "at least 0", self.noise_scale)
        _require(self.step_size > 0, "step_size", "positive", self.step_size)


@dataclass(frozen=True)
class ContrastiveSettings:
    """Contrastive estimation: real sets get low energy, the chain's sets high energy (equations 3 to 5)."""

    kind: Literal["contrastive"] = "contrastive"
    chain: LangevinSettings = field(default_factory=lambda: LangevinSettings(steps=100, stochastic_steps=100))
    """The chain that draws from the model in every training step."""
    data_noise: float = 0.015
    """Standard deviation of the noise on real sets."""

    def __post_init__(self) -> None:
        _require(self.data_noise >= 0, "estimator.data_noise", "at least 0", self.data_noise)


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
        _require(self.steps > 0, "estimator.steps", "positive", self.steps)
        _require(self.step_size > 0, "estimator.step_size", "positive", self.step_size)


EstimatorSettings = ContrastiveSettings | SetRiskSettings


@dataclass(frozen=True)
class TrainingSettings:
    """The one training loop."""

    steps: int = 4000
    """Optimiser steps."""
    batch_size: int = 100
    """Examples a step, in each process."""
    learning_rate: float = 1e-4
    """Peak learning rate of Adam."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises from zero."""
    decay: Literal["constant", "cosine"] = "constant"
    """What the learning rate does after the warm-up."""
    clip_norm: float | None = None
    """Largest gradient norm; None: no clipping."""
    ema_decay: float | None = None
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
    on_nonfinite: Literal["stop", "rollback"] = "stop"
    """After NaN or infinity: stop, or go back to the last good checkpoint with half the learning rate."""
    data_workers: int = 0
    """Processes that load data; 0: the training process does."""
    tensorboard: bool = False
    """Also log for TensorBoard (extra `log`)."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "checkpoint_every", "log_every"):
            _require(getattr(self, name) > 0, f"training.{name}", "positive", getattr(self, name))
        for name in ("warmup_steps", "validate_every", "data_workers"):
            _require(getattr(self, name) >= 0, f"training.{name}", "at least 0", getattr(self, name))
        _require(self.learning_rate > 0, "training.learning_rate", "positive", self.learning_rate)
        _require(
            self.clip_norm is None or self.clip_norm > 0,
            "training.clip_norm",
            "positive or None",
            self.clip_norm,
        )
        _require(
            self.ema_decay is None or 0 < self.ema_decay < 1,
            "training.ema_decay",
            "between 0 and 1, or None",
            self.ema_decay,
        )
        _require(
            self.patience is None or (self.patience > 0 and self.validate_every > 0),
            "training.patience",
            "positive, with training.validate_every above 0, or None",
            self.patience,
        )


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
        _require(self.max_size is None or self.max_size > 0, "max_size", "positive or None", self.max_size)


@dataclass(frozen=True)
class PolygonsSettings:
    """Regular polygons at random rotations; the input is the number of corners."""

    kind: Literal["polygons"] = "polygons"
    corners: tuple[int, ...] = (4, 5, 6, 7, 8)
    """The numbers of corners to learn."""

    def __post_init__(self) -> None:
        wanted = "different numbers of 3 or more"
        valid = len(set(self.corners)) == len(self.corners) > 0 and min(self.corners) >= 3
        _require(valid, "task.corners", wanted, self.corners)


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
        _require(0 < self.held_out < 1, "task.held_out", "between 0 and 1", self.held_out)


TaskSettings = PolygonsSettings | DigitsSettings | FilesSettings


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
    """How chains run: eager, as one CUDA graph, or what suits the device."""
    device: Device = "auto"
    """Where to run."""
    matmul_precision: Literal["highest", "high"] = "highest"
    """float32 matrix products in full precision, or with tf32 where the device has it."""


def to_json(settings: Any) -> dict[str, Any]:
    """Turn settings into plain JSON values."""
    return dataclasses.asdict(settings)


def from_json(cls: type[T], values: dict[str, Any], where: str = "") -> T:
    """Build settings of type `cls` from plain JSON values; the inverse of `to_json`.

    Raises:
        SettingsError: an unknown name (the nearest known one is suggested), or a value out of range.
    """
    hints = typing.get_type_hints(cls)
    names = {item.name for item in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in values:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else f" Known settings: {', '.join(sorted(names))}."
            raise SettingsError(f"Unknown setting '{where}{name}'.{hint}")
    try:
        return cls(
            **{name: _decode(hints[name], value, f"{where}{name}.") for name, value in values.items()}
        )
    except TypeError as error:
        raise SettingsError(f"Incomplete settings for {cls.__name__}: {error}") from error


def _decode(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return from_json(typing.cast(type[Any], hint), value, where)
    if origin is types.UnionType or origin is typing.Union:
        return _decode_union(typing.get_args(hint), value, where)
    if origin is tuple and isinstance(value, list):
        return tuple(value)
    if origin is Literal and value not in typing.get_args(hint):
        raise SettingsError(f"{where[:-1]} must be one of {typing.get_args(hint)}, got {value!r}.")
    return value


def _decode_union(options: tuple[Any, ...], value: Any, where: str) -> Any:
    """Pick the member of a union of settings classes by its `kind`."""
    classes = {option.kind: option for option in options if dataclasses.is_dataclass(option)}
    if not classes or not isinstance(value, dict):
        return value
    kind = value.get("kind")
    if kind not in classes:
        raise SettingsError(f"{where}kind must be one of {sorted(classes)}, got {kind!r}.")
    return from_json(classes[kind], value, where)
