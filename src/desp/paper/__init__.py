"""The paper's experiments: its recipes, numbers, tables and ablation. Importing this registers the recipes."""

from desp.paper import celeba, clevr, mnist, toy  # noqa: F401 - importing registers the recipes
from desp.paper.published import PUBLISHED

__all__ = ["PUBLISHED"]
