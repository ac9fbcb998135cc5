"""The checker behind live shape checks, in a module of its own as jaxtyping asks for it by name."""

import re
from collections import Counter
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

import beartype
import beartype.typing
import jaxtyping
from torch import Tensor

# Whole numbers pass where floats are asked for, as everywhere in Python; `Self` is not understood there. What is
# wrong is a TypeError, as jaxtyping's are.
check = beartype.beartype(
    conf=beartype.BeartypeConf(
        is_pep484_tower=True,
        hint_overrides=beartype.FrozenDict({beartype.typing.Self: object}),
        violation_type=TypeError,
    )
)
# How often an inner function is checked in one test, of the times it is defined.
DEFINITIONS = 4
_defined: Counter[Any] = Counter()
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


_jaxtyped = jaxtyping.jaxtyped
# Shapes, and names in quotes, which beartype by itself looks for where they may not be imported.
_NOT_PLAIN = re.compile(r"\[(Tensor|ndarray)\b|ForwardRef|: '")


def jaxtyped(decorated: Any = None, **options: Any) -> Any:
    """In place of jaxtyping's: functions without shapes are checked by beartype alone, at a ninth of the time.

    Inner functions stay with jaxtyping: their checks are kept. In each test their first definitions are checked:
    a training run may define one in every step.
    """
    if decorated is None:
        return lambda later: jaxtyped(later, **options)
    if not isinstance(decorated, FunctionType):
        return _jaxtyped(decorated, **options)
    if "<locals>" in decorated.__qualname__:
        name = (Test.number, decorated.__module__, decorated.__qualname__)
        _defined[name] += 1
        return _jaxtyped(decorated, **options) if _defined[name] <= DEFINITIONS else decorated
    if _NOT_PLAIN.search(repr(decorated.__annotations__)):
        return _once(decorated, _jaxtyped(decorated, **options))
    return _switched(decorated, check(decorated))


def _switched(function: Callable[..., Any], with_checks: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with its checks, unless jaxtyping's are off."""

    @wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        return (function if jaxtyping.config.jaxtyping_disable else with_checks)(*given, **named)

    return called


class Test:
    """The number of the test that runs."""

    number = 0


def _once(function: Callable[..., Any], with_checks: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with its checks, once in a test for the same objects and shapes, unless jaxtyping's are off.

    A training run calls the same functions thousands of times with the same shapes, and a check takes longer than
    most functions do.
    """
    test, seen = 0, set[Any]()

    @wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        nonlocal test
        if jaxtyping.config.jaxtyping_disable:
            return function(*given, **named)
        if test != Test.number:
            test = Test.number
            seen.clear()
        key = (*map(_like, given), *map(_like, named.values()), *named)
        if key in seen:
            return function(*given, **named)
        result = with_checks(*given, **named)
        seen.add(key)
        return result

    return called


def _like(argument: Any) -> Any:
    """What a check sees of an argument: shape and type of a tensor, the value of an int or a string; other objects
    are told apart one by one."""
    if isinstance(argument, Tensor):
        return argument.shape, argument.dtype
    if isinstance(argument, float):
        return float
    if isinstance(argument, list | tuple):
        return tuple(map(_like, argument))
    return argument if isinstance(argument, int | str | None) else id(argument)
