"""``desp recipes``"""

import json
from dataclasses import dataclass

from desp.cli.common import number, parse, show_table
from desp.recipes import Recipe, all_recipes, get_table


@dataclass(frozen=True)
class RecipesArguments:
    """List every recipe: its table, task, system, what is scored, expected score and training time."""

    json: bool = False
    """Print JSON."""


def run(arguments: list[str]) -> None:
    """List the recipes."""
    options = parse(RecipesArguments, arguments, "recipes", "  desp recipes\n  desp recipes --json")
    if options.json:
        print(json.dumps([_as_json(item) for item in all_recipes()], indent=2))
        return
    columns = ("recipe", "table", "task", "system", "scored", "expected", "minutes", "on", "what")
    show_table("recipes", columns, [_as_row(item) for item in all_recipes()], wrapped=["what"])


def _as_json(item: Recipe) -> dict[str, object]:
    return {
        "name": item.name,
        "table": item.table,
        "task": item.task,
        "system": item.system,
        "scored": item.scored,
        "expected": item.expected,
        "paper": _paper(item),
        "minutes": item.minutes,
        "hardware": item.hardware,
        "summary": item.summary,
    }


def _paper(item: Recipe) -> float | None:
    """The published number in the first column of the recipe's table."""
    if item.table is None:
        return None
    table = get_table(item.table)
    return table.value(item.task, item.system, table.metrics[0])


def _as_row(item: Recipe) -> tuple[str, ...]:
    return (
        item.name,
        item.table or "-",
        item.task,
        item.system,
        item.scored,
        number(item.expected),
        number(item.minutes),
        item.hardware,
        item.summary,
    )
