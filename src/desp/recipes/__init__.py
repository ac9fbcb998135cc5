"""Recipes: one typed function a published cell, and the paper's numbers as data. Nothing here loads torch."""

from desp.recipes import custom, mnist, toy  # noqa: F401 - importing registers the recipes
from desp.recipes.published import PUBLISHED, PublishedCell
from desp.recipes.registry import Recipe, all_recipes, get_recipe

__all__ = ["PUBLISHED", "PublishedCell", "Recipe", "all_recipes", "get_recipe"]
