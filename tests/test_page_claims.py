"""Every measured number on a page is compared with the file that it comes from, by one of the tests of pages."""

import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from shown_numbers import COMPARED_SPANS, COMPARED_TABLES, flat, page

# Headings whose sections report measurements, with all that is below them; "" is the whole page. On every other
# page, a paragraph that names a file in `results/` reports one.
REPORTS = {
    "README.md": ("What was measured",),
    "docs/celeba.md": ("Recorded results", "Features of training faces"),
    "docs/clevr.md": ("Recorded results",),
    "docs/deviations.md": ("Where our results differ from the paper's",),
    "docs/methods.md": (),
    "docs/own-data-benchmark.md": ("Results",),
    "docs/pedestrians.md": ("Recorded results", "How the settings were chosen", "Versions of the recipes"),
    "docs/performance.md": (),
    "docs/reproduce.md": (),
    "docs/set-mnist.md": (),
}
# A number with decimals or a percentage; whole numbers are mostly seeds and counts.
MEASURED = re.compile(r"(?<![\w.,/-])(?:\d[\d,]*)?\.\d+(?:e-?\d+)?(?![\w.]*[\w/])|(?<![\w.,])\d+(?= %)")
GENERATED = re.compile(r"<!-- (?:measured|recorded).*?<!-- end -->|```.*?```", re.DOTALL)
# Settings and definitions among the results, and numbers that the text calls not recorded.
NO_MEASUREMENTS: dict[str, tuple[str, ...]] = {}


def parameters(test: Callable[..., None]) -> Iterator[dict[str, Any]]:
    """What pytest would call a test with."""
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    cases = []
    for mark in marks:
        names = [mark.args[0]] if isinstance(mark.args[0], str) else list(mark.args[0])
        rows = [value if len(names) > 1 else (value,) for value in mark.args[1]]
        cases.append([dict(zip(names, row, strict=True)) for row in rows])
    for chosen in product(*cases):
        yield {name: value for case in chosen for name, value in case.items()}


@pytest.fixture(scope="module")
def compared() -> None:
    """Run all tests of pages, which note what they compare."""
    for name in sorted(path.stem for path in Path(__file__).parent.glob("test_page_*.py")):
        if name == Path(__file__).stem:
            continue
        for found, test in inspect.getmembers(import_module(name), inspect.isfunction):
            if found.startswith("test_"):
                for arguments in parameters(test):
                    test(**arguments)


def blocks(name: str) -> Iterator[str]:
    """Paragraphs, list items and tables that report measurements."""
    level = 0  # of the heading that opened a report; 0: none
    for block in re.split(r"\n\s*\n|\n(?=\s*- )", GENERATED.sub("", page(name))):
        heading = re.match(r"(#+) (.*)", block.strip())
        if heading:
            if level and len(heading[1]) <= level:
                level = 0
            if heading[2] in REPORTS[name]:
                level = len(heading[1])
        elif block.strip() and (level or "results/" in block):
            yield block


@pytest.mark.usefixtures("compared")
@pytest.mark.parametrize("name", REPORTS)
def test_all_measured_numbers_are_compared(name: str) -> None:
    text, left = flat(name), []
    spans = [(start, end) for where, start, end in COMPARED_SPANS if where == name]
    allowed = [match.span() for pattern in NO_MEASUREMENTS.get(name, ()) for match in re.finditer(pattern, text)]
    assert all(re.search(pattern, text) for pattern in NO_MEASUREMENTS.get(name, ()))
    for block in blocks(name):
        if block.strip().splitlines()[0] in COMPARED_TABLES:
            continue
        words = " ".join(block.split())
        first = text.index(words)
        for match in MEASURED.finditer(words):
            start, end = match.start() + first, match.end() + first
            if not any(low < end and start < high for low, high in spans + allowed):
                left.append(words[max(0, match.start() - 40) : match.end() + 25])
    assert left == [], "\n".join(left)
