"""Numbers in sentences of the README are those of the recorded files, or of the recipes."""

import re
import statistics
from fnmatch import fnmatch

import pytest
import torch

from desp.metrics.reconstruction import batched_size_rmse
from desp.recipes import all_recipes, get_recipe
from desp.results import rows_of
from shown_numbers import (
    RECORDED,
    about,
    flat,
    numbers,
    page,
    published,
    rows_with,
    trainings_with_the_papers_settings,
)


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
    value, half_width, *in_paper = numbers(
        r"\*\*Polygons\*\*: ([\d.]+e-5) ± ([\d.]+e-5), where the paper has ([\d.]+e-5) ± ([\d.]+e-5)\.",
        "README.md",
    )
    runs = [item for item in RECORDED if item["recipe"] == "polygons-desp-paper"]
    (row,) = (row for row in rows_of(runs) if row["metric"] == "score")
    assert [value, half_width] == [about(row["raw"], 6), about(row["raw_ci95"], 6)]
    assert in_paper == [pytest.approx(number) for number in published("polygons", "desp", "score")]


def test_all_trainings_with_the_papers_settings_on_polygons() -> None:
    every, repeats, least, most, average = numbers(
        r"All (\d+) recorded trainings with these settings \((\d+) of them, of the same seeds, in "
        r"`results/engines/`\) have ([\d.]+e-5) to ([\d.]+e-5), their mean is ([\d.]+e-5)\.",
        "README.md",
    )
    main, again = trainings_with_the_papers_settings()
    assert [every, repeats] == [len(main + again), len(again)]
    found = [min(main + again), max(main + again), statistics.fmean(main + again)]
    assert [least, most, average] == [about(value, 6) for value in found]
    shown = numbers(
        r"mean of all (\d+) recorded trainings with these settings is ([\d.]+e-5) \(`results/engines/` has (\d+)",
        "docs/deviations.md",
    )
    assert shown == [every, average, repeats]


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
