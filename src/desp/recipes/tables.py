"""Tables of results: which metrics they show, and the published numbers beside them."""

from dataclasses import dataclass, field

from desp.errors import SettingsError
from desp.plugins import load_plugins
from desp.recipes.registry import all_recipes

Published = dict[tuple[str, str, str], tuple[float, float | None]]
"""By task, system and metric: a published number, and the spread printed with it."""


@dataclass(frozen=True)
class Table:
    """What recipes of one table are compared by.

    Attributes:
        name: what recipes call it.
        title: what stands above it.
        metrics: its columns; `paper` in `desp recipes --json` is the published number of the first one, which need
            not be `score`.
        published: what others reported, unscaled (8.8e-5, not 8.8).
        main_metrics: the columns of a short table; all if there are none.
    """

    name: str
    title: str
    metrics: tuple[str, ...] = ("score",)
    published: Published = field(default_factory=dict)
    main_metrics: tuple[str, ...] = ()

    def columns(self, short: bool = False) -> tuple[str, ...]:
        """The metrics it shows."""
        return self.main_metrics if short and self.main_metrics else self.metrics

    def value(self, task: str, system: str, metric: str) -> float | None:
        """The published number of a cell; None if there is none."""
        return self.published.get((task, system, metric), (None, None))[0]

    def spread(self, task: str, system: str, metric: str) -> float | None:
        """What stands behind ± in a published cell; None if nothing does."""
        return self.published.get((task, system, metric), (None, None))[1]


_TABLES: dict[str, Table] = {}


def register_table(table: Table) -> None:
    """Make a table known; a recipe may also name one that is not, which then has the column `score` alone."""
    _TABLES[table.name] = table


def all_tables() -> list[Table]:
    """Every table that was registered, those with published numbers first; then those that only recipes name."""
    load_plugins()
    named = {item.table for item in all_recipes() if item.table is not None}
    registered = sorted(_TABLES.values(), key=lambda table: not table.published)
    return [*registered, *(Table(name, name) for name in sorted(named - set(_TABLES)))]


def get_table(name: str) -> Table:
    """The table called `name`.

    Raises:
        SettingsError: there is none.
    """
    known = {table.name: table for table in all_tables()}
    if name not in known:
        raise SettingsError(f"There is no table '{name}'. Known are: {', '.join(known)}.")
    return known[name]
