"""Recipes, named settings of runs, and the tables they belong to. Nothing here loads torch."""

from desp.recipes import clevr, custom, pedestrians  # noqa: F401 - importing registers the recipes
from desp.recipes.registry import Recipe, all_recipes, get_recipe, recipe
from desp.recipes.tables import Published, Table, all_tables, get_table, register_table

__all__ = [
    "Published",
    "Recipe",
    "Table",
    "all_recipes",
    "all_tables",
    "get_recipe",
    "get_table",
    "recipe",
    "register_table",
]
