"""What a page shows, and what is recorded: helpers of tests that compare them."""

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from desp.paper.published import PUBLISHED
from desp.results import read_results

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
RECORDED = read_results(RESULTS)
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
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


def trainings_with_the_papers_settings() -> tuple[list[float], list[float]]:
    """Raw scores on Polygons: of the main results, and of repeats of the same trainings."""
    repeated = [item for folder in sorted((RESULTS / "engines").iterdir()) for item in read_results(folder)]
    main, again = (
        [item["scores"]["raw"]["score"] for item in results if item["recipe"] == "polygons-desp-paper"]
        for results in (RECORDED, repeated)
    )
    return main, again


def same(shown: str, value: float) -> bool:
    """Whether a number is the value, rounded as it is shown."""
    places = len(shown.partition(".")[2])
    return abs(float(shown) - value) <= 0.5000001 * 10**-places


def about(value: float, places: int = 0) -> Any:
    """Equal to all numbers that are the value, rounded to some places."""
    return pytest.approx(value, abs=0.5000001 * 10**-places)


def published(task: str, system: str, metric: str) -> tuple[float, float]:
    """The paper's number and the ± printed with it."""
    cell = (task, system, metric)
    ((value, spread),) = [table.published[cell] for table in PUBLISHED if cell in table.published]
    assert spread is not None
    return value, spread


def numbers(pattern: str, name: str) -> list[float]:
    """What the groups of a pattern find in a page, whatever its line breaks."""
    found = re.search(pattern, flat(name))
    assert found is not None, f"{name} no longer says: {pattern}"
    COMPARED_SPANS.update((name, *found.span(group + 1)) for group in range(len(found.groups())))
    return [float(group.replace(",", "")) for group in found.groups()]
