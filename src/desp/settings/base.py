"""What all settings share: checked values, and variants that are found by their kind."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal, Self, TypeVar

from desp.errors import SettingsError
from desp.settings.types import Checked

Pooling = Literal["fspool", "softmax", "mean", "sum"]
Distance = Literal["chamfer", "hungarian"]
Engine = Literal["auto", "eager", "compiled", "graph"]
Device = Literal["auto", "cpu", "cuda"]
InputKind = Literal["vector", "set", "image"]
Initialisation = Literal["default", "xavier"]
MatmulPrecision = Literal["highest", "high", "medium"]

V = TypeVar("V", bound="Variant")


def require_setting(condition: bool, setting: str, expected: str, got: object) -> None:
    """Refuse a value that cannot work.

    Raises:
        SettingsError: `condition` is false.
    """
    if not condition:
        raise SettingsError(f"{setting} must be {expected}, got {got!r}.")


def require_positive(settings: object, *names: str) -> None:
    """Refuse values of 0 and below.

    Raises:
        SettingsError: one of them is.
    """
    for name in names:
        require_setting(getattr(settings, name) > 0, name, "positive", getattr(settings, name))


def require_not_negative(settings: object, *names: str) -> None:
    """Refuse values below 0.

    Raises:
        SettingsError: one of them is.
    """
    for name in names:
        require_setting(getattr(settings, name) >= 0, name, "at least 0", getattr(settings, name))


def require_divisor(heads: int, hidden: int) -> None:
    """Refuse a number of attention heads that does not divide the width.

    Raises:
        SettingsError: it does not.
    """
    require_setting(hidden % heads == 0, "heads", f"a divisor of hidden ({hidden})", heads)


def require_variant(settings: "Variant", expected: type[V], setting: str) -> V:
    """`settings`, checked to be of the variant that a method needs.

    Raises:
        SettingsError: they are of another one.
    """
    if not isinstance(settings, expected):
        raise SettingsError(f"{setting} must be of kind '{expected.kind}' for this method, got '{settings.kind}'.")
    return settings


@dataclass(frozen=True)
class Variant(Checked):
    """Settings of one variant of a method, an energy, a sampler, an encoder or a task.

    Each of these five is a family: a class directly below this one. A variant is a dataclass below its family. It
    is registered with its kind, the name in files and on the command line, and with what it builds, which is
    imported only then: settings know no torch. A package outside registers its own in the same way.
    """

    kind: ClassVar[str] = ""
    target: ClassVar[str] = ""
    """What `load` imports, as ``module:name``; none for samplers, which methods build."""
    summary: ClassVar[str] = ""
    """In a few words, for lists of all kinds."""

    @classmethod
    def register(cls, kind: str, target: str = "") -> Callable[[type[V]], type[V]]:
        """Make the decorated settings class the variant `kind` of this family.

        Raises:
            SettingsError: another class has that name already.
        """

        def add(variant: type[V]) -> type[V]:
            known = _FAMILIES.setdefault(variant.family(), {})
            taken = known.get(kind)
            # A module that is reloaded registers its own class again.
            if taken is not None and _full_name(taken) != _full_name(variant):
                raise SettingsError(
                    f"{_full_name(variant)} cannot be the {variant.family().__name__} '{kind}': there is "
                    f"{_full_name(taken)} already. Choose another name."
                )
            variant.kind, variant.target = kind, target
            known[kind] = variant
            return variant

        return add

    @classmethod
    def family(cls) -> type["Variant"]:
        """The class directly below `Variant`."""
        return next(base for base in reversed(cls.__mro__) if issubclass(base, Variant) and base is not Variant)

    @classmethod
    def kinds(cls) -> dict[str, type[Self]]:
        """All registered variants of this class by kind, installed packages included."""
        from desp.plugins import load_plugins

        load_plugins()
        return {kind: item for kind, item in _FAMILIES.get(cls.family(), {}).items() if issubclass(item, cls)}

    def load(self) -> Any:
        """The class or function that builds it from these settings."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)


def _full_name(variant: type[Variant]) -> str:
    return f"{variant.__module__}.{variant.__qualname__}"


_FAMILIES: dict[type[Variant], dict[str, type[Any]]] = {}
