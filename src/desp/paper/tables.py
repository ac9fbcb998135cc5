"""Tables from recorded results, with published numbers beside ours."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from desp.raw_and_returned import is_shown_twice
from desp.recipes import Table, all_recipes, all_tables, get_table
from desp.results import Row, make_row, recipe_label, rows_of, variant_of
from desp.run_lengths import epoch_words

SCORE_COLUMNS = ("task", "recipe", "metric", "paper", "raw", "returned", "real data", "n")
RUN_COLUMNS = ("recipe", "seeds", "steps", "epochs", "ended by", "roll-backs", "device", "commit")


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


def markdown_table(rows: list[Row], short: bool = True) -> str:
    """The measured cells of tables as markdown, each metric in its unit: raw output beside the paper's number, and
    the sets a user gets in a column of their own.

    Args:
        rows: of `table_rows`.
        short: the main metrics of tables alone; else every metric that was measured, and how long each recipe was
            trained.
    """
    columns = {table.name: table.columns(short) for table in all_tables()}
    shown = [
        row
        for row in rows
        if row["value"] is not None and row["table"] in columns and not is_shown_twice(row)
        if not short or row["metric"] in columns[row["table"]]
    ]
    scores = _markdown(SCORE_COLUMNS, [_cells(row) for row in shown])
    runs = [] if short else list(dict.fromkeys(_run_cells(row) for row in shown if row["steps"]))
    return f"{scores}\n\n{_markdown(RUN_COLUMNS, runs)}" if runs else scores


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (f"| {' | '.join(cells)} |" for cells in rows)
    return "\n".join([f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines])


def _cells(row: Row) -> tuple[str, ...]:
    real = "" if row["real_data"] is None else _short(row["real_data"] / row["unit"])
    ours = (_with_interval(row, "raw"), _with_interval(row, "returned"))
    numbers = (_published(row), *ours, real, str(row["n"] or ""))
    return (row["task"], _name(row), f"{row['metric']}{_unit(row['unit'])}", *numbers)


def _run_cells(row: Row) -> tuple[str, ...]:
    facts = (
        row["steps"],
        epoch_words(row),
        row["ended_by"],
        str(row["rollbacks"]),
        row["devices"],
        row["commits"],
    )
    return (_name(row), ", ".join(map(str, row["seeds"])), *facts)


def _name(row: Row) -> str:
    """The recipe; the system of a baseline that needs no training."""
    recipe, _, variant = recipe_label(row).partition(" ")
    return str(row["system"]) if row["recipe"] is None else f"`{recipe}` {variant}".strip()


def _published(row: Row) -> str:
    """The paper's number, with the spread that is printed beside it."""
    if row["paper"] is None:
        return ""
    spread = get_table(row["table"]).spread(row["task"], row["system"], row["metric"])
    return _short(row["paper"] / row["unit"]) + _half_width(None if spread is None else spread / row["unit"])


def _with_interval(row: Row, scoring: str) -> str:
    """A mean with half of its 95 % interval, if it is of several seeds, and the median, if it is known."""
    mean, half, median = (
        None if row[name] is None else row[name] / row["unit"]
        for name in (scoring, f"{scoring}_ci95", f"{scoring}_median")
    )
    if mean is None:
        return ""
    return _short(mean) + _half_width(half) + ("" if median is None else f" (median {_short(median)})")


def _half_width(half: float | None) -> str:
    return "" if half is None else f" ± {half:.0f}" if half >= 100 else f" ± {half:.2g}"


def _unit(value: float) -> str:
    """A unit behind the name of a metric."""
    if value == 0.01:
        return " (%)"
    return "" if value == 1 else f" ({value:.0e})".replace("e-0", "e-")


def _short(value: float) -> str:
    """Two decimals, one from 10 on; three significant digits below 0.1."""
    return f"{value:.3g}" if 0 < abs(value) < 0.1 else f"{value:.{1 if value >= 10 else 2}f}"
