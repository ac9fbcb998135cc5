"""``desp recipes``"""

import json
from dataclasses import dataclass, fields

from desp.cli.common import number, parse, show_table
from desp.recipes import Recipe, all_recipes, get_table

# Columns that a narrow terminal has no place for, in this order. Minutes mean nothing without the hardware.
_LEAST_NEEDED = ("system", "scored", "table", "task", ("minutes", "hardware"), "expected")


@dataclass(frozen=True)
class _RecipesArguments:
    """List every recipe: its table, task, system, which sets are scored (raw: the sampler's padded output,
    returned: the sets that a user gets), expected score and training time.

    Expected scores are means of our recorded results of the recipe's full length: on CelebA F1 on 10,000 faces, on
    CLEVR mean AP, for boxes on re-rendered images, for states on generated scenes. Minutes of training are
    estimates for the named hardware when it does nothing else; some are upper bounds. A narrow terminal shows
    fewer columns; --json has all.
    """

    json: bool = False
    """Print JSON."""


def run(arguments: list[str]) -> None:
    """List the recipes."""
    options = parse(_RecipesArguments, arguments, "recipes", "  desp recipes\n  desp recipes --json")
    recipes = [_facts(item) for item in all_recipes()]
    if options.json:
        print(json.dumps(recipes, indent=2))
        return
    facts = ("name", "table", "task", "system", "scored", "expected", "minutes", "hardware", "summary")
    columns = ("recipe", *facts[1:])
    rows = [[number(item[name]) for name in facts] for item in recipes]
    show_table("recipes", columns, rows, wrapped=["summary"], optional=_LEAST_NEEDED)


def _facts(item: Recipe) -> dict[str, object]:
    facts = {field.name: getattr(item, field.name) for field in fields(item) if field.name != "build"}
    table = None if item.table is None else get_table(item.table)
    # The published number in the first column of the recipe's table.
    paper = None if table is None else table.value(item.task, item.system, table.metrics[0])
    return {**facts, "paper": paper, "summary": item.summary}
