"""Packages outside that add methods, energies, encoders, samplers, tasks and recipes."""

from functools import cache
from importlib.metadata import entry_points

GROUP = "desp.plugins"


@cache
def load_plugins() -> tuple[str, ...]:
    """Import every module that an installed package names as entry point of the group ``desp.plugins``.

    Importing registers: a plugin's module uses `register` of the settings families and the decorator `recipe`.

    Returns:
        The names of the entry points.
    """
    found = entry_points(group=GROUP)
    for entry in found:
        entry.load()
    return tuple(entry.name for entry in found)
