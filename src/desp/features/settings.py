"""How features of faces are made."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from desp.settings.base import require_not_negative, require_positive, require_setting
from desp.settings.types import Checked


@dataclass(frozen=True)
class FeatureSettings(Checked):
    """A ResNet-34 is trained to predict all attributes of faces; what it computes of a face are its features."""

    epochs: int = 45
    """Passes over the training faces."""
    batch_size: int = 128
    """Faces in an optimiser step."""
    learning_rate: float = 0.4
    """Peak learning rate of SGD, which follows one cycle."""
    momentum: float = 0.9
    """Nesterov momentum of SGD."""
    weight_decay: float = 5e-4
    """Weight decay of SGD."""
    label_smoothing: float = 0.05
    """How far from 0 and 1 the targets are."""
    features: Literal["pooled", "logits"] = "pooled"
    """The average of the last convolution over an image, 512 numbers; or the logits of all attributes."""
    folds: int = 1
    """Cross-fitting: each of several classifiers gives the features of a fold whose faces it was not trained on,
    as a classifier overfits to its training faces, whose features then separate the attributes better than those
    of unseen faces do; 1: one classifier for all. Needs logits, as pooled features of different networks cannot be
    compared with each other."""
    views: int = 4
    """How many rows of features each training face has: one of the face as it is, the others of randomly changed
    copies of it."""
    seed: int = 0
    """Of initial weights, order, augmentation and folds."""

    def __post_init__(self) -> None:
        require_positive(self, "epochs", "batch_size", "learning_rate", "folds", "views")
        require_not_negative(self, "weight_decay")
        require_setting(self.batch_size > 1, "batch_size", "at least 2, as batch norm needs", self.batch_size)
        require_setting(0 <= self.momentum < 1, "momentum", "in [0, 1)", self.momentum)
        require_setting(0 <= self.label_smoothing < 0.5, "label_smoothing", "in [0, .5)", self.label_smoothing)
        comparable = self.folds == 1 or self.features == "logits"
        require_setting(comparable, "features", "'logits' where folds is above 1", self.features)


def unusual_features(settings: dict[str, Any]) -> list[str]:
    """What sets features apart from those that are made by default, in words: "logits", "folds 5"."""
    usual = asdict(FeatureSettings())
    changed = [name for name in usual if settings.get(name, usual[name]) != usual[name]]
    return [str(settings[name]) if name == "features" else f"{name} {settings[name]}" for name in changed]
