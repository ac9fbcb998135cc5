"""What measuring a run is told, and what it writes down."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import tiny
from torch import Tensor

from desp.data.base import Batch
from desp.errors import DataError, RunError
from desp.paper.ablation import ablate_run
from desp.predictor import DataShape, SetPredictor
from desp.recipes import get_recipe
from desp.results import write_result
from desp.runs.evaluate import changed_settings, evaluate_run
from desp.runs.folder import RunFolder
from desp.runs.predict import predict_file
from desp.runs.tune import reset_run, tune_run
from desp.settings import (
    SCHEMA,
    EDMSettings,
    LangevinSettings,
    MnistSettings,
    RunSettings,
    SamplerSettings,
    to_json,
)
from desp.storage import write_json
from desp.tasks import Evaluation, EvaluationSetup, make_task
from desp.tasks.polygons import PolygonsTask

MEASURED = Evaluation(
    raw={"score": 0.1, "hungarian": 0.3},
    returned={"score": 0.2, "size_rmse": 0.5, "hungarian": 0.4},
    real_data={"score": 0.01},
    details={"kuiper": {"4": 0.6}},
    energy=-2.5,
    cases=[{"index": 7}],
)


@dataclass
class Asked:
    """What a task was asked."""

    evaluations: list[EvaluationSetup] = field(default_factory=list)
    tuned: list[tuple[int, SamplerSettings | None]] = field(default_factory=list)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """Polygons that are `MEASURED` without any work; all samplers score alike."""
    told = Asked()

    def evaluate(_: PolygonsTask, setup: EvaluationSetup) -> Evaluation:
        told.evaluations.append(setup)
        return MEASURED

    def validation_score(_: PolygonsTask, setup: EvaluationSetup, examples: Batch) -> float:
        told.tuned.append((setup.seed, setup.sampler))
        return 1.0

    monkeypatch.setattr(PolygonsTask, "evaluate", evaluate)
    monkeypatch.setattr(PolygonsTask, "validation_score", validation_score)
    return told


def untrained(folder: RunFolder, settings: RunSettings) -> None:
    """Make a run that could be measured, without training it; its seed is 5."""
    folder.begin(settings, 5, None)
    predictor = SetPredictor(settings.method, settings.representation, device="cpu")
    predictor.build(make_task(settings.task).shape(None, scaling=False)[0])
    predictor.save_pretrained(folder.model)


def use(folder: RunFolder, sampler: SamplerSettings) -> None:
    """Save the predictor of a run with another sampler."""
    predictor = folder.load_predictor()
    predictor.method_settings = predictor.method_settings.with_part("sampler", sampler)
    predictor.save_pretrained(folder.model)


# -- scores --------------------------------------------------------------------------------------------


def test_a_run_is_scored_with_its_own_seed(trained: RunFolder, asked: Asked) -> None:
    evaluate_run(trained)
    evaluate_run(trained, samples=3, distance="hungarian", protocol="full")
    full, quick = (PolygonsTask.protocols[name] for name in ("full", "quick"))
    assert full != quick
    found = [(setup.seed, setup.samples, setup.protocol, setup.sampler) for setup in asked.evaluations]
    assert found == [(5, 10, quick, None), (5, 3, full, None)]
    assert [setup.distance for setup in asked.evaluations] == ["chamfer", "hungarian"]


def test_a_result_holds_what_was_measured(trained: RunFolder, asked: Asked) -> None:
    facts = {"command": "typed", "commit": "abc", "device": "a GPU", "versions": {"torch": "9"}, "seconds": 4.5}
    facts |= {"engine": "eager", "peak_memory_mb": 7.5, "steps": 4, "parameters": 11, "kept_step": 3}
    facts |= {"stopped_early": True, "rollbacks": 2, "commit_source": "git", "examples": 9, "processes": 1}
    facts["stop_reason"] = "converged"
    write_json(trained.summary_file, {**facts, "kept_score": 0.5})
    sampler = LangevinSettings(steps=9, stochastic_steps=2)
    use(trained, sampler)
    result, rows = evaluate_run(trained)
    recipe = get_recipe("polygons-desp")
    assert {name: result[name] for name in ("recipe", "table", "task", "system", "scored")} == {
        "recipe": recipe.name,
        "table": recipe.table,
        "task": recipe.task,
        "system": recipe.system,
        "scored": recipe.scored,
    }
    assert result["protocol"] == json.loads(json.dumps({"name": "quick", **asdict(asked.evaluations[0].protocol)}))
    assert result["seed"] == 5  # of the run: files are named by it
    assert result["scores"] == {"raw": MEASURED.raw, "returned": MEASURED.returned}
    assert (result["real_data"], result["details"]) == (MEASURED.real_data, MEASURED.details)
    assert (result["energy"], result["data"]) == (-2.5, "generated")
    assert result["training"] == {**facts, "parts": trained.parts()}
    used = replace(tiny(), method=tiny().method.with_part("sampler", sampler))
    assert result["settings"] == json.loads(json.dumps({"schema": SCHEMA, **to_json(used)}))
    assert result["evaluation"].keys() >= {"seconds", "commit", "device", "versions", "command"}
    assert 0 <= result["evaluation"]["seconds"] < 60
    assert {row["metric"]: row["value"] for row in rows}["score"] == 0.2
    kept = json.loads((trained.path / "evaluation.json").read_text())
    assert kept["cases"] == [{"index": 7}]
    assert kept["axes"] == make_task(tiny().task).axes
    assert (kept["details"], kept["rows"]) == (MEASURED.details, rows)
    assert kept["result"] == json.loads(json.dumps(result))


def test_what_the_papers_table_scores_is_told(folder: RunFolder, asked: Asked) -> None:
    untrained(folder, get_recipe("polygons-desp-paper").build())
    result, rows = evaluate_run(folder)
    assert (result["scored"], result["recipe"]) == ("raw", "polygons-desp-paper")
    assert {row["metric"]: row["value"] for row in rows}["score"] == 0.1
    assert result["training"]["steps"] is None  # nobody trained it


def test_a_task_may_say_what_it_was_scored_on(
    trained: RunFolder, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = replace(MEASURED, data="the first 7", cases=[])
    monkeypatch.setattr(PolygonsTask, "evaluate", lambda *_, **__: told)
    assert evaluate_run(trained)[0]["data"] == "the first 7"
    assert "axes" not in json.loads(trained.evaluation_file.read_text())
    assert ablate_run(trained, [0.0])["data"] == "the first 7"


def test_a_tuned_sampler_decides_how_many_samples_there_are(trained: RunFolder, tmp_path: Path) -> None:
    """The run was begun with a chain with noise."""
    inputs = tmp_path / "in.jsonl"
    inputs.write_text('{"input": 6}\n')
    done = predict_file(trained, inputs, tmp_path / "out.jsonl", None, best=True)
    assert (done.inputs, done.samples, done.deterministic) == (1, 40, False)
    sampler = trained.load_settings()[0].method.prediction_sampler
    assert isinstance(sampler, LangevinSettings)
    use(trained, replace(sampler, stochastic_steps=0))
    done = predict_file(trained, inputs, tmp_path / "out.jsonl", None, best=True)
    assert (done.inputs, done.samples, done.deterministic) == (1, 1, True)


# -- changed settings ------------------------------------------------------------------------------------


def test_a_tuned_sampler_is_a_change(folder: RunFolder, tmp_path: Path) -> None:
    """All else is the recipe's, so nothing but the saved sampler could tell."""
    settings = get_recipe("polygons-desp-paper").build()
    untrained(folder, settings)
    assert changed_settings(folder) == []
    sampler = settings.method.prediction_sampler
    assert isinstance(sampler, LangevinSettings)
    use(folder, replace(sampler, stochastic_steps=90))
    changes = changed_settings(folder)
    assert changes == ["method.sampler.stochastic_steps: 80 in the recipe, 90 in this run"]
    result = {"recipe": settings.recipe, "seed": 0, "changed_settings": changes}
    with pytest.raises(RunError, match=r"Not recorded: .*80 in the recipe, 90 in this run"):
        write_result(tmp_path, result)
    reset_run(folder)
    assert changed_settings(folder) == []


def test_data_are_no_change_and_what_is_done_to_them_is(tmp_path: Path) -> None:
    settings = get_recipe("mnist-desp").build()
    assert isinstance(settings.task, MnistSettings)
    for name, task, changes in (
        ("there", replace(settings.task, data_dir="/there"), []),
        ("fashion", replace(settings.task, dataset="fashion"), []),  # names of results tell it
        (
            "still",
            replace(settings.task, translate_fraction=0.0),
            ["task.translate_fraction: 0.3 in the recipe, 0.0 in this run"],
        ),
    ):
        folder = RunFolder(tmp_path / name)
        folder.begin(replace(settings, task=task), 0, None)
        found = changed_settings(folder)
        assert len(found) == len(changes)
        assert all(line.startswith(start) for line, start in zip(found, changes, strict=True))


# -- ablation --------------------------------------------------------------------------------------------


def test_an_ablation_varies_the_sampler_in_use(trained: RunFolder, asked: Asked) -> None:
    sampler = LangevinSettings(steps=10, stochastic_steps=7, noise_scale=0.03, restarts=4)
    use(trained, sampler)
    ablation = ablate_run(trained, [0.0, 0.25, 1.0], protocol="full")
    full = PolygonsTask.protocols["full"]
    once = replace(sampler, restarts=1)
    found = [(setup.seed, setup.samples, setup.protocol, setup.sampler) for setup in asked.evaluations]
    assert found == [(5, 1, full, replace(once, stochastic_steps=steps)) for steps in (0, 2, 10)]
    assert ablation["protocol"] == {"name": "full", **asdict(full)}
    assert ablation["sampler"] == to_json(once)
    assert (ablation["recipe"], ablation["seed"], ablation["steps"]) == ("polygons-desp", 5, 10)
    assert (ablation["real_data"], ablation["data"]) == (0.01, "generated")
    assert (ablation["score_name"], ablation["scored"]) == (make_task(tiny().task).score_name, "raw")
    assert ablation["rows"][1] == {
        "ratio": 0.25,
        "stochastic_steps": 2,
        "score": 0.1,
        "score_returned": 0.2,
        "energy": -2.5,
        "size_rmse": 0.5,
        "hungarian": 0.3,
    }
    assert ablation["training"]["steps"] == 4
    assert any(line.startswith("method.sampler.steps: 100") for line in ablation["changed_settings"])
    assert ablation["settings"]["method"] == to_json(trained.load_predictor().method_settings)
    assert json.loads((trained.path / "ablation.json").read_text()) == json.loads(json.dumps(ablation))


def test_an_ablation_scores_what_there_is(
    trained: RunFolder, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files have no raw scores, and digits were scored on fewer sets than the paper's."""
    returned = {"score": 0.2, "size_rmse_released_all": 0.7, "size_rmse_first7": 0.5, "size_rmse_all": 0.6}
    few = Evaluation(raw={}, returned=returned, real_data={})
    monkeypatch.setattr(PolygonsTask, "evaluate", lambda *_, **__: few)
    ablation = ablate_run(trained, [0.0])
    (row,) = ablation["rows"]
    assert ablation["scored"] == "returned"
    assert (row["score"], row["score_returned"], row["size_rmse"], row["hungarian"]) == (0.2, 0.2, 0.5, None)


def test_an_ablation_has_the_size_error_of_the_papers_table(
    trained: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned = {"score": 0.2, "size_rmse_released": 0.5, "size_rmse": 0.6}
    monkeypatch.setattr(PolygonsTask, "evaluate", lambda *_, **__: Evaluation(dict(returned), returned, {}))
    (row,) = ablate_run(trained, [0.0])["rows"]
    assert row["size_rmse_released"] == 0.5
    assert "size_rmse" not in row  # older ablations of set-MNIST had the other one under this name


# -- samplers --------------------------------------------------------------------------------------------


def test_the_samplers_that_are_tried(folder: RunFolder, asked: Asked) -> None:
    sampler = LangevinSettings(steps=20, stochastic_steps=16, noise_scale=0.02, final_noise_scale=0.01, restarts=3)
    untrained(folder, replace(tiny(), method=tiny().method.with_part("sampler", sampler)))
    use(folder, replace(sampler, steps=99))  # tuned before: that is not where it begins
    tuning = tune_run(folder)
    ratios = [replace(sampler, stochastic_steps=steps) for steps in (0, 10, 14, 18, 19, 20)]
    noises = [replace(sampler, noise_scale=0.02 * by, final_noise_scale=0.01 * by) for by in (0.5, 0.7, 1.4)]
    lengths = [replace(sampler, steps=10, stochastic_steps=8), replace(sampler, steps=40, stochastic_steps=32)]
    momenta = [replace(sampler, momentum=value) for value in (0.5, 0.8)]
    restarts = [replace(sampler, restarts=1), replace(sampler, aggregate="mean")]
    expected = [sampler, *ratios, *noises, *lengths, *momenta, *restarts]
    assert asked.tuned == [(5, item) for item in expected]
    assert [row["sampler"] for row in tuning["candidates"]] == [to_json(item) for item in expected]
    assert {row["score"] for row in tuning["candidates"]} == {1.0}
    assert all(0 <= row["seconds"] < 60 for row in tuning["candidates"])
    assert (tuning["recipe"], tuning["seed"], tuning["examples"]) == ("polygons-desp", 5, 50)
    assert tuning["before"] == tuning["sampler"] == to_json(sampler)
    assert folder.load_predictor().method_settings.sampler == sampler  # the first of equals
    assert json.loads((folder.path / "tuning.json").read_text()) == json.loads(json.dumps(tuning))


def test_momentum_is_for_steps_without_noise(folder: RunFolder, asked: Asked) -> None:
    sampler = LangevinSettings(steps=10, stochastic_steps=10)
    untrained(folder, replace(tiny(), method=tiny().method.with_part("sampler", sampler)))
    tune_run(folder)
    assert {item.momentum for _, item in asked.tuned if isinstance(item, LangevinSettings)} == {0.0}


def test_the_edm_samplers_that_are_tried(folder: RunFolder, asked: Asked) -> None:
    settings, own = get_recipe("polygons-denoising").build(), EDMSettings()
    untrained(folder, replace(settings, method=settings.method.with_part("sampler", own)))
    tune_run(folder)
    found = [sampler for _, sampler in asked.tuned]
    steps = [replace(own, steps=value) for value in (10, 20, 40)]
    churns = [replace(own, churn=value) for value in (0.0, 0.2, 0.5)]
    others = [item for item in (*steps, *churns) if item != own]
    assert found == [own, *others]


# -- predictions -----------------------------------------------------------------------------------------


def test_predictions_stand_beside_their_inputs(trained: RunFolder, tmp_path: Path) -> None:
    inputs, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    inputs.write_text('{"input": 6}\n{"input": 4}\n')
    predict_file(trained, inputs, output, samples=1)
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["input"] for line in lines] == [6, 4]
    assert [len(line["samples"]) for line in lines] == [1, 1]
    predict_file(trained, inputs, output, samples=1, seed=0)
    assert [json.loads(line) for line in output.read_text().splitlines()] == lines  # 0 if none is given


def test_inputs_are_not_overwritten(trained: RunFolder, tmp_path: Path) -> None:
    inputs = tmp_path / "in.jsonl"
    inputs.write_text('{"input": 6}\n')
    with pytest.raises(DataError, match="is the input file"):
        predict_file(trained, inputs, tmp_path / "." / "in.jsonl", samples=1)
    (tmp_path / "another-name.jsonl").symlink_to(inputs)
    with pytest.raises(DataError, match="is the input file"):
        predict_file(trained, inputs, tmp_path / "another-name.jsonl", samples=1)
    assert inputs.read_text() == '{"input": 6}\n'


def test_files_that_inputs_name_lie_beside_their_list(
    trained: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders, read = [], PolygonsTask.read_input

    def noting(self: PolygonsTask, value: Any, where: str, folder: Path, shape: DataShape) -> Tensor:
        folders.append(folder)
        return read(self, value, where, folder, shape)

    monkeypatch.setattr(PolygonsTask, "read_input", noting)
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    (tmp_path / "here" / "in.jsonl").write_text('{"input": 6}\n')
    predict_file(trained, tmp_path / "here" / "in.jsonl", tmp_path / "there" / "out.jsonl", samples=1)
    assert folders == [tmp_path / "here"]
