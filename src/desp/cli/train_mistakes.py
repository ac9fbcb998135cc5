"""Mistakes in the arguments of ``desp train``, and what was probably meant."""

import os.path
import shlex
from collections.abc import Sequence

from desp.cli.run_arguments import value_of
from desp.errors import SettingsError
from desp.recipes import Recipe, get_recipe
from desp.settings import RunSettings


def named_recipe(arguments: list[str]) -> Recipe:
    """The recipe that the arguments begin with.

    Raises:
        SettingsError: there is none; a flag or a user's data may stand in its place.
    """
    first = arguments[0]
    if first.startswith("-"):
        data = value_of("--data", arguments)
        example = "desp train RECIPE --run DIR" if data is None else _on_data("custom", data)
        raise SettingsError(
            f"The name of a recipe comes first, got {first}. Expected: {example}. `desp recipes` lists recipes."
        )
    try:
        return get_recipe(first)
    except SettingsError as error:
        if not _may_be_data(first):
            raise
        raise SettingsError(f"{error} To train on the data of that name: {_on_data('custom', first)}") from error


def advice_on(unknown: Sequence[str], recipe: Recipe, settings: RunSettings, arguments: list[str]) -> str | None:
    """What to do about arguments that are not known; None where nothing is known of them.

    Args:
        unknown: these arguments.
        recipe: the one that is trained.
        settings: with the method that was chosen.
        arguments: all of them.
    """
    of_method = [item.partition("=")[0] for item in unknown if item.startswith("--method.")]
    if of_method:
        chosen = [(flag, value_of(flag, arguments)) for flag in ("--use-method", "--energy", "--answers")]
        given = [part for flag, value in chosen if value is not None for part in (flag, value)]
        return (
            f"The method is {settings.method.kind}, which has no setting {of_method[0]}. "
            f"`{shlex.join(['desp', 'train', recipe.name, *given, '--help'])}` lists its settings."
        )
    if not unknown or unknown[0][:1] in ("", "-") or value_of("--data", arguments) is not None:
        return None
    takes = settings.task.location_flag == "--data"
    if not takes and not _may_be_data(unknown[0]):
        return None
    return f"Data are named by --data: {_on_data(recipe.name if takes else 'custom', unknown[0])}"


def _may_be_data(path: str) -> bool:
    """Whether there is such a file or folder, other than a run and the present folder."""
    other = os.path.normpath(path) != "."
    return other and os.path.exists(path) and not os.path.exists(os.path.join(path, "settings.json"))


def _on_data(recipe: str, data: str) -> str:
    return shlex.join(["desp", "train", recipe, "--data", data])
