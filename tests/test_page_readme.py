"""Numbers in sentences of the README are those of the recorded files, or of the recipes."""

import re
import statistics
from fnmatch import fnmatch

import pytest
import torch

from desp.metrics.reconstruction import batched_size_rmse
from desp.recipes import all_recipes, get_recipe
from shown_numbers import RECORDED, about, flat, numbers, page, published, rows_with


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
    found = [statistics.fmean(scores), half_width, *published("polygons", "desp", "score")]
    assert shown == [pytest.approx(1e5 * value, abs=0.05) for value in found]


def test_the_papers_settings_on_set_mnist() -> None:
    epochs, most, *errors = numbers(
        r"one shortened run, (\d+) of at most (\d+) epochs\. Both distances are within the paper's ±; "
        r"the error of the set size is (\.\d+) where the paper has (\.\d+) ± (\.\d+)\.",
        "README.md",
    )
    (run,) = (item for item in RECORDED if item["recipe"] == "mnist-desp-paper")
    epoch = 57_000 / run["settings"]["training"]["batch_size"]
    full = get_recipe("mnist-desp-paper").build().training.steps
    assert [epochs, most] == [run["training"]["steps"] / epoch, full / epoch]
    scores = run["scores"]["raw"]
    in_paper = published("set-mnist", "desp", "size_rmse_released")
    assert errors == [about(scores["size_rmse_released"], 2), *in_paper]
    for metric in ("chamfer", "hungarian"):
        value, spread = published("set-mnist", "desp", metric)
        assert abs(scores[metric] - value) < spread


def test_runs_on_set_mnist_with_other_recipes_than_ours() -> None:
    assert "Recipes other than `mnist-desp` have one run each, three of them [shortened]" in flat("README.md")
    runs = [item for item in RECORDED if item["table"] == "mnist" and item["recipe"] != "mnist-desp"]
    assert len({item["recipe"] for item in runs}) == len(runs)
    full = {item["recipe"]: get_recipe(item["recipe"]).build().training.steps for item in runs}
    assert sum(item["training"]["steps"] < full[item["recipe"]] for item in runs) == 3


def test_one_digit_whose_size_is_off_by_one() -> None:
    sizes = torch.full((1000,), 100)
    released = batched_size_rmse(torch.cat([sizes[:1] + 1, sizes[1:]]), sizes)
    (shown,) = numbers(r"`size_rmse_released` of (\.\d+) is one digit in 1,000 whose size is off", "README.md")
    assert shown == about(released, 2)
    both = numbers(
        r"that is off by one is (\.\d+) in `size_rmse_released` and (\.\d+) in `size_rmse`", "docs/set-mnist.md"
    )
    assert both == [about(released, 3), about(1000**-0.5, 3)]


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_the_oldest_python(name: str) -> None:
    assert numbers(r"Python (3\.\d+) or newer", name) == numbers(
        r'requires-python = ">=(3\.\d+)"', "pyproject.toml"
    )
