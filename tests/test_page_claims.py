"""Every measured number on a page is compared with the file that it comes from, by one of the tests of pages."""

import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from shown_numbers import COMPARED_SPANS, COMPARED_TABLES, PAGES, flat, page

# A number with decimals or an exponent, percentages, and times; other whole numbers are mostly seeds and counts.
MEASURED = re.compile(
    r"(?<![\w.,/-])(?:\d[\d,]*)?(?:\.\d+(?:e-?\d+)?|(?<=\d)e-\d+)(?![\w.]*[\w/])"
    r"|(?<![\w.,])\d+(?=(?:(?:,| to| and|, and| against) \d+)* %)"
    r"|(?<![\w.,])\d[\d,]*(?=(?: (?:to|and) \d+)? (?:micro)?(?:seconds|minutes))"
)
# Tables that commands print, code, and links are no text.
NO_TEXT = re.compile(
    r"<!-- (?:measured|recorded).*?<!-- end -->|```.*?```|`(?:[^`\n]|\n(?!\s*\n))+`|\]\([^)\s]+\)", re.DOTALL
)
NOT_RECORDED = re.compile(r"\((?:[\w ]+, )?not recorded\)|\(counted in the data\)")
SENTENCE_ENDS = re.compile(r"[.:;] (?=[A-Z*])|\|")

# Sections that say what is set and how things are defined. Where they name a file in `results/`, they report, too.
DEFINITIONS = {
    "docs/celeba.md": ("The task",),
    "docs/clevr.md": ("Boxes", "Average precision"),
    "docs/deviations.md": ("Loss and training", "Baselines", "Padding"),
    "docs/methods.md": ("Denoising", "Is the spread right?"),
    "docs/own-data.md": (
        "Boxes in images",
        "From Python",
        "How long it trains",
        "How good is it?",
        "Scaling",
        "Sets of different sizes",
    ),
    "docs/pedestrians.md": ("The task", "What is measured"),
}
# Numbers among the results that nothing measured. Keep each pattern as narrow as its sentence.
ON_ALL_PAGES = (r"95 % (?:confidence )?interval",)
NO_MEASUREMENTS = {
    "README.md": (r"set-MNIST distances in 1e-4 with one decimal",),  # the paper's unit
    "docs/celeba.md": (r"section 5\.5 of the paper",),
    "docs/clevr.md": (
        r"95 % of the official training images train",  # a split
        r"boxes with a confidence above \.5\)",  # a threshold
    ),
    "docs/deviations.md": (
        r"(?<=\(the paper: about )\.8",  # read off a figure of the paper
        r"resence above \.5\b",  # a threshold
    ),
    "docs/methods.md": (
        r"lower expected score: by 2 % \(Chamfer",  # compared in tests/predictor/test_energy_score.py, as it says
        r"and by 6 % \(Hungarian, four sets each",
        r"\(try \.1, and the same in",  # settings
        r"energy of real sets well below \.5\.",
    ),
    "docs/notebook.md": (r"chairs, each 2\.5 from the middle",),  # made-up data
    "docs/results.md": (
        r"better when larger are 1 or 100 %",  # perfect values
        r"worse digit; \.5: both are as frequent",
        r"are best at \.5\.",
    ),
    "docs/set-mnist.md": (r"(?:a point counts if its presence is|right size, presence) above \.5",),  # a threshold
}


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
    others = {path.stem for path in Path(__file__).parent.glob("test_page_*.py")} - {Path(__file__).stem}
    for name in sorted(others):
        for found, test in inspect.getmembers(import_module(name), inspect.isfunction):
            if found.startswith("test_"):
                for arguments in parameters(test):
                    test(**arguments)


def blank(match: re.Match[str]) -> str:
    """As long as what it replaces, so that places on the page stay."""
    return re.sub(r"\S", "_", match[0])


def blocks(name: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, list items and tables that may report measurements, and where they stand in the `flat` page."""
    place, level = 0, 0  # the level of the heading of a section of definitions; 0: outside of these
    text = page(name)
    bare = NO_TEXT.sub(blank, text)
    for found in re.finditer(r"(?:(?!\n\s*\n|\n\s*- ).)+", text, re.DOTALL):
        block, start = found[0].strip(), place
        place += len(" ".join(block.split())) + bool(block)
        words = " ".join(bare[slice(*found.span())].split())
        heading = re.match(r"(#+) (.*)", block) if words.startswith("#") else None  # and not a comment in code
        if heading:
            if level and len(heading[1]) <= level:
                level = 0
            if heading[2] in DEFINITIONS.get(name, ()):
                level = len(heading[1])
        elif block and block.splitlines()[0] not in COMPARED_TABLES and (not level or "results/" in block):
            yield start, words


def sentence(text: str, start: int, end: int) -> str:
    before = [match.end() for match in SENTENCE_ENDS.finditer(text, 0, start)]
    after = SENTENCE_ENDS.search(text, end)
    return text[max(before, default=0) : after.start() if after else len(text)]


def measured(name: str) -> Iterator[tuple[int, int]]:
    """Where a page has numbers that look measured, and are not called unrecorded in their sentence."""
    for place, words in blocks(name):
        for match in MEASURED.finditer(words):
            if not NOT_RECORDED.search(sentence(words, *match.span())):
                yield match.start() + place, match.end() + place


def among(span: tuple[int, int], spans: list[tuple[int, int]]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in spans)


@pytest.mark.usefixtures("compared")
@pytest.mark.parametrize("name", PAGES)
def test_all_measured_numbers_are_compared(name: str) -> None:
    text = flat(name)
    spans = [(start, end) for where, start, end in COMPARED_SPANS if where == name]
    left = [span for span in measured(name) if not among(span, spans)]
    for pattern in NO_MEASUREMENTS.get(name, ()):
        allowed = [match.span() for match in re.finditer(pattern, text)]
        assert any(among(span, allowed) for span in left), f"{pattern}: no longer needed"
        left = [span for span in left if not among(span, allowed)]
    everywhere = [match.span() for pattern in ON_ALL_PAGES for match in re.finditer(pattern, text)]
    left = [span for span in left if not among(span, everywhere)]
    assert left == [], "\n".join(text[max(0, start - 50) : end + 30] for start, end in left)


def test_sections_of_definitions_are_there() -> None:
    for name, headings in DEFINITIONS.items():
        assert set(headings) <= set(re.findall(r"^#+ (.*)", page(name), re.MULTILINE))


def test_what_looks_measured() -> None:
    text = "a score of .5, 1.2e-5 or 3e-4, by 13, 8 and 3 %, in 3 to 9 minutes; 4 of 20 seeds, v1.0"
    assert [match[0] for match in MEASURED.finditer(text)] == [".5", "1.2e-5", "3e-4", "13", "8", "3", "3", "9"]
