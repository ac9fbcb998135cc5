"""Settings to JSON values and back."""

import dataclasses
import difflib
import types
import typing
from typing import Any, Literal, TypeVar

from desp.errors import SettingsError
from desp.settings.base import Variant

T = TypeVar("T")


def to_json(settings: Any) -> dict[str, Any]:
    """Turn settings into plain JSON values; those of a variant begin with its kind."""
    values: dict[str, Any] = {"kind": settings.kind} if isinstance(settings, Variant) else {}
    for item in dataclasses.fields(settings):
        value = getattr(settings, item.name)
        values[item.name] = to_json(value) if dataclasses.is_dataclass(value) else value
    return values


def from_json(cls: type[T], values: dict[str, Any], where: str = "") -> T:
    """Build settings of type `cls` from plain JSON values; the inverse of `to_json`.

    Raises:
        SettingsError: an unknown name (the nearest known one is suggested), or a value out of range.
    """
    values = dict(values)
    target: type[Any] = cls
    if issubclass(cls, Variant):
        target = _variant(cls, values.pop("kind", cls.kind), where)
    hints = typing.get_type_hints(target)
    names = {item.name for item in dataclasses.fields(target)}
    for name in values:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else f" Known settings: {', '.join(sorted(names))}."
            raise SettingsError(f"Unknown setting '{where}{name}'.{hint}")
    try:
        return target(**{name: _decode(hints[name], value, f"{where}{name}.") for name, value in values.items()})
    except TypeError as error:
        raise SettingsError(f"Incomplete settings for {target.__name__}: {error}") from error


def _variant(cls: type[Variant], kind: str, where: str) -> type[Variant]:
    known = cls.kinds()
    if kind not in known:
        package = "" if cls.family().kinds().get(kind) else " Is the package installed that adds it?"
        raise SettingsError(f"{where}kind must be one of {sorted(known)}, got {kind!r}.{package}")
    return known[kind]


def _decode(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise SettingsError(f"{where[:-1]} must be a group of settings, got {value!r}.")
        return from_json(typing.cast(type[Any], hint), value, where)
    if origin is types.UnionType or origin is typing.Union:
        (plain,) = (option for option in typing.get_args(hint) if option is not types.NoneType)
        return None if value is None else _decode(plain, value, where)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(tuple(item) if isinstance(item, list) else item for item in value)
    if origin is Literal and (type(value), value) not in [(type(item), item) for item in typing.get_args(hint)]:
        raise SettingsError(f"{where[:-1]} must be one of {typing.get_args(hint)}, got {value!r}.")
    return _decode_plain(hint, value, where)


def _decode_plain(hint: Any, value: Any, where: str) -> Any:
    accepted: dict[Any, tuple[type, ...]] = {int: (int,), float: (int, float), bool: (bool,), str: (str,)}
    wanted = accepted.get(hint)
    number_for_bool = isinstance(value, bool) and hint is not bool
    if wanted is not None and (number_for_bool or not isinstance(value, wanted)):
        raise SettingsError(f"{where[:-1]} must be of type {hint.__name__}, got {value!r}.")
    return float(value) if hint is float else value
