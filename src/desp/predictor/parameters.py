"""scikit-learn's interface to the arguments of a predictor."""

from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

from desp.errors import SettingsError
from desp.settings.own_data import default_representation, own_data_method

NAMES = ("method", "representation", "input_encoder", "engine", "device", "matmul_precision")


class ParametersMixin:
    """`get_params` and `set_params`; single settings are named by a path, such as ``method__sampler__steps``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments that this predictor was made with; `deep`: and each of their settings, also of a
        representation that is that of the method by default."""
        attributes = {
            "method": "method_settings",
            "device": "device_choice",
            "representation": "_representation_given",
        }
        found = {name: getattr(self, attributes.get(name, name)) for name in NAMES}
        used = found["representation"] or default_representation(found["method"])
        return {**found, **_below(found | {"representation": used})} if deep else found

    def set_params(self, **parameters: Any) -> Self:
        """Change arguments, or single settings of them; the predictor is then as new, and must be fitted.

        Settings are changed in the order in which they are passed, and checked each time: pass one that needs
        another after it.

        An `input_encoder` of your own keeps the weights that it has.

        Raises:
            SettingsError: there is no such setting, or its value cannot be used.
        """
        if not parameters:
            return self
        values = self.get_params(deep=False)
        for path, value in parameters.items():
            name, _, rest = path.partition("__")
            if name not in values:
                raise SettingsError(f"There is no parameter '{name}'. Known are: {', '.join(NAMES)}.")
            if rest and values[name] is None and name == "representation":
                values[name] = default_representation(values["method"] or own_data_method())
            values[name] = _changed(values[name], rest, value, path)
        self.__init__(**values)  # type: ignore[misc]  # as new
        return self


def _below(values: dict[str, Any]) -> dict[str, Any]:
    """All settings below these, by their paths."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if is_dataclass(value) and not isinstance(value, type):
            inner = {f"{name}__{item.name}": getattr(value, item.name) for item in fields(value)}
            found |= {**inner, **_below(inner)}
    return found


def _changed(current: Any, path: str, value: Any, whole: str) -> Any:
    """The settings with another value at a path."""
    if not path:
        return value
    name, _, rest = path.partition("__")
    known = [item.name for item in fields(current)] if is_dataclass(current) else []
    if name not in known:
        has = f"Known there are: {', '.join(known)}." if known else "There are no settings there."
        raise SettingsError(f"There is no parameter '{whole}'. {has}")
    changed = _changed(getattr(current, name), rest, value, whole)
    return replace(current, **{name: changed})
