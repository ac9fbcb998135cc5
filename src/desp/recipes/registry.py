"""The list of recipes."""

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from desp.errors import SettingsError
from desp.plugins import load_plugins
from desp.settings import RunSettings

Scored = Literal["raw", "returned"]


@dataclass(frozen=True)
class Recipe:
    """Named settings of a run.

    Attributes:
        name: what to type.
        build: makes the settings.
        table: the table it belongs to, such as one of the paper; None if to none.
        task: its row group in tables: usually the task; for pedestrians the scene, for CelebA `all` (beside
            `ambiguous`, a part of its examples).
        system: name of the method or baseline in tables, such as desp (the paper's name of `contrastive`) or
            denoising (`energy-denoising`).
        scored: what the table's number scores: the sampler's ``raw`` output, as in the paper, or the ``returned``
            sets that are made from it, see `Evaluation`.
        expected: the score to expect, from recorded results of this length; None where there are none.
        minutes: training time, estimated from the time of a step on hardware that does nothing else; an upper
            bound where steps were timed on a shared GPU; None where it was not timed.
        hardware: what `minutes` are for.
    """

    name: str
    build: Callable[[], RunSettings]
    table: str | None
    task: str
    system: str
    scored: Scored
    expected: float | None
    minutes: float | None
    hardware: str

    @property
    def summary(self) -> str:
        """The first line of the recipe's docstring."""
        return (inspect.getdoc(self.build) or "").split("\n")[0]


_RECIPES: dict[str, Recipe] = {}


def recipe(
    *,
    table: str | None,
    task: str,
    system: str,
    scored: Scored,
    expected: float | None = None,
    minutes: float | None = None,
    hardware: str = "H200",
) -> Callable[[Callable[[], RunSettings]], Callable[[], RunSettings]]:
    """Register the decorated function as a recipe under its name, with dashes for underscores.

    Raises:
        SettingsError: when it decorates, if another module has a recipe of that name.
    """

    def register(build: Callable[[], RunSettings]) -> Callable[[], RunSettings]:
        name = build.__name__.replace("_", "-")
        # The same file may be loaded twice, as a script and as a plugin.
        if name in _RECIPES and inspect.getsourcefile(_RECIPES[name].build) != inspect.getsourcefile(build):
            raise SettingsError(
                f"There is a recipe '{name}' already, in {_RECIPES[name].build.__module__}. Rename the one in "
                f"{build.__module__}."
            )
        _RECIPES[name] = Recipe(name, build, table, task, system, scored, expected, minutes, hardware)
        return build

    return register


def all_recipes() -> list[Recipe]:
    """Every recipe, in the order of registration: this package's own, the paper's, then recipes of installed
    packages."""
    load_plugins()
    return list(_RECIPES.values())


def get_recipe(name: str) -> Recipe:
    """The recipe called `name`.

    Raises:
        SettingsError: there is none; near names are suggested.
    """
    load_plugins()
    if name not in _RECIPES:
        near = difflib.get_close_matches(name, _RECIPES, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        raise SettingsError(f"There is no recipe '{name}'. {hint}`desp recipes` lists all of them.")
    return _RECIPES[name]
