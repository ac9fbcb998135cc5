"""Result files: their names, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from desp.errors import RunError, SettingsError
from desp.paper.tables import table_rows
from desp.recipes import get_recipe
from desp.results import (
    check_recordable,
    data_slug,
    read_results,
    result_path,
    write_result,
)
from desp.settings import ClevrSettings, FilesSettings, MnistSettings
from made_up_results import made_up


def test_results_are_written_and_read(tmp_path: Path) -> None:
    result = made_up("polygons-desp", 3, 1.0, 2.0)
    path = write_result(tmp_path, result)
    assert path == result_path(tmp_path, "polygons-desp", 3) == tmp_path / "polygons-desp-seed3.json"
    write_result(tmp_path, made_up("digits-desp", 0, 1.0, 2.0))
    assert [item["recipe"] for item in read_results(tmp_path)] == ["digits-desp", "polygons-desp"]
    assert read_results(tmp_path)[1] == {**result, "variant": None}


def test_every_file_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    for seed in (10, 9, 1):
        write_result(tmp_path, made_up("digits-desp", seed, 1.0, 2.0))
    (tmp_path / "ablations").mkdir()
    (tmp_path / "ablations" / "other.json").write_text("{}")
    (tmp_path / "notes.md").write_text("no result")
    assert [item["seed"] for item in read_results(tmp_path)] == [1, 10, 9]


@pytest.mark.parametrize("name", ["recipe", "seed", "scores", "real_data"])
def test_a_result_must_be_whole(tmp_path: Path, name: str) -> None:
    result = made_up("polygons-desp", 0, 1.0, 1.0)
    del result[name]
    (tmp_path / "some.json").write_text(json.dumps(result))
    with pytest.raises(RunError, match=rf"no result of desp: it has no {name}\."):
        read_results(tmp_path)


@pytest.mark.parametrize(("changes", "variant"), [([], None), (["method.energy.hidden"], "wide")])
def test_a_newer_result_replaces_the_older(tmp_path: Path, changes: list[str], variant: str | None) -> None:
    for value in (1.0, 2.0):
        write_result(tmp_path, made_up("polygons-desp", 0, value, value, changed_settings=changes), variant)
    (only,) = read_results(tmp_path)
    assert only["scores"]["raw"]["score"] == 2.0


CHANGED = {"changed_settings": ["training.steps: 12000 then, 5 now"]}


@pytest.mark.parametrize(
    ("result", "variant", "words"),
    [
        (CHANGED, None, r"training\.steps: 12000 then, 5 now.*--variant NAME"),
        ({}, "wide", r"has the settings of the recipe .* Leave --variant out"),
        (CHANGED, "Wide!", "small letters, digits and single dashes"),
        (CHANGED, "paper", "'polygons-desp-paper' is a recipe of its own"),
        ({"protocol": {"name": "quick"}}, None, "by the protocol 'full', not 'quick'"),
    ],
)
def test_what_would_have_a_false_name_is_not_recorded(
    tmp_path: Path, result: dict[str, Any], variant: str | None, words: str
) -> None:
    with pytest.raises(RunError, match=words):
        write_result(tmp_path, made_up("polygons-desp", 0, 1.0, 1.0, **result), variant)
    assert list(tmp_path.iterdir()) == []


def test_names_hold_data_and_variant(tmp_path: Path) -> None:
    other = {"data_source": "fashion"}
    paths = [
        write_result(tmp_path, made_up("mnist-desp", 2, 1.0, 1.0)),
        write_result(tmp_path, made_up("mnist-desp", 2, 1.0, 1.0, **other)),
        write_result(tmp_path, made_up("mnist-desp", 2, 1.0, 1.0, **CHANGED), "wide-net"),
        write_result(tmp_path, made_up("mnist-desp", 2, 1.0, 1.0, **other, **CHANGED), "wide-net"),
    ]
    assert [path.name for path in paths] == [
        "mnist-desp-seed2.json",
        "mnist-desp-fashion-seed2.json",
        "mnist-desp-wide-net-seed2.json",
        "mnist-desp-fashion-wide-net-seed2.json",
    ]
    assert [item["variant"] for item in read_results(tmp_path)] == [None, "wide-net", None, "wide-net"]
    with pytest.raises(RunError, match="holds a result of other data or settings"):
        write_result(tmp_path, made_up("mnist-desp", 2, 1.0, 1.0, **CHANGED), "fashion")


def test_scores_and_ablations_do_not_replace_each_other(tmp_path: Path) -> None:
    scores = made_up("polygons-desp", 0, 1.0, 1.0)
    ablation = {**scores, "rows": []}
    path = write_result(tmp_path, scores)
    with pytest.raises(RunError, match="holds scores, not an ablation"):
        write_result(tmp_path, ablation)
    assert "rows" not in json.loads(path.read_text())
    write_result(tmp_path / "ablations", ablation)
    with pytest.raises(RunError, match="holds an ablation, not scores"):
        write_result(tmp_path / "ablations", scores)


def test_the_slug_of_data_is_for_other_data_than_the_recipes() -> None:
    own, mnist = get_recipe("custom").build(), get_recipe("mnist-desp").build()
    assert data_slug(replace(own, task=FilesSettings(path="/there/My sets_2.jsonl"))) == "my-sets-2"
    assert data_slug(replace(own, task=FilesSettings(path="/there/??.jsonl"))) == "other-data"
    assert data_slug(replace(mnist, task=MnistSettings(data_dir="/there"))) is None
    assert data_slug(replace(mnist, task=MnistSettings(dataset="fashion"))) == "fashion"
    assert data_slug(get_recipe("polygons-desp").build()) is None
    clevr = get_recipe("clevr-detector").build()
    assert data_slug(clevr) is None
    assert data_slug(clevr, "re-rendered") == "re-rendered"
    assert data_slug(replace(clevr, task=ClevrSettings(source="generated"))) == "generated"


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"recipe": "polygons-desp"}', '"word"'])
def test_damaged_files_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises(RunError, match=r"broken\.json is (damaged|no result of desp).*Record it again"):
        read_results(tmp_path)


def test_results_of_unknown_recipes_are_named() -> None:
    with pytest.raises(SettingsError, match="no recipe 'polygon-desp'"):
        table_rows([made_up("polygon-desp", 0, 1.0, 1.0)])


def test_a_variant_is_named_with_its_data() -> None:
    """`polygons-desp` on other data, as the variant `paper`, is not the recipe `polygons-desp-paper`."""
    check_recordable("polygons-desp", ["x"], "full", "other-data", "paper")
    with pytest.raises(RunError, match="'polygons-desp-paper' is a recipe of its own"):
        check_recordable("polygons-desp", ["x"], "full", None, "paper")
    with pytest.raises(RunError, match="'polygons-desp-paper' is a recipe of its own"):
        check_recordable("polygons", ["x"], "full", "desp", "paper")
