"""Tables from result files, and the project's own result files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from desp.errors import RecipeError, RunError
from desp.recipes import PUBLISHED, Recipe, all_recipes, get_recipe
from desp.results import markdown_table, read_results, result_path, rows_of, table_rows, write_result
from desp.settings import RunSettings, from_json, to_json

RESULTS = Path(__file__).parents[1] / "results"


def made_up(recipe: str, seed: int, raw: float, returned: float, **more: Any) -> dict[str, Any]:
    """A result as `desp evaluate --record` writes it, reduced to what tables use."""
    return {
        "recipe": recipe,
        "seed": seed,
        "data": "generated",
        "scores": {"raw": {"score": raw}, "returned": {"score": returned, "size_rmse": 0.25}},
        "real_data": {"score": 5e-7},
        "changed_settings": [],
        **more,
    }


def by_metric(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    assert len({row["metric"] for row in rows}) == len(rows)
    return {row["metric"]: row for row in rows}


# -- rows ----------------------------------------------------------------------------------------------


def test_the_papers_protocol_scores_the_raw_output() -> None:
    rows = by_metric(rows_of([made_up("polygons-desp-paper", 0, raw=7e-5, returned=6e-5)]))
    assert rows.keys() == {"score", "score_returned", "size_rmse"}
    assert rows["score"]["value"] == 7e-5
    assert rows["score_returned"]["value"] == 6e-5
    assert rows["size_rmse"]["value"] == 0.25
    assert {row["protocol"] for row in rows.values()} == {"paper"}


def test_our_protocol_scores_the_returned_sets() -> None:
    rows = by_metric(rows_of([made_up("polygons-desp", 0, raw=7e-5, returned=6e-5)]))
    assert rows.keys() == {"score", "score_raw", "size_rmse"}
    assert rows["score"]["value"] == 6e-5
    assert rows["score_raw"]["value"] == 7e-5
    assert {row["protocol"] for row in rows.values()} == {"ours"}


def test_values_are_means_and_sample_deviations_over_seeds() -> None:
    results = [
        made_up("polygons-desp-paper", seed, raw=value, returned=1.0) for seed, value in enumerate((1, 2, 6))
    ]
    score = by_metric(rows_of(results))["score"]
    assert score["value"] == pytest.approx(3.0)
    assert score["std"] == pytest.approx(7**0.5)  # (4 + 1 + 9) / (3 - 1)
    assert score["seeds"] == [0, 1, 2]
    assert by_metric(rows_of(results[:1]))["score"]["std"] is None


def test_rows_carry_the_papers_number_and_real_data() -> None:
    rows = by_metric(rows_of([made_up("polygons-desp", 0, 1.0, 1.0)]))
    assert rows["score"]["paper"] == rows["score_raw"]["paper"] == pytest.approx(8.8e-5)
    assert rows["score"]["real_data"] == 5e-7
    assert rows["size_rmse"]["paper"] is None
    assert rows["size_rmse"]["real_data"] is None
    assert rows["score"]["data"] == "generated"


def test_a_seed_without_a_score_leaves_no_mean() -> None:
    results = [made_up("polygons-desp-paper", 0, 2.0, 1.0), made_up("polygons-desp-paper", 1, 4.0, 1.0)]
    results[1]["scores"]["raw"]["score"] = None
    score = by_metric(rows_of(results))["score"]
    assert (score["value"], score["std"], score["seeds"]) == (None, None, [0, 1])


def test_a_metric_that_one_seed_lacks_is_shown_as_unknown() -> None:
    results = [made_up("polygons-desp-paper", seed, 1.0, 1.0) for seed in (0, 1)]
    results[0]["scores"]["returned"]["kuiper"] = 0.1
    assert by_metric(rows_of(results))["kuiper"]["value"] is None


def test_no_results_no_rows() -> None:
    assert rows_of([]) == []


# -- tables --------------------------------------------------------------------------------------------


def test_every_published_cell_has_its_row() -> None:
    rows = table_rows([])
    assert len(rows) == len(PUBLISHED)
    assert all(row["value"] is None and row["std"] is None and row["seeds"] == [] for row in rows)
    assert {row["paper"] for row in rows} == {cell.value for cell in PUBLISHED}
    polygons = next(row for row in rows if (row["task"], row["system"]) == ("polygons", "desp"))
    assert polygons["recipe"] == "polygons-desp-paper"


def test_one_row_for_each_cell() -> None:
    results = [
        made_up(recipe, seed, 1e-4, 1e-4)
        for recipe in ("polygons-desp-paper", "polygons-desp", "digits-risk-chamfer", "demo")
        for seed in (0, 1)
    ]
    rows = table_rows(results)
    cells = [(row["table"], row["task"], row["system"], row["protocol"], row["metric"]) for row in rows]
    assert len(set(cells)) == len(cells)
    published = {(cell.table, cell.task, cell.system, "paper", cell.metric) for cell in PUBLISHED}
    assert published <= set(cells)
    tables = [row["table"] for row in rows]
    assert tables == sorted(tables, key=["toy", "mnist", "clevr", "celeba", None].index)
    assert {row["recipe"] for row in rows if row["table"] is None} == {"demo"}
    assert "demo" not in markdown_table(rows)


def test_a_run_with_our_settings_does_not_fill_the_papers_cell() -> None:
    rows = table_rows([made_up("polygons-desp", 0, 1e-5, 1e-5)])
    score = [row for row in rows if (row["task"], row["system"], row["metric"]) == ("polygons", "desp", "score")]
    assert sorted((row["protocol"], row["value"]) for row in score if row["value"]) == [("ours", 1e-5)]
    assert [row["value"] for row in score if row["protocol"] == "paper"] == [None]


def test_markdown_shows_what_was_measured() -> None:
    trained = {"training": {"steps": 4000}}
    rows = table_rows(
        [made_up("polygons-desp-paper", seed, 7e-5 + seed * 2e-5, 6e-5, **trained) for seed in (0, 1)]
    )
    lines = markdown_table(rows).splitlines()
    assert len(lines) == 3  # head, rule, one measured cell
    assert (
        "| polygons | `polygons-desp-paper` | score (1e-5) | 8.80 | **8.00** ± 1.41 | 0.05 | 2 | 4,000 |" in lines
    )


def trained(asked: int, steps: int | None, best: int | None = None, **more: int) -> dict[str, Any]:
    return {"training": {"steps": steps, "best_step": best, **more}, "settings": {"training": {"steps": asked}}}


@pytest.mark.parametrize(
    ("seeds", "shown"),
    [
        ([trained(57_000, 57_000, 57_000)], "57,000"),
        ([trained(57_000, 5700, 1710)], "5,700, best 1,710"),  # patience ran out: the recipe would have ended, too
        ([trained(3420, 3420, 3420)], "3,420 of 57,000"),
        ([trained(3420, 3420, 570)], "3,420 of 57,000, best 570"),
        ([trained(3420, 3420), trained(3420, 3420)], "3,420 of 57,000"),
        ([trained(570, 570), trained(3420, 3420)], "570 of 57,000; 3,420 of 57,000"),
        ([trained(570, 570, rollbacks=2), trained(570, 570, rollbacks=1)], "570 of 57,000, went back 3 x"),
        ([trained(57_000, None)], None),
    ],
)
def test_rows_tell_how_long_was_trained(seeds: list[dict[str, Any]], shown: str | None) -> None:
    results = [made_up("mnist-desp-paper", seed, 1e-4, 1e-4, **more) for seed, more in enumerate(seeds)]
    assert {row["steps"] for row in rows_of(results)} == {shown}


# -- files ---------------------------------------------------------------------------------------------


def test_results_are_written_and_read(tmp_path: Path) -> None:
    result = made_up("polygons-desp", 3, 1.0, 2.0)
    path = write_result(tmp_path, result)
    assert path == result_path(tmp_path, "polygons-desp", 3) == tmp_path / "polygons-desp-seed3.json"
    write_result(tmp_path, made_up("digits-desp", 0, 1.0, 2.0))
    assert [item["recipe"] for item in read_results(tmp_path)] == ["digits-desp", "polygons-desp"]
    assert read_results(tmp_path)[1] == result


def test_a_newer_result_replaces_the_older(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        write_result(tmp_path, made_up("polygons-desp", 0, value, value))
    (only,) = read_results(tmp_path)
    assert only["scores"]["raw"]["score"] == 2.0


def test_changed_settings_are_not_recorded(tmp_path: Path) -> None:
    changed = made_up("polygons-desp", 0, 1.0, 1.0, changed_settings=["training.steps: 12000 then, 5 now"])
    with pytest.raises(RunError, match=r"training\.steps: 12000 then, 5 now"):
        write_result(tmp_path, changed)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"recipe": "polygons-desp"}', '"word"'])
def test_damaged_files_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises(RunError, match=r"broken\.json is damaged, or no result of desp"):
        read_results(tmp_path)


def test_results_of_unknown_recipes_are_named() -> None:
    with pytest.raises(RecipeError, match="no recipe 'polygon-desp'"):
        table_rows([made_up("polygon-desp", 0, 1.0, 1.0)])


# -- the project's own results -------------------------------------------------------------------------


OWN = sorted(RESULTS.glob("*-seed*.json"))
each_result = pytest.mark.parametrize("path", OWN, ids=[path.stem for path in OWN])


@each_result
def test_a_recorded_result_is_of_an_unchanged_recipe(path: Path) -> None:
    result = json.loads(path.read_text())
    recipe = get_recipe(result["recipe"])
    assert path.name == f"{recipe.name}-seed{result['seed']}.json"
    assert (result["table"], result["task"], result["system"], result["protocol"]) == (
        recipe.table,
        recipe.task,
        recipe.system,
        recipe.protocol,
    )
    assert result["changed_settings"] == []
    saved, expected = from_json(RunSettings, result["settings"]), recipe.build()
    length = saved.training.steps
    if length < expected.training.steps and expected.training.may_end_at(length):
        expected = replace(expected, training=replace(expected.training, steps=length))
    assert result["training"]["steps"] == length or result["training"]["stopped_early"]
    for part in ("task", "predictor", "training", "matmul_precision"):
        assert getattr(saved, part) == getattr(expected, part)
    assert to_json(saved)["recipe"] == recipe.name


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
    real = result["real_data"]["score"]
    assert (real == 0) == (result["task"] == "set-mnist")  # where one answer is right
    assert 0 <= real < result["scores"]["returned"]["score"]


def test_the_projects_tables_have_one_row_for_each_cell() -> None:
    rows = table_rows(read_results(RESULTS))
    cells = [(row["task"], row["system"], row["protocol"], row["metric"]) for row in rows]
    assert len(set(cells)) == len(cells)
    assert OWN, "the project should hold results"


@pytest.mark.parametrize(
    "recipe", [recipe for recipe in all_recipes() if recipe.table], ids=lambda recipe: recipe.name
)
def test_a_recipe_tells_the_score_that_was_recorded(recipe: Recipe) -> None:
    scoring = "raw" if recipe.protocol == "paper" else "returned"
    steps = recipe.build().training.steps
    scores = [
        result["scores"][scoring]["score"]
        for result in read_results(RESULTS)
        if result["recipe"] == recipe.name and result["settings"]["training"]["steps"] == steps
    ]
    if scores:
        assert recipe.expected == pytest.approx(sum(scores) / len(scores), rel=0.05)  # rounded
    else:
        assert recipe.expected is None


@pytest.mark.parametrize("path", sorted(RESULTS.glob("ablations/*.json")), ids=lambda path: path.stem)
def test_a_recorded_ablation(path: Path) -> None:
    ablation = json.loads(path.read_text())
    assert path.name == f"{ablation['recipe']}-seed{ablation['seed']}.json"
    assert get_recipe(ablation["recipe"]).system == "desp"
    assert ablation["steps"] == get_recipe(ablation["recipe"]).build().predictor.sampler.steps
    assert {0.0, 0.8, 1.0} <= {row["ratio"] for row in ablation["rows"]}
    for row in ablation["rows"]:
        assert row["stochastic_steps"] == round(row["ratio"] * ablation["steps"])
        assert row["score"] > 0
    assert ablation["commit"]
    assert ablation["device"]
