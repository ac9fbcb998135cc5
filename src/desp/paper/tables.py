"""Tables from recorded results, with published numbers beside ours."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from desp.recipes import Table, all_recipes, all_tables
from desp.results import Row, make_row, recipe_label, rows_of, variant_of


def table_rows(results: list[dict[str, Any]], baselines: Sequence[Row] = ()) -> list[Row]:
    """All tables: every published cell, measured or not, and what only we measure; rows of `baselines` among them.

    Results of one recipe with other data or settings have rows of their own. Recipes of no table come at the end.
    """
    groups: dict[tuple[str, str | None], list[dict[str, Any]]] = defaultdict(list)
    for result in results:
        groups[result["recipe"], variant_of(result)].append(result)
    measured = [*(row for group in groups.values() for row in rows_of(group)), *baselines]
    done = {_cell(row) for row in measured if row["scored"] == "raw" and row["variant"] is None}
    tables = all_tables()
    left = [row for table in tables for row in _published_rows(table) if _cell(row) not in done]
    order = [*(table.name for table in tables), None]
    return sorted(measured + left, key=lambda row: (order.index(row["table"]), row["task"], row["system"]))


def _cell(row: Row) -> tuple[Any, ...]:
    return row["table"], row["task"], row["system"], row["metric"]


def _published_rows(table: Table) -> list[Row]:
    """Published cells as rows without a value, with the recipe that would measure them."""
    recipes = {
        (item.task, item.system): item.name
        for item in reversed(all_recipes())
        if (item.table, item.scored) == (table.name, "raw")
    }
    # A part of the examples is a task of its own, which the recipe of the whole measures.
    of_parts = {system: name for (_, system), name in recipes.items()}
    tasks = {task for task, _ in recipes}

    def measured_by(task: str, system: str) -> str | None:
        return recipes.get((task, system)) if task in tasks else of_parts.get(system)

    return [
        make_row(table.name, task, system, metric, recipe=measured_by(task, system), paper=value)
        for (task, system, metric), (value, _) in table.published.items()
    ]


def markdown_table(rows: list[Row]) -> str:
    """The measured cells of tables as markdown, each metric in its unit."""
    lines = [
        "| task | recipe | metric | paper | ours | real data | seeds | steps |",
        "|---|---|---|---|---|---|---|---|",
    ]
    columns = {table.name: table.metrics for table in all_tables()}
    for row in rows:
        if row["value"] is None or row["metric"] not in columns.get(row["table"], ()):
            continue
        paper, ours, spread, real = (
            "" if row[name] is None else _short(row[name] / row["unit"])
            for name in ("paper", "value", "std", "real_data")
        )
        ours = f"**{ours}** ± {spread}" if spread else f"**{ours}**"
        recipe, _, variant = recipe_label(row).partition(" ")
        # What needs no training is of no recipe and no seed.
        name = row["system"] if row["recipe"] is None else f"`{recipe}` {variant}".strip()
        seeds = str(len(row["seeds"]) or "")
        cells = (
            row["task"],
            name,
            f"{row['metric']}{_unit(row['unit'])}",
            paper,
            ours,
            real,
            seeds,
            row["steps"] or "",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _unit(value: float) -> str:
    """As it stands behind a metric's name."""
    if value == 0.01:
        return " (%)"
    return "" if value == 1 else f" ({value:.0e})".replace("e-0", "e-")


def _short(value: float) -> str:
    """Two decimals, one from 10 on; three significant digits where that would leave nothing."""
    return f"{value:.3g}" if 0 < abs(value) < 0.01 else f"{value:.{1 if value >= 10 else 2}f}"
