"""Values of settings, checked by the types that their fields declare."""

import dataclasses
import math
import types
import typing
from collections.abc import Callable
from functools import cache, wraps
from numbers import Integral, Real
from typing import Any, Literal

from desp.errors import SettingsError


class Checked:
    """Settings whose values have the declared types, or are refused when they are made.

    A dataclass below this one may check more in `__post_init__`, which then sees values of the right types alone.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = cls.__dict__.get("__post_init__")
        if own is not None:
            setattr(cls, "__post_init__", _after_types(own))  # noqa: B010  # mypy allows no other way

    def __post_init__(self) -> None:
        _check_types(self)


def _after_types(check: Callable[[Any], None]) -> Callable[[Any], None]:
    @wraps(check)
    def check_all(settings: Any) -> None:
        _check_types(settings)
        check(settings)

    return check_all


def _check_types(settings: Any) -> None:
    hints = _hints(type(settings))  # type: ignore[arg-type]  # a class is hashable
    for item in dataclasses.fields(settings):
        if not item.init:  # the class sets it itself
            continue
        value = getattr(settings, item.name)
        plain = plain_value(hints[item.name], value, item.name)
        if plain is not value:
            object.__setattr__(settings, item.name, plain)  # frozen, and not yet seen by anyone


@cache
def _hints(cls: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def plain_value(hint: Any, value: Any, name: str) -> Any:
    """`value` as a field of type `hint` holds it: numbers of numpy become Python's, lists become tuples.

    Args:
        hint: the declared type; a type that no settings of the library have accepts anything.
        value: what was given.
        name: of the setting, for messages.

    Raises:
        SettingsError: it is of another type, NaN or infinite, or none of the allowed values.
    """
    origin = typing.get_origin(hint)
    if origin is types.UnionType or origin is typing.Union:
        options = [option for option in typing.get_args(hint) if option is not types.NoneType]
        if value is None or len(options) > 1:  # settings of the library have no other unions
            return value
        return plain_value(options[0], value, name)
    if origin is tuple:
        return _plain_tuple(hint, value, name)
    if origin is Literal:
        if (type(value), value) not in [(type(item), item) for item in typing.get_args(hint)]:
            raise SettingsError(f"{name} must be one of {typing.get_args(hint)}, got {value!r}.")
        return value
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, typing.cast(type[Any], hint)):
            raise SettingsError(f"{name} must be {hint.__name__}, got {_described(value)}.")  # type: ignore[union-attr]
        return value
    return _plain_scalar(hint, value, name)


def _plain_tuple(hint: Any, value: Any, name: str) -> tuple[Any, ...]:
    inner = typing.get_args(hint)
    if not isinstance(value, list | tuple):
        raise SettingsError(f"{name} must be a tuple, got {_described(value)}.")
    if inner[-1] is Ellipsis:
        inner = (inner[0],) * len(value)
    if len(inner) != len(value):
        raise SettingsError(f"{name} must be {len(inner)} values, got {value!r}.")
    return tuple(plain_value(of, item, f"each of {name}") for of, item in zip(inner, value, strict=True))


# What a field of each type accepts, beside values of exactly that type.
_ACCEPTED: dict[Any, type] = {int: Integral, float: Real, str: str, bool: bool}


def _plain_scalar(hint: Any, value: Any, name: str) -> Any:
    if hint not in _ACCEPTED:
        return value
    truth = type(value).__name__ in ("bool", "bool_")  # numpy's too, which is no number: bool_ before numpy 2
    if truth != (hint is bool) or not (truth or isinstance(value, _ACCEPTED[hint])):
        whole = hint is int and isinstance(value, Real) and float(value).is_integer()
        fix = f" Write {int(value)}." if whole and not truth else ""
        raise SettingsError(f"{name} must be of type {hint.__name__}, got {_described(value)}.{fix}")
    try:
        plain = value if type(value) is hint else hint(value)
    except OverflowError:
        plain = math.inf
    if hint is float and not math.isfinite(plain):
        raise SettingsError(f"{name} must be a finite number, got {value!r:.60}.")
    return plain


def _described(value: Any) -> str:
    return f"{value!r:.60} of type {type(value).__name__}"
