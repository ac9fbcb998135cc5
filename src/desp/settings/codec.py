"""Settings to JSON values and back."""

import dataclasses
import difflib
import types
import typing
from typing import Any, Literal, TypeVar

from desp.errors import SettingsError
from desp.settings.samplers import LangevinSettings, SamplerSettings

T = TypeVar("T")

# Unions that had a single member once: settings saved then do not name its kind.
_ONLY_KIND_ONCE = {typing.get_args(SamplerSettings): LangevinSettings.kind}


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
        return cls(**{name: _decode(hints[name], value, f"{where}{name}.") for name, value in values.items()})
    except TypeError as error:
        raise SettingsError(f"Incomplete settings for {cls.__name__}: {error}") from error


def _decode(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise SettingsError(f"{where[:-1]} must be a group of settings, got {value!r}.")
        return from_json(typing.cast(type[Any], hint), value, where)
    if origin is types.UnionType or origin is typing.Union:
        return _decode_union(typing.get_args(hint), value, where)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(tuple(item) if isinstance(item, list) else item for item in value)
    if origin is Literal and value not in typing.get_args(hint):
        raise SettingsError(f"{where[:-1]} must be one of {typing.get_args(hint)}, got {value!r}.")
    return _decode_plain(hint, value, where)


def _decode_plain(hint: Any, value: Any, where: str) -> Any:
    accepted: dict[Any, tuple[type, ...]] = {int: (int,), float: (int, float), bool: (bool,), str: (str,)}
    wanted = accepted.get(hint)
    number_for_bool = isinstance(value, bool) and hint is not bool
    if wanted is not None and (number_for_bool or not isinstance(value, wanted)):
        raise SettingsError(f"{where[:-1]} must be of type {hint.__name__}, got {value!r}.")
    return float(value) if hint is float else value


def _decode_union(options: tuple[Any, ...], value: Any, where: str) -> Any:
    """Pick the member of a union of settings classes by its `kind`."""
    classes: dict[str, type[Any]] = {option.kind: option for option in options if hasattr(option, "kind")}
    if not classes:  # an optional number
        (plain,) = (option for option in options if option is not types.NoneType)
        return None if value is None else _decode(plain, value, where)
    kind = value.get("kind", _ONLY_KIND_ONCE.get(options)) if isinstance(value, dict) else None
    if kind not in classes:
        raise SettingsError(f"{where}kind must be one of {sorted(classes)}, got {kind!r}.")
    return from_json(classes[kind], value, where)
