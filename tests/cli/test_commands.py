"""Commands on a trained run: evaluate, predict, report, ablate; and the tables."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from desp.paper import PUBLISHED
from desp.paper.tables import table_rows
from desp.recipes import all_recipes

Desp = Callable[..., Any]
Write = Callable[..., Path]

ROW = {
    "table",
    "task",
    "system",
    "recipe",
    "variant",
    "scored",
    "protocol",
    "metric",
    "unit",
    "direction",
    "value",
    "std",
    "seeds",
    "steps",
    "paper",
    "real_data",
    "data",
    *("ci95", "n", "raw", "raw_ci95", "raw_median", "returned", "returned_ci95", "returned_median"),
    *("epochs", "ended_by", "rollbacks", "devices", "commits"),
}


# -- evaluate ------------------------------------------------------------------------------------------


def test_evaluate_prints_rows_as_json(desp: Desp, polygons: Path) -> None:
    finished = desp("evaluate", polygons, "--json")
    assert finished.status == 0
    rows = json.loads(finished.out)
    assert all(set(row) == ROW for row in rows)
    by_metric = {row["metric"]: row for row in rows}
    assert {"score", "score_raw", "score_median", "size_rmse", "right_size"} <= by_metric.keys()
    score = by_metric["score"]
    assert {name: score[name] for name in ("table", "task", "system", "recipe", "scored", "protocol", "data")} == {
        "table": "toy",
        "task": "polygons",
        "system": "desp",
        "recipe": "polygons-desp",
        "scored": "returned",
        "protocol": "quick",
        "data": "generated",
    }
    assert score["seeds"] == [0]
    assert score["std"] is None
    assert score["paper"] == pytest.approx(8.8e-5)
    assert 0 < score["real_data"] < 2e-6 < score["value"]
    kept = json.loads((polygons / "evaluation.json").read_text())
    assert kept["rows"] == rows
    assert kept["result"]["scores"]["returned"]["score"] == score["value"]
    assert kept["result"]["scores"]["raw"]["score"] == by_metric["score_raw"]["value"]


def test_evaluate_by_the_other_distance(desp: Desp, polygons: Path) -> None:
    finished = desp("evaluate", polygons, "--distance", "hungarian", "--json")
    assert finished.status == 0
    metrics = {row["metric"] for row in json.loads(finished.out)}
    assert "coverage_hungarian" in metrics
    assert "coverage" not in metrics


def test_evaluate_prints_a_table(desp: Desp, digits: Path) -> None:
    finished = desp("evaluate", digits)
    assert finished.status == 0
    for word in (
        "protocol quick: test_examples 12, predictions_per_input 4",
        "digits-desp-paper, seed 0",
        "returned",
        "rarest_style",
        "real data",
        "style_shares",
    ):
        assert word in finished.out
    assert "predicting and scoring" in finished.err  # no terminal: a line says what takes so long


def test_evaluating_twice_gives_the_same(desp: Desp, polygons: Path) -> None:
    assert desp("evaluate", polygons, "--json").out == desp("evaluate", polygons, "--json").out


def test_evaluating_with_other_seeds(desp: Desp, polygons: Path) -> None:
    usual = json.loads(desp("evaluate", polygons, "--json").out)
    again = json.loads(desp("evaluate", polygons, "--json", "--seed", 0).out)
    other = json.loads(desp("evaluate", polygons, "--json", "--seed", 3).out)
    assert again == usual
    assert other[0]["value"] != usual[0]["value"]
    assert other[0]["seeds"] == [0]  # of the run
    finished = desp("evaluate", polygons, "--seed", 0, 3)
    assert "score with the seeds 0, 3: raw" in finished.message
    result = json.loads((polygons / "evaluation.json").read_text())["result"]
    each = result["reseeded"]["scores"]
    assert each[0] == result["scores"]
    assert each[1]["returned"]["score"] == other[0]["value"]
    values = [scores["returned"]["score"] for scores in each]
    assert result["reseeded"]["std"]["returned"]["score"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert result["evaluation"]["seed"] == 0
    assert "evaluated with seed" not in finished.out
    assert "polygons-desp, seed 0, evaluated with seed 3" in desp("evaluate", polygons, "--seed", 3).out
    assert "--seed: numbers from 0 on, each once, got 0 0" in desp("evaluate", polygons, "--seed", 0, 0).message
    refused = desp("evaluate", polygons, "--seed", 3, "--record", "results", "--variant", "tiny")
    assert refused.status == 2
    assert "--seed 0" in refused.message


def test_only_unchanged_recipes_are_recorded(desp: Desp, polygons: Path) -> None:
    finished = desp("evaluate", polygons, "--record", "results")
    assert finished.status == 2
    assert "method.energy.hidden: 256 in the recipe, 8 in this run" in finished.err
    assert not Path("results").exists()


def test_a_changed_recipe_is_recorded_under_a_name_of_its_own(desp: Desp, polygons: Path) -> None:
    assert desp("evaluate", polygons, "--record", "results", "--variant", "tiny").status == 0
    result = json.loads(Path("results/polygons-desp-tiny-seed0.json").read_text())
    assert any(line.startswith("method.energy.hidden: 256") for line in result["changed_settings"])
    assert (result["variant"], result["data_source"]) == ("tiny", None)
    assert result["protocol"]["name"] == "full"
    assert result["protocol"]["test_examples"] == [24]
    assert result["metrics"]["kuiper"]["direction"] == "lower"
    assert "polygons-desp (tiny)" in " ".join(desp("tables").out.split())
    assert "Leave --protocol out" in desp("evaluate", polygons, "--record", "r", "--protocol", "quick").err
    assert "Add --record DIR" in desp("evaluate", polygons, "--variant", "tiny").err
    assert "Known are: demo, full, quick" in desp("evaluate", polygons, "--protocol", "slow").err
    assert desp("ablate", polygons, "--ratios", 0, "--record", "ablations", "--variant", "tiny").status == 0
    ablation = json.loads(Path("ablations/polygons-desp-tiny-seed0.json").read_text())
    assert (ablation["variant"], ablation["protocol"]["test_examples"]) == ("tiny", [24])


def test_a_recorded_result_holds_its_provenance(
    desp: Desp, polygons: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("desp.runs.evaluate.changed_settings", lambda _: [])
    assert desp("evaluate", polygons, "--record", "results", "--json").status == 0
    result = json.loads(Path("results/polygons-desp-seed0.json").read_text())
    assert result["training"]["steps"] == 6
    for part in ("training", "evaluation"):
        assert {"command", "commit", "device", "versions", "seconds", "peak_memory_mb"} <= result[part].keys()
    assert json.loads(desp("tables", "--json", "--results", "results").out)


@pytest.mark.parametrize("command", ["evaluate", "tune"])
def test_an_unfinished_run_is_refused_before_anything_takes_long(desp: Desp, polygons: Path, command: str) -> None:
    shutil.rmtree(polygons / "model")
    refused = desp(command, polygons)
    assert refused.status == 2
    assert refused.err.startswith("error: ")
    assert "has no trained model yet. Finish it: desp train polygons-desp --run" in refused.message


@pytest.mark.parametrize("command", [["evaluate"], ["report"], ["ablate"], ["tune"], ["predict"]])
def test_what_is_no_run_folder_is_refused(desp: Desp, write: Write, command: list[str]) -> None:
    inputs = write("inputs.jsonl", [{"input": 5}])
    more = ["--input", inputs, "--output", "out.jsonl"] if command == ["predict"] else []
    Path("empty").mkdir()
    for folder in ("missing", "empty"):
        finished = desp(*command, folder, *more)
        assert finished.status == 2
        assert folder in finished.err
        assert "desp train" in finished.err
    assert not Path("out.jsonl").exists()
    assert list(Path("empty").iterdir()) == []


def test_a_missing_model_is_named(desp: Desp, polygons: Path) -> None:
    (polygons / "model").rename(polygons / "elsewhere")
    finished = desp("evaluate", polygons)
    assert finished.status == 2
    assert f"desp train polygons-desp --run {polygons} --resume" in finished.err


def test_a_damaged_model_is_refused(desp: Desp, polygons: Path) -> None:
    weights = polygons / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:50])
    finished = desp("evaluate", polygons)
    assert finished.status == 2
    assert "model.safetensors is damaged" in finished.err
    assert not (polygons / "evaluation.json").exists()


# -- predict -------------------------------------------------------------------------------------------


def test_predict_writes_one_object_a_line(desp: Desp, polygons: Path, write: Write) -> None:
    inputs = write("inputs.jsonl", [{"input": 5}, {"input": 8, "note": "ignored"}])
    finished = desp("predict", polygons, "--input", inputs, "--output", "new/out.jsonl", "--samples", 3)
    assert finished.status == 0
    assert "2 inputs, 3 sets each" in finished.out
    lines = [json.loads(line) for line in Path("new/out.jsonl").read_text().splitlines()]
    assert [line["input"] for line in lines] == [5, 8]
    for line in lines:
        assert set(line) == {"input", "samples"}
        assert len(line["samples"]) == 3
        for sample in line["samples"]:
            assert set(sample) == {"set", "energy"}
            assert isinstance(sample["energy"], float)
            assert all(len(element) == 2 for element in sample["set"])


def test_the_same_seed_gives_the_same_file(desp: Desp, polygons: Path, write: Write) -> None:
    inputs = write("inputs.jsonl", [{"input": 4}])
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        arguments = ["--input", inputs, "--output", name, "--samples", 4, "--seed", seed]
        assert desp("predict", polygons, *arguments).status == 0
    assert Path("a").read_bytes() == Path("b").read_bytes() != Path("c").read_bytes()


def test_digits_are_numbered(desp: Desp, digits: Path, write: Write) -> None:
    inputs = write("inputs.jsonl", [{"input": 0}, {"input": 1}])
    assert desp("predict", digits, "--input", inputs, "--output", "out.jsonl").status == 0
    bad = write("bad.jsonl", [{"input": 0}, {"input": 7}])
    finished = desp("predict", digits, "--input", bad, "--output", "bad-out.jsonl")
    assert finished.status == 2
    assert "line 2: expected one of 0 (one), 1 (seven), got 7" in finished.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"input": 5}\n{"input": 99}\n', "line 2: expected one of 4 (4 corners), 5 (5 corners)"),
        ('{"input": 5}\n\n{"input": 5\n', "line 3: not valid JSON"),
        ('{"inputs": 5}\n', "line 1: the field 'input' is missing (found: inputs)"),
        ("5\n", "line 1: expected a JSON object"),
        ("", "holds no inputs"),
    ],
)
def test_bad_inputs_leave_no_output(desp: Desp, polygons: Path, text: str, words: str) -> None:
    Path("bad.jsonl").write_text(text)
    finished = desp("predict", polygons, "--input", "bad.jsonl", "--output", "out.jsonl")
    assert finished.status == 2
    assert words in finished.err
    assert {path.name for path in Path.cwd().iterdir()} == {"bad.jsonl", "polygons"}


def test_other_mistakes_of_predict(desp: Desp, polygons: Path, write: Write) -> None:
    inputs = write("inputs.jsonl", [{"input": 5}])
    none = desp("predict", polygons, "--input", inputs, "--output", "out.jsonl", "--samples", 0)
    assert (none.status, "at least 1, got 0" in none.err) == (2, True)
    missing = desp("predict", polygons, "--input", "missing.jsonl", "--output", "out.jsonl")
    assert (missing.status, "There is no file at missing.jsonl" in missing.err) == (2, True)
    folder = desp("predict", polygons, "--input", inputs, "--output", polygons)
    assert (folder.status, "is a folder" in folder.err) == (2, True)
    assert not Path("out.jsonl").exists()


# -- report and ablate ---------------------------------------------------------------------------------


def test_report_is_one_page(desp: Desp, polygons: Path) -> None:
    (polygons / "samples.json").unlink()  # made again where it is missing
    finished = desp("report", polygons)
    assert finished.status == 0
    assert f"report: {polygons / 'report.html'}" in finished.out
    page = (polygons / "report.html").read_text()
    assert "polygons-desp" in page
    assert 'src="http' not in page


def test_ablate_prints_a_table_and_draws(desp: Desp, polygons: Path) -> None:
    finished = desp("ablate", polygons, "--ratios", 0, 0.5, 1)
    assert finished.status == 0
    assert "stochastic_steps" in finished.out
    assert (polygons / "ablation.png").read_bytes().startswith(b"\x89PNG")


def test_ablate_does_not_record_a_changed_recipe(desp: Desp, polygons: Path) -> None:
    finished = desp("ablate", polygons, "--ratios", 0, "--record", "ablations")
    assert finished.status == 2
    assert "differs from the recipe" in finished.message
    assert not Path("ablations").exists()


def test_ablate_prints_json_and_records(desp: Desp, polygons: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("desp.runs.evaluate", "desp.paper.ablation"):
        monkeypatch.setattr(f"{module}.changed_settings", lambda _: [])
    finished = desp("ablate", polygons, "--ratios", 0, 1, "--json", "--record", "ablations")
    assert finished.status == 0
    ablation = json.loads(finished.out)
    assert ablation == json.loads((polygons / "ablation.json").read_text())
    recorded = json.loads(Path("ablations/polygons-desp-seed0.json").read_text())
    assert recorded == {**ablation, "variant": None}
    assert [(row["ratio"], row["stochastic_steps"]) for row in ablation["rows"]] == [(0, 0), (1, 3)]
    assert all({"score", "score_returned", "energy"} <= row.keys() for row in ablation["rows"])
    assert ablation["rows"][0]["score"] != ablation["rows"][1]["score"]
    assert {"commit", "device", "versions", "command"} <= ablation.keys()


@pytest.mark.parametrize("ratios", [["1.5"], ["0.5", "-0.1"], []])
def test_ratios_outside_their_range_are_refused(desp: Desp, polygons: Path, ratios: list[str]) -> None:
    finished = desp("ablate", polygons, "--ratios", *ratios)
    assert finished.status == 2
    assert "--ratios" in finished.message
    assert "between 0 and 1" in finished.message
    assert not (polygons / "ablation.json").exists()
    assert not (polygons / "ablation.png").exists()


@pytest.mark.usefixtures("without_matplotlib")
@pytest.mark.parametrize("command", ["report", "ablate"])
def test_pictures_name_the_extra_they_need(desp: Desp, polygons: Path, command: str) -> None:
    finished = desp(command, polygons)
    assert finished.status == 2
    assert 'pip install "desp[viz]"' in finished.err
    assert not (polygons / "report.html").exists()
    assert not (polygons / "ablation.json").exists()


# -- tables and recipes --------------------------------------------------------------------------------


def test_tables_without_results_show_the_papers_numbers(desp: Desp) -> None:
    Path("results").mkdir()
    rows = json.loads(desp("tables", "--json").out)
    assert rows == table_rows([])
    assert len(rows) == sum(len(table.published) for table in PUBLISHED)
    text = desp("tables").out
    for title in ("Polygons and Digits", "set-MNIST", "CLEVR boxes", "CelebA"):
        assert title in text
    assert "8.8e-05" in text


def test_only_the_tables_that_are_asked_for_are_shown(desp: Desp) -> None:
    Path("results").mkdir()
    assert {row["table"] for row in json.loads(desp("tables", "--json", "--only", "toy", "celeba").out)} == {
        "toy",
        "celeba",
    }
    text = desp("tables", "--only", "celeba").out
    assert "CelebA" in text
    assert "Polygons" not in text
    refused = desp("tables", "--only", "toys")
    assert refused.status == 2
    assert "There is no table 'toys'. Known are: toy, mnist" in refused.err


def test_recipes_of_no_table_are_shown_beside_the_tables(desp: Desp) -> None:
    results = Path(__file__).parents[2] / "results"
    text = desp("tables", "--results", results / "robust").out
    beside = text[text.index("Recipes outside the paper's tables") :]
    assert "polygons-desp-fast" in beside
    assert "digits-desp-fast" in beside
    metrics = {line.split("│")[2].strip() for line in beside.splitlines() if line.startswith("│")}
    assert metrics == {"score"}
    everything = desp("tables", "--all", "--results", results / "robust").out
    assert "right_size" in everything[everything.index("Recipes outside the paper's tables") :]
    Path("results").mkdir()
    assert "Beside" not in desp("tables").out


def test_tables_read_the_projects_results(desp: Desp) -> None:
    results = Path(__file__).parents[2] / "results"
    rows = json.loads(desp("tables", "--json", "--results", results).out)
    assert all(set(row) == ROW for row in rows)
    measured = {row["recipe"] for row in rows if row["value"] is not None}
    assert {"polygons-desp", "polygons-desp-paper", "digits-desp", "digits-desp-paper"} <= measured
    lines = desp("tables", "--markdown", "--results", results).out.splitlines()
    assert any("`polygons-desp`" in line for line in lines)


def test_tables_without_a_folder_or_with_a_damaged_file(desp: Desp) -> None:
    finished = desp("tables", "--results", "missing")
    assert finished.status == 2
    assert "--results DIR" in finished.err
    Path("results").mkdir()
    Path("results/broken.json").write_text("{")
    finished = desp("tables")
    assert finished.status == 2
    assert "results/broken.json is damaged" in finished.err


def test_recipes_are_listed(desp: Desp) -> None:
    listed = json.loads(desp("recipes", "--json").out)
    assert [item["name"] for item in listed] == [item.name for item in all_recipes()]
    polygons = next(item for item in listed if item["name"] == "polygons-desp-paper")
    assert polygons["paper"] == pytest.approx(8.8e-5)
    text = desp("recipes").out
    for item in all_recipes():
        assert f" {item.name} " in text  # whole, also where output is no terminal


def test_the_width_of_tables_in_a_pipe(desp: Desp) -> None:
    assert "…" not in desp("recipes").out
