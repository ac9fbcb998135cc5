"""The project's own result files."""

import json
from dataclasses import replace
from math import floor, log10
from pathlib import Path
from statistics import fmean

import pytest

from desp.paper.tables import table_rows
from desp.recipes import Recipe, all_recipes, get_recipe
from desp.results import metric_facts, protocol_name, read_results, result_path
from desp.settings import LangevinSettings, RunSettings, from_json, migrate_run, to_json

RESULTS = Path(__file__).parents[1] / "results"
OWN = sorted(RESULTS.glob("*-seed*.json"))
each_result = pytest.mark.parametrize("path", OWN, ids=[path.stem for path in OWN])


@each_result
def test_a_recorded_result_is_of_an_unchanged_recipe(path: Path) -> None:
    result = json.loads(path.read_text())
    recipe = get_recipe(result["recipe"])
    assert path == result_path(RESULTS, recipe.name, result["seed"], result.get("data_source"))
    # Older ones say by the key `protocol` what is scored.
    older = {"paper": "raw", "ours": "returned"}.get(str(result.get("protocol")))
    assert (result["table"], result["task"], result["system"], result.get("scored", older)) == (
        recipe.table,
        recipe.task,
        recipe.system,
        recipe.scored,
    )
    assert result["changed_settings"] == []
    saved, expected = from_json(RunSettings, migrate_run(result["settings"])), recipe.build()
    length = saved.training.steps
    if length < expected.training.steps and expected.training.is_exact_prefix(length):
        expected = replace(expected, training=replace(expected.training, steps=length))
    expected = replace(expected, task=expected.task.with_data_of(saved.task))
    assert result["training"]["steps"] == length or result["training"]["stopped_early"]
    for part in ("task", "method", "representation", "training", "matmul_precision"):
        assert getattr(saved, part) == getattr(expected, part)
    assert to_json(saved)["recipe"] == recipe.name


@pytest.mark.parametrize("recipe", all_recipes(), ids=lambda recipe: recipe.name)
def test_the_score_to_expect_is_the_mean_of_the_recorded_ones(recipe: Recipe) -> None:
    """To two digits; on CLEVR of the re-rendered images, where there are results on them."""
    if recipe.expected is None or recipe.table is None:
        return
    results = [result for path in OWN if (result := json.loads(path.read_text()))["recipe"] == recipe.name]
    recorded = [result for result in results if result.get("data_source") == "re-rendered"] or results
    mean = fmean(result["scores"][recipe.scored]["score"] for result in recorded)
    assert recipe.expected == pytest.approx(mean, abs=0.51 * 10 ** (floor(log10(mean)) - 1))


@each_result
def test_a_recorded_result_says_where_it_comes_from(path: Path) -> None:
    result = json.loads(path.read_text())
    for part in ("training", "evaluation"):
        facts = result[part]
        assert len(facts["commit"]) == 40
        assert int(facts["commit"], 16) >= 0
        assert facts["device"]
        assert facts["versions"]["torch"]
        assert facts["versions"]["python"]
        assert facts["seconds"] > 0
        assert facts["peak_memory_mb"] > 0
    assert f"train {result['recipe']}" in result["training"]["command"]
    assert "evaluate" in result["evaluation"]["command"]
    for scoring in ("raw", "returned"):
        assert 0 < result["scores"][scoring]["score"] < 1
    if result["table"] == "pedestrians":  # one future of many is known, so nothing says what a perfect model gets
        assert result["real_data"].keys() == {"collisions"}
        return
    real, ours = result["real_data"]["score"], result["scores"]["returned"]["score"]
    if metric_facts("score", result.get("metrics"))["direction"] == "higher":
        assert ours < real == 1
        return
    assert (real == 0) == (result["task"] == "set-mnist")  # where one answer is right
    assert 0 <= real < ours


@each_result
def test_a_recorded_result_is_of_the_full_protocol_and_its_metrics_are_known(path: Path) -> None:
    result = json.loads(path.read_text())
    assert protocol_name(result) == "full"
    for scores in result["scores"].values():
        assert all(metric_facts(name, result.get("metrics"))["direction"] for name in scores)


def test_the_projects_tables_have_one_row_for_each_cell() -> None:
    rows = table_rows(read_results(RESULTS))
    cells = [(row["task"], row["system"], row["scored"], row["metric"], row["data"]) for row in rows]
    assert len(set(cells)) == len(cells)
    assert OWN, "the project should hold results"


@pytest.mark.parametrize(
    "recipe", [recipe for recipe in all_recipes() if recipe.table], ids=lambda recipe: recipe.name
)
def test_a_recipe_tells_the_score_that_was_recorded(recipe: Recipe) -> None:
    """On data from where the recipe has them by default, if such were recorded."""
    usual = to_json(recipe.build())
    recorded = [
        result
        for result in read_results(RESULTS)
        if result["recipe"] == recipe.name
        and result["settings"]["training"]["steps"] == usual["training"]["steps"]
    ]
    source = usual["task"].get("source")
    of_source = [result for result in recorded if result["settings"]["task"].get("source") == source]
    scores = [result["scores"][recipe.scored]["score"] for result in of_source or recorded]
    if scores:
        assert recipe.expected == pytest.approx(sum(scores) / len(scores), rel=0.05)  # rounded
    else:
        assert recipe.expected is None


@pytest.mark.parametrize("path", sorted(RESULTS.glob("ablations/*.json")), ids=lambda path: path.stem)
def test_a_recorded_ablation(path: Path) -> None:
    ablation = json.loads(path.read_text())
    assert path == result_path(
        path.parent, ablation["recipe"], ablation["seed"], ablation.get("data_source"), None
    )
    assert get_recipe(ablation["recipe"]).system == "desp"
    sampler = get_recipe(ablation["recipe"]).build().method.prediction_sampler
    assert isinstance(sampler, LangevinSettings)
    assert ablation["steps"] == sampler.steps
    assert {0.0, 0.8, 1.0} <= {row["ratio"] for row in ablation["rows"]}
    for row in ablation["rows"]:
        assert row["stochastic_steps"] == round(row["ratio"] * ablation["steps"])
        assert row["score"] > 0
    assert ablation["commit"]
    assert ablation["device"]
