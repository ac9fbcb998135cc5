"""Packages that add methods, energies, encoders, tasks and recipes, and samplers with a method that uses them."""

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

GROUP = "desp.plugins"
# This package's own plugin, imported by name: it lies in a layer above the registries that it fills.
BUILT_IN = ("desp.paper",)


@cache
def load_plugins() -> None:
    """Import the built-in recipes, and what installed packages name as entry point of the group ``desp.plugins``.

    Importing registers: a plugin's module uses `register` of the settings families and the decorator `recipe`.
    """
    for name in BUILT_IN:
        import_module(name)
    for entry in entry_points(group=GROUP):
        entry.load()
