"""Runs without the command line: folders, what differs from a recipe."""

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import tiny

from desp.errors import CheckpointError, RunError, SettingsError
from desp.paper.ablation import ablate_run
from desp.recipes import get_recipe
from desp.runs.evaluate import changed_settings, evaluate_run, sample_run
from desp.runs.folder import RunFolder
from desp.runs.predict import predict_file
from desp.runs.train import train_run
from desp.settings import FilesSettings, MnistSettings, RunSettings, differences
from desp.storage import write_json

# -- folders -------------------------------------------------------------------------------------------


def test_settings_and_seed_come_back(folder: RunFolder) -> None:
    folder.begin(tiny(), 5, None)
    assert folder.load_settings() == (tiny(), 5)
    assert folder.load_task().name == "polygons"
    assert folder.read(folder.summary_file) is None


def test_a_used_folder_is_refused(folder: RunFolder, tmp_path: Path) -> None:
    folder.begin(tiny(), 0, None)
    folder.begin(tiny(), 0, None)  # interrupted before anything was saved: nothing is lost by beginning again
    (folder.path / "checkpoints").mkdir()
    with pytest.raises(RunError, match=r"already holds a run of 'polygons-desp'.*--resume"):
        folder.begin(tiny(), 0, None)
    with pytest.raises(RunError, match="not empty and not a run folder"):
        RunFolder(tmp_path).begin(tiny(), 0, None)
    with pytest.raises(RunError, match="is a file"):
        RunFolder(folder.settings_file).begin(tiny(), 0, None)


def test_an_empty_folder_is_taken(folder: RunFolder) -> None:
    folder.path.mkdir()
    folder.begin(tiny(), 0, None)
    assert folder.settings_file.exists()


def test_only_the_length_may_differ(folder: RunFolder) -> None:
    folder.begin(tiny(), 0, None)
    folder.check_same(tiny(), 0)
    folder.check_same(tiny(steps=99), 0)
    with pytest.raises(RunError, match="--seed 0, not 1"):
        folder.check_same(tiny(), 1)
    with pytest.raises(RunError, match="belongs to recipe 'polygons-desp', not 'demo'"):
        folder.check_same(replace(tiny(), recipe="demo"), 0)
    other = replace(tiny(), training=replace(tiny().training, batch_size=5, learning_rate=1.0))
    with pytest.raises(RunError, match=r"batch_size: 4 then, 5 now; training\.learning_rate: 0\.1 then, 1\.0 now"):
        folder.check_same(other, 0)


def test_digits_may_move_and_not_change(folder: RunFolder) -> None:
    settings = get_recipe("mnist-desp").build()
    assert isinstance(settings.task, MnistSettings)
    folder.begin(settings, 0, None)
    folder.check_same(replace(settings, task=replace(settings.task, data_dir="elsewhere")), 0)
    with pytest.raises(RunError, match=r"task\.translate_fraction: 0\.3 then, 0\.0 now"):
        folder.check_same(replace(settings, task=replace(settings.task, translate_fraction=0.0)), 0)


def test_all_earlier_lengths_are_kept(folder: RunFolder) -> None:
    folder.begin(tiny(), 0, None)
    for steps in (9, 9, 12):
        folder.set_length(steps)
    assert json.loads(folder.settings_file.read_text())["earlier_lengths"] == [4, 9]


def test_a_changed_length_is_kept(folder: RunFolder) -> None:
    folder.begin(tiny(), 0, "abc")
    folder.set_length(9)
    assert folder.load_settings() == (tiny(steps=9), 0)
    assert json.loads(folder.settings_file.read_text())["data_fingerprint"] == "abc"


def test_a_run_that_stopped_early_keeps_the_length_it_was_given(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary tells how far it came; with a shorter length in its settings it would differ from its recipe."""
    scores = count(1)  # lower is better
    monkeypatch.setattr(
        "desp.tasks.base.energy_scores_from_distances", lambda _: torch.tensor([float(next(scores))])
    )
    settings = tiny(steps=9, validate_every=1, patience=1)
    outcome = train_run(settings, 5, folder)
    assert (outcome.stopped_early, outcome.steps, outcome.score_step) == (True, 2, 1)
    assert folder.load_settings() == (settings, 5)
    assert "earlier_lengths" not in json.loads(folder.settings_file.read_text())
    assert train_run(settings, 5, folder, resume=True).steps == 2
    assert folder.load_settings() == (settings, 5)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"settings": 1, "seed": 2}', '{"settings": {}, "seed": "x"}'])
def test_damaged_settings_are_named(folder: RunFolder, text: str) -> None:
    folder.begin(tiny(), 0, None)
    folder.settings_file.write_text(text)
    with pytest.raises(RunError, match=r"settings\.json is damaged"):
        folder.load_settings()


def test_what_is_missing_is_named(folder: RunFolder) -> None:
    with pytest.raises(RunError, match=r"no run folder: settings\.json is missing.*desp train"):
        folder.load_settings()
    folder.begin(tiny(), 0, None)
    with pytest.raises(RunError, match=r"no trained model yet.*desp train polygons-desp .*--resume"):
        folder.load_predictor()
    folder.model.mkdir()
    with pytest.raises(CheckpointError, match="holds no predictor"):
        folder.load_predictor()


def test_a_saved_predictor_is_no_run_folder(folder: RunFolder) -> None:
    folder.model.mkdir(parents=True)
    (folder.model / "config.json").write_text("{}")
    with pytest.raises(RunError, match=r"settings\.json is missing\. It is a saved predictor: load it in Python"):
        RunFolder(folder.model).load_settings()
    folder.settings_file.write_text("{}")
    with pytest.raises(RunError, match=rf"saved predictor\. Did you mean its run folder, {folder.path}\?"):
        RunFolder(folder.model).load_settings()


def test_differences_as_words() -> None:
    saved: dict[str, Any] = {"a": 1, "b": {"c": [1], "d": None}, "gone": 0}
    asked: dict[str, Any] = {"a": 1, "b": {"c": [2], "d": None}, "new": True}
    assert differences(saved, asked) == [
        "b.c: [1] then, [2] now",
        "gone: 0 then, None now",
        "new: None then, True now",
    ]
    assert differences(saved, saved) == []


# -- training ------------------------------------------------------------------------------------------


def test_a_trained_run_can_be_used_at_once(trained: RunFolder) -> None:
    summary = trained.read(trained.summary_file)
    assert summary is not None
    assert summary["steps"] == 4
    assert summary["parameters"] == sum(item.numel() for item in trained.load_predictor().method.parameters())
    sample_run(trained, samples=2)
    samples = trained.read(trained.samples_file)
    assert samples is not None
    assert [len(example["samples"]) for example in samples["examples"]] == [2] * 5


def test_the_length_that_was_trained_is_the_one_that_is_kept(trained: RunFolder) -> None:
    train_run(tiny(steps=7), 5, trained, resume=True)
    assert trained.load_settings()[0].training.steps == 7
    train_run(tiny(steps=5), 5, trained, resume=True)  # there is no way back
    assert trained.load_settings()[0].training.steps == 7


def test_a_refused_run_writes_nothing(folder: RunFolder) -> None:
    if not torch.cuda.is_available():
        with pytest.raises(SettingsError, match="--device cpu"):
            train_run(replace(tiny(), device="cuda"), 0, folder)
        with pytest.raises(SettingsError, match="needs a CUDA device"):
            train_run(replace(tiny(), engine="graph"), 0, folder)
    missing = replace(tiny(), recipe="custom", task=FilesSettings(path=str(folder.path / "missing.jsonl")))
    with pytest.raises(Exception, match="no data file"):
        train_run(missing, 0, folder)
    assert not folder.path.exists()


# -- measuring -----------------------------------------------------------------------------------------


def test_an_evaluation_says_how_the_run_differs_from_its_recipe(trained: RunFolder) -> None:
    result, rows = evaluate_run(trained)
    assert "method.energy.hidden: 256 in the recipe, 8 in this run" in result["changed_settings"]
    assert (result["seed"], result["recipe"], result["table"]) == (5, "polygons-desp", "toy")
    assert result["training"]["steps"] == 4
    kept = trained.read(trained.evaluation_file)
    assert kept is not None
    assert kept["rows"] == rows
    with pytest.raises(SettingsError, match="--samples must be at least 1"):
        evaluate_run(trained, samples=0)


def changes_of(settings: RunSettings, path: Path) -> list[str]:
    folder = RunFolder(path)
    folder.begin(settings, 0, None)
    return changed_settings(folder)


def test_where_a_run_happens_is_no_change(tmp_path: Path) -> None:
    for name in ("polygons-desp", "digits-risk-chamfer"):
        settings = replace(get_recipe(name).build(), device="cpu", engine="eager")
        assert changes_of(settings, tmp_path / name) == []
    custom = replace(get_recipe("custom").build(), task=FilesSettings(path="mine.jsonl"))
    assert changes_of(custom, tmp_path / "custom") == []
    other = replace(custom, matmul_precision="highest")
    assert changes_of(other, tmp_path / "other") == ["matmul_precision: high in the recipe, highest in this run"]


def test_another_length_or_more_processes_are_a_change(tmp_path: Path) -> None:
    settings = get_recipe("polygons-desp").build()
    folder = RunFolder(tmp_path / "run")
    folder.begin(replace(settings, training=replace(settings.training, steps=2000)), 0, None)
    folder.set_length(settings.training.steps)
    write_json(folder.summary_file, {"processes": 8})
    assert changed_settings(folder) == [
        "training.steps: [2000] before it was resumed with another length",
        "processes: 8, each with its own batch",
    ]


def test_a_run_may_end_early_if_a_longer_one_would_have_begun_like_it(tmp_path: Path) -> None:
    settings = get_recipe("mnist-tspn").build()
    epoch = settings.training.validate_every
    for name, steps, changes in (("two", 2 * epoch, 0), ("between", epoch + 1, 1), ("long", 99 * epoch, 1)):
        other = replace(settings, training=replace(settings.training, steps=steps))
        assert len(changes_of(other, tmp_path / name)) == changes
    folder = RunFolder(tmp_path / "run")
    folder.begin(settings, 0, None)
    folder.set_length(epoch)
    assert changed_settings(folder) == []
    folder.set_length(epoch + 1)  # one more set of weights was validated than the recipe would have
    folder.set_length(2 * epoch)
    assert len(changed_settings(folder)) == 1


def test_a_run_knows_its_parts(trained: RunFolder) -> None:
    (part,) = trained.parts()
    assert part["from_step"] == 0
    assert part.keys() == {"from_step", "commit", "commit_source", "command", "device"}
    later = {"commit": "abc", "commit_source": "git", "command": "desp train", "device": "a GPU", "more": 1}
    trained.add_part(later, steps=4)  # it is there already
    trained.add_part(later, steps=9)
    assert trained.parts()[1] == {"from_step": 4} | {name: later[name] for name in later if name != "more"}


def test_a_part_begins_at_the_newest_checkpoint(folder: RunFolder) -> None:
    folder.begin(tiny(), 0, None)
    checkpoints = folder.path / "checkpoints"
    checkpoints.mkdir()
    for step in (100, 20, 3):
        (checkpoints / f"step-{step}.safetensors").touch()
    (checkpoints / "best.safetensors").touch()
    facts = {"commit": "abc", "commit_source": "git", "command": "desp train", "device": "a GPU"}
    folder.add_part(facts, steps=100)
    folder.add_part(facts, steps=101)
    assert [part["from_step"] for part in folder.parts()] == [100]


def test_ablation_varies_the_stochastic_steps(trained: RunFolder) -> None:
    done: list[float] = []
    ablation = ablate_run(trained, [0.0, 0.5, 1.0], on_ratio=done.append)
    assert done == [0.0, 0.5, 1.0]
    assert [row["stochastic_steps"] for row in ablation["rows"]] == [0, 2, 3]
    assert (ablation["steps"], ablation["seed"]) == (3, 5)
    assert ablation["real_data"] == pytest.approx(5e-7, rel=0.9)
    assert ablation["data"] == "generated"
    assert [part["from_step"] for part in ablation["training"]["parts"]] == [0]
    for ratios in ([], [1.1], [0.5, -0.5]):
        with pytest.raises(SettingsError, match="--ratios"):
            ablate_run(trained, ratios)


def test_shares_of_the_same_steps_are_scored_once(trained: RunFolder) -> None:
    done: list[float] = []
    ablation = ablate_run(trained, [0.9, 1.0, 0.0], on_ratio=done.append)
    assert done == [0.9, 1.0, 0.0]
    assert [(row["ratio"], row["stochastic_steps"]) for row in ablation["rows"]] == [(0.9, 3), (0.0, 0)]


def test_the_file_holds_what_predict_gives(trained: RunFolder, tmp_path: Path) -> None:
    inputs, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    inputs.write_text('{"input": 4}\n{"input": 5}\n')
    assert predict_file(trained, inputs, output, samples=2, seed=1).inputs == 2
    predicted = [json.loads(line) for line in output.read_text().splitlines()]
    direct = trained.load_predictor().predict(torch.eye(5)[:2], 2, seed=1)
    for line, prediction in zip(predicted, direct, strict=True):
        assert [item["energy"] for item in line["samples"]] == prediction.energies.tolist()
        assert [item["set"] for item in line["samples"]] == [item.tolist() for item in prediction.sets]
