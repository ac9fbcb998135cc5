"""The checker behind live shape checks, in a module of its own as jaxtyping asks for it by name."""

from collections.abc import Callable
from typing import Any

import beartype
import beartype.typing

# Whole numbers pass where floats are asked for, as everywhere in Python; `Self` is not understood there.
check = beartype.beartype(
    conf=beartype.BeartypeConf(
        is_pep484_tower=True, hint_overrides=beartype.FrozenDict({beartype.typing.Self: object})
    )
)
_kept: dict[Any, Callable[..., Any]] = {}


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with its arguments checked, or its result.

    jaxtyping gives no function of ours. It gives empty ones with the same signature: one that is called before
    ours, which has no type of its result, and one that is called after it with the same arguments, which need no
    second check. It gives both anew whenever an inner function is defined. Making a check takes a millisecond,
    more than most inner functions do, so checks are kept.
    """
    types = function.__annotations__
    if types.get("return", Any) is not Any:
        types.update({name: Any for name in types if name != "return"})
    defaults = (len(function.__defaults__ or ()), *(function.__kwdefaults__ or ()))
    # Types of tensors are told apart by what they say: the same words make another type each time.
    told = tuple(f"{name}: {kind!r}" for name, kind in types.items())
    key = (function.__module__, function.__qualname__, function.__code__.co_varnames, defaults, told)
    if key not in _kept:
        _kept[key] = check(function)
    return _kept[key]
