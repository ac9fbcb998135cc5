"""Tables from result files."""

from dataclasses import replace
from typing import Any

import pytest

from desp.errors import SettingsError
from desp.paper import PUBLISHED
from desp.paper.tables import markdown_table, table_rows
from desp.recipes import get_recipe, get_table, registry
from desp.results import (
    ablation_headings,
    metric_facts,
    metric_label,
    rows_of,
)
from desp.settings import RunSettings
from made_up_results import made_up

CELLS = {(table.name, *cell): value for table in PUBLISHED for cell, (value, _) in table.published.items()}


def by_metric(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    assert len({row["metric"] for row in rows}) == len(rows)
    return {row["metric"]: row for row in rows}


# -- rows ----------------------------------------------------------------------------------------------


def test_rows_of_a_comparison_say_how_many_seeds_they_are_of() -> None:
    system = {"energy_score": 0.5, "single_error": 0.7}
    comparison = {"systems": {"desp": system, "knn": system}}
    results = [made_up("custom", seed, 1.0, 1.0, comparison=comparison) for seed in (0, 1)]
    compared = [row for row in rows_of(results) if row.get("compared")]
    assert [row["n"] for row in compared] == [2] * 4


def test_the_papers_recipes_score_the_raw_output() -> None:
    rows = by_metric(rows_of([made_up("polygons-desp-paper", 0, raw=7e-5, returned=6e-5)]))
    assert rows.keys() == {"score", "score_returned", "size_rmse"}
    assert rows["score"]["value"] == 7e-5
    assert rows["score_returned"]["value"] == 6e-5
    assert rows["size_rmse"]["value"] == 0.25
    assert {row["scored"] for row in rows.values()} == {"raw"}


def test_our_recipes_score_the_returned_sets() -> None:
    rows = by_metric(rows_of([made_up("polygons-desp", 0, raw=7e-5, returned=6e-5)]))
    assert rows.keys() == {"score", "score_raw", "size_rmse"}
    assert rows["score"]["value"] == 6e-5
    assert rows["score_raw"]["value"] == 7e-5
    assert {row["scored"] for row in rows.values()} == {"returned"}


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
    paper = by_metric(rows_of([made_up("polygons-desp-paper", 0, 1.0, 1.0)]))
    assert paper["score_returned"]["paper"] == pytest.approx(8.8e-5)
    assert rows["score"]["real_data"] == 5e-7
    assert rows["size_rmse"]["paper"] is None
    assert rows["size_rmse"]["real_data"] is None
    assert rows["score"]["data"] == "generated"


def test_real_data_are_averaged_over_seeds() -> None:
    """Those that say nothing of it are left out."""
    results = [
        made_up("polygons-desp-paper", seed, 1.0, 1.0, real_data=real)
        for seed, real in enumerate(({"score": 1e-5}, {"score": 4e-5}, {}))
    ]
    assert by_metric(rows_of(results))["score"]["real_data"] == pytest.approx(2.5e-5)
    assert by_metric(rows_of(results[::-1]))["score"]["real_data"] == pytest.approx(2.5e-5)
    assert by_metric(rows_of(results[2:]))["score"]["real_data"] is None


def test_a_row_names_its_evaluation_protocol() -> None:
    def protocol(recipe: str, **more: Any) -> str:
        return str(rows_of([made_up(recipe, 0, 1.0, 2.0, **more)])[0]["protocol"])

    assert protocol("digits-desp", protocol={"name": "full"}) == "full"
    assert protocol("digits-desp", protocol="ours") == "full"  # as older files have it
    assert protocol("digits-desp", protocol={"name": "quick"}) == "quick"


def test_own_data_name_the_method_that_was_used() -> None:
    result = made_up("custom", 0, 1.0, 1.0)
    for kind, system in (("energy-denoising", "denoising"), ("tagger", "tagger")):
        of_run = {**result, "settings": {"method": {"kind": kind}}}
        assert rows_of([of_run])[0]["system"] == system


def test_a_part_of_the_examples_is_a_task_of_its_own() -> None:
    scores = {"score": 0.7, "f1": 0.7, "ambiguous/f1": 0.6, "ambiguous/recall": 0.5}
    result = made_up("celeba-desp-paper", 0, 1.0, 1.0, real_data={"ambiguous/f1": 1.0})
    rows = rows_of([{**result, "scores": {"raw": scores, "returned": scores}}])
    found = {(row["task"], row["metric"]): row for row in rows}
    assert found["all", "f1"]["value"] == 0.7
    assert found["all", "f1"]["paper"] == pytest.approx(0.76)
    ambiguous = found["ambiguous", "f1"]
    assert (ambiguous["value"], ambiguous["real_data"], ambiguous["direction"]) == (0.6, 1.0, "higher")
    assert ambiguous["paper"] == pytest.approx(0.66)
    assert found["ambiguous", "f1_returned"]["value"] == 0.6
    left = [row for row in table_rows([]) if row["table"] == "celeba"]
    measured = [row for row in table_rows([{**result, "scores": {"raw": scores}}]) if row["table"] == "celeba"]
    assert len(left) == 12  # precision, recall and F1 of two systems and two tasks
    assert {row["recipe"] for row in left} == {"celeba-desp-paper", "celeba-tagger"}
    assert {metric_label(row) for row in left} >= {"f1", "ambiguous/f1"}
    cells = [(row["task"], row["system"], row["metric"]) for row in measured]
    assert len(set(cells)) == len(cells) == 12 + 1  # the score is not published


def test_a_row_names_its_recipe() -> None:
    (row,) = (row for row in rows_of([made_up("digits-risk-chamfer", 4, 1.0, 2.0)]) if row["metric"] == "score")
    assert row == {
        "table": "toy",
        "task": "digits",
        "system": "risk-chamfer",
        "recipe": "digits-risk-chamfer",
        "variant": None,
        "scored": "raw",
        "protocol": "full",
        "metric": "score",
        "unit": 1e-5,
        "direction": "lower",
        "value": 1.0,
        "std": None,
        "ci95": None,
        "n": 1,
        "raw": 1.0,
        "raw_ci95": None,
        "raw_median": None,
        "returned": 2.0,
        "returned_ci95": None,
        "returned_median": None,
        "seeds": [4],
        "steps": None,
        "epochs": [None],
        "ended_by": "unknown",
        "rollbacks": "unknown",
        "devices": "unknown",
        "commits": "unknown (source unknown)",
        "paper": pytest.approx(2.4e-5),
        "real_data": 5e-7,
        "data": "generated",
    }


def test_the_table_s_own_numbers_come_first() -> None:
    result = made_up("polygons-desp", 0, 1.0, 2.0)
    result["scores"] = {"raw": {"b": 1, "score": 2, "a": 3}, "returned": {"kuiper": 4, "score": 5, "a": 6}}
    assert [row["metric"] for row in rows_of([result])] == ["score", "a", "kuiper", "score_raw", "a_raw", "b"]


def test_a_seed_without_a_score_leaves_no_mean() -> None:
    results = [made_up("polygons-desp-paper", 0, 2.0, 1.0), made_up("polygons-desp-paper", 1, 4.0, 1.0)]
    results[1]["scores"]["raw"]["score"] = None
    score = by_metric(rows_of(results))["score"]
    assert (score["value"], score["std"], score["seeds"]) == (None, None, [0, 1])


def test_a_metric_that_older_files_lack_is_of_the_others() -> None:
    """One that could not be had is null, and hides in no mean."""
    results = [made_up("polygons-desp-paper", seed, 1.0, 1.0) for seed in (0, 1, 2)]
    for result, value in zip(results[:2], (0.1, 0.3), strict=True):
        result["scores"]["returned"]["kuiper"] = value
    for some in (results, results[::-1]):
        row = by_metric(rows_of(some))["kuiper"]
        assert (row["value"], row["returned"], row["n"], len(row["seeds"])) == (*[pytest.approx(0.2)] * 2, 2, 3)
        assert by_metric(rows_of(some))["score"]["n"] == 3
    shown = markdown_table(rows_of(results), short=False)
    assert "| kuiper |  |  | 0.20 ± 1.3 |  | 2 |" in shown
    results[2]["scores"]["returned"]["kuiper"] = None
    row = by_metric(rows_of(results))["kuiper"]
    assert (row["value"], row["returned"], row["n"]) == (None, None, 3)


def test_raw_and_returned_stand_side_by_side_in_every_recipe_s_row() -> None:
    for recipe in ("polygons-desp-paper", "polygons-desp"):
        results = [made_up(recipe, seed, raw=7e-5 + seed * 2e-5, returned=6e-5) for seed in (0, 1)]
        for seed, result in enumerate(results):
            result["scores"]["returned"]["score_median"] = 4e-5 + seed * 2e-5
        rows = by_metric(rows_of(results))
        score = rows["score"]
        assert (score["raw"], score["returned"], score["n"]) == (pytest.approx(8e-5), pytest.approx(6e-5), 2)
        assert score["raw_ci95"] == pytest.approx(12.706e-5, rel=1e-3)
        assert score["returned_ci95"] == pytest.approx(0.0)
        assert (score["raw_median"], score["returned_median"]) == (None, pytest.approx(5e-5))
        assert rows["size_rmse"]["raw"] is None
        shown = markdown_table(list(rows.values()))
        assert "| 8.80 ± 1.5 | 8.00 ± 13 | 6.00 ± 0 (median 5.00) |" in shown
        everything = markdown_table(list(rows.values()), short=False)
        assert "size_rmse" in everything
        assert "score_raw" not in everything
        assert "score_returned" not in everything


def test_no_results_no_rows() -> None:
    assert rows_of([]) == []


# -- tables --------------------------------------------------------------------------------------------


def test_every_published_cell_has_its_row() -> None:
    rows = table_rows([])
    assert len(rows) == len(CELLS)
    assert all(row["value"] is None and row["std"] is None and row["seeds"] == [] for row in rows)
    assert {row["paper"] for row in rows} == set(CELLS.values())
    polygons = next(row for row in rows if (row["task"], row["system"]) == ("polygons", "desp"))
    assert polygons["recipe"] == "polygons-desp-paper"


def test_one_row_for_each_cell() -> None:
    results = [
        made_up(recipe, seed, 1e-4, 1e-4)
        for recipe in ("polygons-desp-paper", "polygons-desp", "digits-risk-chamfer", "demo")
        for seed in (0, 1)
    ]
    rows = table_rows(results)
    cells = [(row["table"], row["task"], row["system"], row["scored"], row["metric"]) for row in rows]
    assert len(set(cells)) == len(cells)
    published = {(table, task, system, "raw", metric) for table, task, system, metric in CELLS}
    assert published <= set(cells)
    tables = [row["table"] for row in rows]
    assert tables == sorted(tables, key=["toy", "mnist", "clevr", "celeba", None].index)
    assert {row["recipe"] for row in rows if row["table"] is None} == {"demo"}
    assert "demo" not in markdown_table(rows)


def test_a_run_with_our_settings_does_not_fill_the_papers_cell() -> None:
    rows = table_rows([made_up("polygons-desp", 0, 1e-5, 1e-5)])
    score = [row for row in rows if (row["task"], row["system"], row["metric"]) == ("polygons", "desp", "score")]
    assert sorted((row["scored"], row["value"]) for row in score if row["value"]) == [("returned", 1e-5)]
    assert [row["value"] for row in score if row["scored"] == "raw"] == [None]


def test_markdown_shows_what_was_measured() -> None:
    trained = {"training": {"steps": 4000}}
    rows = table_rows(
        [made_up("polygons-desp-paper", seed, 7e-5 + seed * 2e-5, 6e-5, **trained) for seed in (0, 1)]
    )
    lines = markdown_table(rows).splitlines()
    assert len(lines) == 3  # head, rule, one measured cell
    everything = markdown_table(rows, short=False).splitlines()
    assert len(everything) == 4 + 1 + 3  # another metric; the same of runs
    numbers = "8.80 ± 1.5 | 8.00 ± 13 | 6.00 ± 0 | 0.05 | 2 |"
    assert f"| polygons | `polygons-desp-paper` | score (1e-5) | {numbers}" in lines


def test_markdown_of_distances_and_sizes() -> None:
    scores = {"chamfer": 6.1e-5, "hungarian": 12.34e-5, "size_rmse_released": 0.25, "size_rmse": 1.0}
    one = made_up("mnist-desp-paper", 0, 1.0, 1.0, real_data={"chamfer": 0.0, "size_rmse_released": 0.001})
    one["scores"] = {"raw": scores, "returned": {}}
    assert markdown_table(table_rows([one])).splitlines()[2:] == [
        "| set-mnist | `mnist-desp-paper` | chamfer (1e-5) | 6.00 ± 1 | 6.10 |  | 0.00 | 1 |",
        "| set-mnist | `mnist-desp-paper` | hungarian (1e-5) | 6.00 ± 1 | 12.3 |  |  | 1 |",
        "| set-mnist | `mnist-desp-paper` | size_rmse_released | 0.002 ± 0.003 | 0.25 |  | 0.001 | 1 |",
    ]


def test_rows_are_in_the_order_of_tables_tasks_and_systems() -> None:
    names = ("mnist-tspn", "polygons-desp", "digits-risk-hungarian", "digits-denoising", "polygons-risk-chamfer")
    rows = [row for row in table_rows([made_up(name, 0, 1.0, 1.0) for name in names]) if row["value"]]
    assert list(dict.fromkeys(row["recipe"] for row in rows)) == [
        "digits-denoising",
        "digits-risk-hungarian",
        "polygons-desp",
        "polygons-risk-chamfer",
        "mnist-tspn",
    ]


def trained(asked: int, steps: int | None, best: int | None = None, **more: int) -> dict[str, Any]:
    return {"training": {"steps": steps, "kept_step": best, **more}, "settings": {"training": {"steps": asked}}}


@pytest.mark.parametrize(
    ("seeds", "shown"),
    [
        ([trained(57_000, 57_000, 57_000)], "57,000"),
        ([trained(57_000, 5700, 1710)], "5,700, best 1,710"),  # patience ran out: the recipe would have ended, too
        ([trained(57_000, 5700, 5700)], "5,700"),
        ([trained(3420, 3420, 3420)], "3,420 of 57,000"),
        ([trained(3420, 3420, 570)], "3,420 of 57,000, best 570"),
        ([trained(3420, 3420), trained(3420, 3420)], "3,420 of 57,000"),
        ([trained(570, 570), trained(3420, 3420)], "570 of 57,000; 3,420 of 57,000"),
        ([trained(57_000, None)], None),
    ],
)
def test_rows_tell_how_long_was_trained(seeds: list[dict[str, Any]], shown: str | None) -> None:
    results = [made_up("mnist-desp-paper", seed, 1e-4, 1e-4, **more) for seed, more in enumerate(seeds)]
    assert {row["steps"] for row in rows_of(results)} == {shown}


def test_variants_have_rows_of_their_own() -> None:
    plain = [made_up("polygons-desp-paper", seed, 1e-5, 1e-5) for seed in (0, 1)]
    wide = [made_up("polygons-desp-paper", seed, 3e-5, 3e-5, variant="wide") for seed in (0, 2)]
    other = [made_up("polygons-desp-paper", 0, 5e-5, 5e-5, data_source="mine", variant="wide")]
    for results in (plain + wide + other, other + wide + plain):
        rows = [row for row in table_rows(results) if row["recipe"] == "polygons-desp-paper"]
        scores = {row["variant"]: row for row in rows if row["metric"] == "score"}
        assert {name: (row["value"], row["seeds"], row["paper"] is None) for name, row in scores.items()} == {
            None: (1e-5, [0, 1], False),
            "wide": (pytest.approx(3e-5), [0, 2], True),
            "mine, wide": (5e-5, [0], True),
        }
        shown = markdown_table(rows)
        assert "| `polygons-desp-paper` (wide) |" in shown
        assert "| `polygons-desp-paper` (mine, wide) |" in shown
    # A variant alone leaves the published cell open.
    score = [row for row in table_rows(wide) if (row["task"], row["system"]) == ("polygons", "desp")]
    assert [row["value"] for row in score if row["metric"] == "score" and row["variant"] is None] == [None]


def test_units_and_directions_are_those_of_the_result() -> None:
    described = {
        "score": {"name": "score", "unit": 0.1, "direction": "higher", "text": "hits"},
        "kuiper": {"name": "kuiper", "unit": 1.0, "direction": "lower", "text": "turns"},
    }
    one = made_up("polygons-desp-paper", 0, raw=0.25, returned=0.3, metrics=described)
    one["scores"]["returned"]["kuiper"] = 0.5
    rows = by_metric(rows_of([one]))
    found = {name: (row["unit"], row["direction"]) for name, row in rows.items()}
    assert found == {
        "score": (0.1, "higher"),
        "score_returned": (0.1, "higher"),
        "kuiper": (1.0, "lower"),
        "size_rmse": (1.0, "lower"),  # not described: by its name
    }
    assert "| score (1e-1) | 0.00088 ± 0.00015 | 2.50 |" in markdown_table([rows["score"]])


@pytest.mark.parametrize(
    ("metric", "unit", "direction"),
    [
        ("score", 1e-5, "lower"),
        ("chamfer", 1e-5, "lower"),
        ("chamfer_all", 1.0, "lower"),
        ("right_size_bfloat16_code", 1.0, "higher"),
        ("nearest_neighbour_accuracy", 1.0, "near 0.5"),
        ("coverage_hungarian", 1.0, "higher"),
        ("rarest_style", 1.0, "higher"),
        ("ap50", 1.0, "higher"),
        ("maple", 1.0, None),
    ],
)
def test_metrics_of_older_results_are_known_by_name(metric: str, unit: float, direction: str | None) -> None:
    assert metric_facts(metric) == {"unit": unit, "direction": direction}


def test_older_results_call_the_neighbour_accuracy_lower() -> None:
    name = "nearest_neighbour_accuracy_hungarian"
    described = {name: {"unit": 1.0, "direction": "lower", "text": "1-NN"}}
    assert metric_facts(name, described) == {"unit": 1.0, "direction": "near 0.5", "text": "1-NN"}


@pytest.mark.parametrize("scored", ["raw", "returned"])
def test_columns_of_an_ablation_say_what_they_are_of(scored: str) -> None:
    assert ablation_headings({"scored": scored}) == {
        "score": f"score ({scored})",
        "hungarian": f"hungarian ({scored})",
        "precision": f"precision ({scored})",
        "recall": f"recall ({scored})",
        "f1": f"f1 ({scored})",
        "energy": "energy (raw)",
        "score_returned": "score (returned)",
        "size_rmse": "size_rmse (returned)",
        "size_rmse_released": "size_rmse_released (returned)",
    }
    assert ablation_headings({})["score"] == "score (raw)"  # as older files are


def test_a_published_cell_names_the_recipe_that_was_there_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_RECIPES", dict(registry._RECIPES))

    @registry.recipe(table="toy", task="polygons", system="desp", scored="raw")
    def outside_recipe() -> RunSettings:
        """Of another package."""
        return replace(get_recipe("polygons-desp-paper").build(), recipe="outside-recipe")

    cells = [row for row in table_rows([]) if (row["task"], row["system"]) == ("polygons", "desp")]
    assert {row["recipe"] for row in cells} == {"polygons-desp-paper"}


def test_a_recipe_may_belong_to_a_table_that_nobody_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_RECIPES", dict(registry._RECIPES))

    @registry.recipe(table="mine", task="polygons", system="desp", scored="raw")
    def outside_recipe() -> RunSettings:
        """Of another package."""
        return replace(get_recipe("polygons-desp").build(), recipe="outside-recipe")

    rows = table_rows([made_up("outside-recipe", 0, 1e-5, 1e-5)])
    assert {row["table"] for row in rows} == {"toy", "mnist", "clevr", "celeba", "mine"}
    assert rows[-1]["table"] == "mine"
    assert "`outside-recipe`" in markdown_table(rows)
    assert get_table("mine").metrics == ("score",)
    with pytest.raises(
        SettingsError, match=r"no table 'theirs'\. Known are: toy, mnist, clevr, celeba, pedestrians, mine"
    ):
        get_table("theirs")
