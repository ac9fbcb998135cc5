"""What a page shows, and what is recorded: helpers of tests that compare them."""

import json
import re
import statistics
from pathlib import Path
from typing import Any

from desp.results import read_results

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
RECORDED = read_results(RESULTS)
COMPARED_SPANS: set[tuple[str, int, int]] = set()
"""Where the numbers stand that tests of pages have compared so far: the page, and places in its `flat` text."""
COMPARED_TABLES: set[str] = set()
"""Heads of the tables that tests of pages have read so far."""


def record(path: str) -> Any:
    """A file in `results/`."""
    return json.loads((RESULTS / path).read_text(encoding="utf-8"))


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def flat(name: str) -> str:
    """A page without its line breaks."""
    return " ".join(page(name).split())


def rows_with(text: str, first: str) -> list[list[str]]:
    """The cells of a table's rows, of the table whose head begins with `first`; the head is the first."""
    found = text.index(first)
    lines = text[found : text.index("\n\n", found)].splitlines()
    COMPARED_TABLES.add(lines[0])
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("|")]
    return [cells[0], *cells[2:]]


def mean(recipe: str, data: str | None, scoring: str, metric: str) -> tuple[float, int]:
    """Over all recorded seeds, and how many there are."""
    results = [item for item in RECORDED if (item["recipe"], item.get("data_source")) == (recipe, data)]
    values = [item["scores"][scoring][metric] for item in results]
    return statistics.fmean(values), len(values)


def same(shown: str, value: float) -> bool:
    """Whether a number is the value, rounded as it is shown."""
    places = len(shown.partition(".")[2])
    return abs(float(shown) - value) <= 0.5000001 * 10**-places


def numbers(pattern: str, name: str) -> list[float]:
    """What the groups of a pattern find in a page, whatever its line breaks."""
    found = re.search(pattern, flat(name))
    assert found is not None, f"{name} no longer says: {pattern}"
    COMPARED_SPANS.update((name, *found.span(group + 1)) for group in range(len(found.groups())))
    return [float(group.replace(",", "")) for group in found.groups()]
