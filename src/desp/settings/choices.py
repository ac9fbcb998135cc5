"""Names that several settings choose from, and the check they share."""

from typing import Literal

from desp.errors import SettingsError

Pooling = Literal["fspool", "mean", "max", "sum"]
Distance = Literal["chamfer", "hungarian"]
Engine = Literal["auto", "eager", "compiled", "graph"]
Device = Literal["auto", "cpu", "cuda"]
InputKind = Literal["vector", "set", "image"]
Initialisation = Literal["default", "xavier"]
Sizes = Literal["descended", "clamped", "first"]
"""How a descent treats presence: as all other features; the same within [0, 1]; not at all, as it is given."""
FromTries = Literal["lowest", "mean"]
MnistVariant = Literal["mnist", "fashion"]


def require_setting(condition: bool, setting: str, expected: str, got: object) -> None:
    """Refuse a value that cannot work.

    Raises:
        SettingsError: `condition` is false.
    """
    if not condition:
        raise SettingsError(f"{setting} must be {expected}, got {got!r}.")
