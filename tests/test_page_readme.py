"""Numbers in sentences of the README are those of the recorded files, or of the recipes."""

import re
import statistics
from fnmatch import fnmatch

import pytest

from desp.paper.published import PUBLISHED
from desp.recipes import all_recipes, get_recipe
from shown_numbers import RECORDED, numbers, page, rows_with


def test_recipes_are_not_equal_in_cost() -> None:
    _, *shown = rows_with(page("README.md"), "| recipes | what they train | training |")
    lengths = {name: length for names, _, length in shown for name in re.findall(r"`([^`]+)`", names)}
    recipes = [item.name for item in all_recipes() if item.table == "toy"]
    for name in recipes:
        training = get_recipe(name).build().training
        (of_name,) = (length for pattern, length in lengths.items() if fnmatch(name, pattern))
        assert of_name == f"{training.steps:,} steps of {training.batch_size:,} sets", name
    assert all(any(fnmatch(name, pattern) for name in recipes) for pattern in lengths)


def test_the_papers_settings_on_polygons() -> None:
    shown = numbers(
        r"\*\*Polygons\*\*: ([\d.]+)e-5 ± ([\d.]+)e-5, where the paper has ([\d.]+)e-5 ± ([\d.]+)e-5\.",
        "README.md",
    )
    scores = [item["scores"]["raw"]["score"] for item in RECORDED if item["recipe"] == "polygons-desp-paper"]
    assert len(scores) == 3
    half_width = 4.303 * statistics.stdev(scores) / 3**0.5
    (published,) = [table.published["polygons", "desp", "score"] for table in PUBLISHED if table.name == "toy"]
    found = [statistics.fmean(scores), half_width, *published]
    assert shown == [pytest.approx(1e5 * value, abs=0.05) for value in found]
