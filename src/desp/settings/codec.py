"""Settings to JSON values and back, and where such values differ."""

import dataclasses
import difflib
import types
import typing
from typing import Any, TypeVar

from desp.errors import SettingsError
from desp.settings.base import Variant
from desp.settings.types import plain_value

T = TypeVar("T")


def to_json(settings: Any) -> dict[str, Any]:
    """Turn settings into plain JSON values; a variant begins with its kind."""
    values: dict[str, Any] = {"kind": settings.kind} if isinstance(settings, Variant) else {}
    for item in dataclasses.fields(settings):
        value = getattr(settings, item.name)
        values[item.name] = to_json(value) if dataclasses.is_dataclass(value) else value
    return values


def differences(
    saved: dict[str, Any], asked: dict[str, Any], words: tuple[str, str] = ("then", "now"), where: str = ""
) -> list[str]:
    """The settings in which two runs differ, as words."""
    found = []
    for name in saved.keys() | asked.keys():
        before, after = saved.get(name), asked.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            found += differences(before, after, words, f"{where}{name}.")
        elif before != after:
            found.append(f"{where}{name}: {before} {words[0]}, {after} {words[1]}")
    return sorted(found)


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
        return target(**{name: _decode(hints[name], value, f"{where}{name}") for name, value in values.items()})
    except TypeError as error:
        raise SettingsError(f"Incomplete settings for {target.__name__}: {error}") from error


def _variant(cls: type[Variant], kind: Any, where: str) -> type[Variant]:
    known, name = cls.kinds(), str(kind)  # a damaged one may be a list, which no dict can be asked for
    if name not in known:
        package = "" if name in cls.family().kinds() else " Is the package installed that adds it?"
        raise SettingsError(f"{where}kind must be one of {sorted(known)}, got {kind!r}.{package}")
    return known[name]


def _decode(hint: Any, value: Any, name: str) -> Any:
    options = [option for option in typing.get_args(hint) if option is not types.NoneType]
    optional = typing.get_origin(hint) in (types.UnionType, typing.Union)
    group = options[0] if optional else hint
    if not dataclasses.is_dataclass(group) or (optional and value is None):
        return plain_value(hint, value, name)
    if not isinstance(value, dict):
        raise SettingsError(f"{name} must be a group of settings, got {value!r}.")
    return from_json(typing.cast(type[Any], group), value, f"{name}.")
