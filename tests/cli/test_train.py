"""``desp train``: a run folder from a recipe, resumed exactly, never mixed up."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from desp.training.bar import ProgressBar

Desp = Callable[..., Any]


def settings_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "settings.json").read_text())["settings"]


def weights_of(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model" / "model.safetensors")


def assert_same_weights(a: Path, b: Path) -> None:
    left, right = weights_of(a), weights_of(b)
    assert left.keys() == right.keys()
    for name, value in left.items():
        torch.testing.assert_close(right[name], value, rtol=0, atol=0)


def test_a_run_leaves_everything_in_its_folder(desp: Desp, tiny: list[str]) -> None:
    finished = desp("train", "polygons-desp", *tiny, "--seed", 3)
    assert finished.status == 0
    assert "trained 6 steps" in finished.out
    run = Path("runs/polygons-desp-seed3")
    assert f"desp evaluate {run}" in finished.out
    assert f"desp report {run}" in finished.out
    names = {path.name for path in run.iterdir()}
    assert names == {"settings.json", "checkpoints", "log.jsonl", "model", "summary.json", "samples.json"}
    saved = json.loads((run / "settings.json").read_text())
    assert (saved["recipe"], saved["seed"], saved["data_fingerprint"]) == ("polygons-desp", 3, None)
    assert saved["settings"]["method"]["energy"]["hidden"] == 8
    assert saved["settings"]["training"]["learning_rate"] == 3e-4  # the recipe's
    summary = json.loads((run / "summary.json").read_text())
    assert summary["steps"] == 6
    for fact in ("seconds", "commit", "device", "versions", "command", "peak_memory_mb", "parameters", "engine"):
        assert summary[fact] is not None


def test_samples_are_kept_to_look_at(polygons: Path) -> None:
    samples = json.loads((polygons / "samples.json").read_text())
    assert samples["task"] == "polygons"
    assert [example["input"] for example in samples["examples"]] == [4, 5, 6, 7, 8]
    for example in samples["examples"]:
        assert len(example["samples"]) == 6
        assert len(example["truth"]) == 3
        chain = example["chain"]
        assert len(chain["frames"]) == len(chain["steps"]) == len(chain["energies"]) == 4  # start, three steps
        assert chain["frames"][0] == [[0.0, 0.0]] * 8


def test_the_same_seed_gives_the_same_weights(desp: Desp, tiny: list[str], polygons: Path) -> None:
    assert desp("train", "polygons-desp", "--run", "again", *tiny).status == 0
    assert_same_weights(polygons, Path("again"))
    assert desp("train", "polygons-desp", "--run", "other", *tiny, "--seed", 1).status == 0
    with pytest.raises(AssertionError):
        assert_same_weights(polygons, Path("other"))


@pytest.mark.parametrize("recipe", ["polygons-risk-chamfer", "digits-risk-hungarian"])
def test_direct_risk_trains(desp: Desp, recipe: str) -> None:
    short = ["--training.steps", 2, "--training.batch-size", 4, "--method.energy.hidden", 8]
    arguments = [*short, "--method.descent.steps", 2, "--device", "cpu"]
    assert desp("train", recipe, "--run", "run", *arguments).status == 0
    assert settings_of(Path("run"))["method"]["kind"] == "set-risk"
    finished = desp("ablate", "run", "--ratios", 0.5)
    assert finished.status == 2
    assert "no S/T to vary" in finished.err


def test_tensorboard_log(desp: Desp, tiny: list[str]) -> None:
    pytest.importorskip("tensorboard")
    assert desp("train", "polygons-desp", "--run", "run", *tiny, "--training.tensorboard").status == 0
    assert list(Path("run").rglob("events.*"))


# -- going on ------------------------------------------------------------------------------------------


def test_resuming_a_finished_run_changes_nothing(desp: Desp, tiny: list[str], polygons: Path) -> None:
    before = Path(shutil.copytree(polygons, "before"))
    assert desp("train", "polygons-desp", "--run", polygons, *tiny, "--resume").status == 0
    assert_same_weights(polygons, before)
    assert settings_of(polygons)["training"]["steps"] == 6


def test_a_longer_run_is_noted(desp: Desp, tiny: list[str], polygons: Path) -> None:
    """Settings must stay true, or a changed run could be recorded as the recipe's."""
    longer = [*tiny, "--training.steps", 9]
    assert desp("train", "polygons-desp", "--run", polygons, *longer, "--resume").status == 0
    assert json.loads((polygons / "summary.json").read_text())["steps"] == 9
    assert settings_of(polygons)["training"]["steps"] == 9
    # Asking for fewer steps than were done undoes nothing.
    assert desp("train", "polygons-desp", "--run", polygons, *tiny, "--resume").status == 0
    assert settings_of(polygons)["training"]["steps"] == 9


def test_a_run_that_has_more_steps_than_asked_for_says_so_and_ends(
    desp: Desp, tiny: list[str], polygons: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[int, int | None]] = []
    monkeypatch.setattr(ProgressBar, "on_start", lambda _, done, steps: shown.append((done, steps)))
    assert desp("train", "polygons-desp", "--run", polygons, *tiny, "--resume").status == 0
    assert not caplog.messages
    fewer = ("--resume", "--training.steps", 4)
    finished = desp("train", "polygons-desp", "--run", polygons, *fewer)
    assert finished.status == 0
    assert "trained 6 steps" in finished.out
    assert shown == [(6, 6), (6, 6)]
    (message,) = caplog.messages
    assert "has 6 steps already, more than the 4 that are asked for" in message
    assert "To train 4 steps, take another folder." in message


def test_another_energy_than_the_recipes(desp: Desp) -> None:
    short = ("--training.steps", 2, "--training.batch-size", 4, "--method.energy.hidden", 8)
    short += ("--method.sampler.steps", 2)
    own = ("--energy", "attention", "--method.energy.heads", 2)
    assert desp("train", "polygons-denoising", "--run", "seen", *own, *short).status == 0
    saved = json.loads(Path("seen/settings.json").read_text())["settings"]["method"]["energy"]
    assert (saved["kind"], saved["hidden"], saved["heads"]) == ("attention", 8, 2)
    refused = desp("train", "polygons-denoising", "--run", "seen", "--resume", "--energy", "deep-sets")
    assert refused.status == 2
    assert "has its method and energy already" in refused.err
    assert desp("train", "polygons-denoising", "--run", "seen", "--resume", "--energy=attention").status == 0
    refused = desp("train", "polygons-denoising", "--run", "other", "--energy", "set-encoder")
    assert "energy must be pooled-layers, attention or deep-sets" in refused.err


def test_resume_needs_a_run(desp: Desp, tiny: list[str]) -> None:
    finished = desp("train", "polygons-desp", "--run", "new", *tiny, "--resume")
    assert finished.status == 2
    assert "new is no run folder" in finished.message
    assert not Path("new").exists()


def test_resume_remembers_settings_and_seed(desp: Desp, tiny: list[str]) -> None:
    assert desp("train", "polygons-desp", "--run", "kept", "--seed", 3, *tiny).status == 0
    finished = desp("train", "polygons-desp", "--run", "kept", "--resume", "--training.steps", 8)
    assert finished.status == 0
    assert "trained 8 steps" in finished.out
    settings = json.loads(Path("kept/settings.json").read_text())
    assert (settings["seed"], settings["settings"]["method"]["energy"]["hidden"]) == (3, 8)


def test_a_model_without_checkpoints_is_not_overwritten(desp: Desp, polygons: Path) -> None:
    shutil.rmtree(polygons / "checkpoints")
    finished = desp("train", "polygons-desp", "--run", polygons, "--resume")
    assert finished.status == 2
    assert "has lost its checkpoints" in finished.message


def test_what_the_system_refuses_is_an_error_and_no_traceback(desp: Desp, tiny: list[str]) -> None:
    Path("file").write_text("")
    finished = desp("train", "polygons-desp", "--run", "file/run", *tiny)
    assert finished.status == 2
    assert "file" in finished.message


def test_interrupted_and_resumed_equals_uninterrupted(
    desp: Desp, tiny: list[str], polygons: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C after step 3: status 130, everything saved, and --resume ends with the same weights."""

    def interrupt(self: ProgressBar, step: int, numbers: dict[str, float]) -> None:
        if step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    arguments = [*tiny, "--training.log-every", 1]
    with monkeypatch.context() as patch:
        patch.setattr(ProgressBar, "on_log", interrupt)
        finished = desp("train", "polygons-desp", "--run", "stopped", *arguments)
    assert finished.status == 130
    assert "Stopped after step 3 of 6" in finished.err
    assert "--resume" in finished.err
    assert not Path("stopped/model").exists()

    early = desp("evaluate", "stopped")
    assert early.status == 2
    assert "desp train polygons-desp --run stopped --resume" in early.err

    assert desp("train", "polygons-desp", "--run", "stopped", *arguments, "--resume").status == 0
    assert_same_weights(Path("stopped"), polygons)


def test_ctrl_c_outside_training(desp: Desp, polygons: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("desp.runs.evaluate.evaluate_run", interrupt)
    finished = desp("evaluate", polygons)
    assert finished.status == 130
    assert "interrupted" in finished.err


# -- mistakes ------------------------------------------------------------------------------------------


def assert_refused(finished: Any, *words: str) -> None:
    assert finished.status == 2
    assert finished.out == ""
    for word in words:
        assert word in finished.message


def test_an_existing_run_is_not_overwritten(desp: Desp, tiny: list[str], polygons: Path) -> None:
    before = (polygons / "settings.json").read_bytes()
    finished = desp("train", "polygons-desp", "--run", polygons, *tiny)
    assert_refused(finished, "already holds a run of 'polygons-desp'", "--resume", "--run")
    assert (polygons / "settings.json").read_bytes() == before


def test_a_folder_with_other_things_is_not_touched(desp: Desp, tiny: list[str]) -> None:
    Path("photos").mkdir()
    Path("photos/cat.txt").write_text("cat")
    assert_refused(desp("train", "polygons-desp", "--run", "photos", *tiny), "not empty", "--run")
    assert [path.name for path in Path("photos").iterdir()] == ["cat.txt"]
    assert_refused(desp("train", "polygons-desp", "--run", "photos/cat.txt", *tiny), "is a file", "--run")


def test_a_run_of_another_recipe_is_not_resumed(desp: Desp, tiny: list[str], polygons: Path) -> None:
    finished = desp("train", "polygons-desp-paper", "--run", polygons, *tiny, "--resume")
    assert_refused(finished, "belongs to recipe 'polygons-desp', not 'polygons-desp-paper'")


def test_a_run_with_other_settings_is_not_resumed(desp: Desp, tiny: list[str], polygons: Path) -> None:
    changed = [*tiny, "--training.learning-rate", "0.1"]
    finished = desp("train", "polygons-desp", "--run", polygons, *changed, "--resume")
    assert_refused(
        finished, "training.learning_rate: 0.0003 then, 0.1 now", "--training.steps and --data-dir may change"
    )


def test_a_run_with_another_seed_is_not_resumed(desp: Desp, tiny: list[str], polygons: Path) -> None:
    finished = desp("train", "polygons-desp", "--run", polygons, *tiny, "--resume", "--seed", 1)
    assert_refused(finished, "--seed 0, not 1")


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"settings": {"recipe": 3}, "seed": 0}'])
def test_damaged_settings_are_refused(desp: Desp, tiny: list[str], polygons: Path, content: str) -> None:
    (polygons / "settings.json").write_text(content)
    assert_refused(desp("train", "polygons-desp", "--run", polygons, *tiny, "--resume"), "damaged")
    assert_refused(desp("evaluate", polygons), "damaged")


def test_unknown_recipes_are_suggested(desp: Desp) -> None:
    assert_refused(desp("train", "polygon-desp"), "Did you mean polygons-desp", "desp recipes")
    assert_refused(desp("train", "xyzzy"), "There is no recipe 'xyzzy'", "desp recipes")


@pytest.mark.parametrize("name", ["", ".", "a" * 300])
def test_names_that_are_no_data(desp: Desp, name: str) -> None:
    finished = desp("train", name)
    assert_refused(finished, f"There is no recipe '{name}'.", "desp recipes")
    assert "--data" not in finished.message


def test_a_folder_of_a_near_name_may_be_meant_too(desp: Desp) -> None:
    Path("polygon-desp").mkdir()
    finished = desp("train", "polygon-desp")
    assert_refused(finished, "Did you mean polygons-desp", "desp train custom --data polygon-desp")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--data", "sets.jsonl"], ["recipe comes first, got --data", "desp train custom --data sets.jsonl"]),
        (["--run", "a"], ["recipe comes first, got --run", "desp train RECIPE --run DIR"]),
        (["sets.jsonl"], ["There is no recipe 'sets.jsonl'", "desp train custom --data sets.jsonl"]),
        (["custom", "sets.jsonl"], ["Data are named by --data: desp train custom --data sets.jsonl"]),
        (["custom", "--run", "a", "sets.jsonl"], ["desp train custom --data sets.jsonl"]),
        (["custom-contrastive", "sets.jsonl"], ["desp train custom-contrastive --data sets.jsonl"]),
        (["polygons-desp", "sets.jsonl"], ["desp train custom --data sets.jsonl"]),
    ],
)
def test_data_without_their_flag_or_recipe(desp: Desp, arguments: list[str], words: list[str]) -> None:
    Path("sets.jsonl").touch()
    assert_refused(desp("train", *arguments), *words)


@pytest.mark.parametrize("arguments", [["custom", "--data", "a", "b"], ["polygons-desp", "b"]])
def test_what_may_not_be_data_gets_no_advice(desp: Desp, arguments: list[str]) -> None:
    finished = desp("train", *arguments)
    assert_refused(finished, "Unrecognized options: b")
    assert "desp train custom --data" not in finished.message


@pytest.mark.parametrize(
    ("arguments", "boxes"),
    [
        (["--method.sampler.steps", "five"], 1),
        (["--method.sampler.steps", "five", "b"], 1),
        (["b"], 1),
        (["sets.jsonl"], 0),  # it is said what to do
    ],
)
def test_a_mistake_is_told_once(desp: Desp, arguments: list[str], boxes: int) -> None:
    Path("sets.jsonl").touch()
    finished = desp("train", "polygons-desp", *arguments)
    assert_refused(finished)
    assert finished.err.count("For full helptext") == boxes  # at the end of each box
    assert finished.err.count("desp train polygons-desp --help") == boxes


@pytest.mark.parametrize(
    ("chosen", "kind"),
    [([], "energy-denoising"), (["--use-method", "detector"], "detector")],
    ids=["own", "other"],
)
def test_the_method_whose_settings_are_meant_is_named(desp: Desp, chosen: list[str], kind: str) -> None:
    finished = desp("train", "custom", "--data", "a", *chosen, "--method.layers", 2)
    shown = " ".join(["desp train custom", *chosen, "--help"])
    words = f"The method is {kind}, which has no setting --method.layers. `{shown}` lists its settings."
    assert_refused(finished, words)


def test_unknown_commands_are_suggested(desp: Desp) -> None:
    assert_refused(desp("trian", "demo"), "Unknown command 'trian'", "Did you mean 'train'?", "desp --help")


def test_misspelt_settings_are_suggested(desp: Desp) -> None:
    finished = desp("train", "polygons-desp", "--run", "run", "--training.stepps", 5)
    assert_refused(finished, "--training.stepps", "--training.steps")
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--training.steps", "0", "steps must be positive, or None, got 0"),
        ("--training.steps", "many", "many"),
        ("--method.sampler.stochastic-steps", "200", "between 0 and the steps of the same chain (100)"),
        ("--device", "tpu", "tpu"),
        ("--task.corners", "2", "each at least 3"),
    ],
)
def test_settings_out_of_range_are_named(desp: Desp, option: str, value: str, words: str) -> None:
    finished = desp("train", "polygons-desp", "--run", "run", option, value)
    assert_refused(finished, words)
    assert not Path("run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_leaves_no_folder(desp: Desp, tiny: list[str]) -> None:
    assert_refused(desp("train", "polygons-desp", "--run", "run", *tiny, "--device", "cuda"), "--device cpu")
    finished = desp("train", "polygons-desp", "--run", "run", *tiny, "--engine", "graph")
    assert_refused(finished, "engine 'graph' needs a CUDA device")
    assert not Path("run").exists()


def test_a_seed_below_zero_is_refused(desp: Desp, tiny: list[str]) -> None:
    finished = desp("train", "polygons-desp", *tiny, "--seed", -1)
    assert finished.status == 2
    assert "The seed must be at least 0, got -1" in finished.message
    assert not Path("runs").exists()


def test_another_recipe_is_not_a_setting(desp: Desp, tiny: list[str]) -> None:
    finished = desp("train", "polygons-desp", *tiny, "--recipe", "digits-desp")
    assert finished.status == 2
    assert "The recipe is 'polygons-desp'" in finished.message
    assert "desp train digits-desp" in finished.message
    assert not Path("runs").exists()


def test_the_bar_moves_with_slow_steps_before_there_is_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("desp.training.bar.time.monotonic", lambda: now)
    bar = ProgressBar()
    shown = bar._progress.tasks[0]
    bar.on_start(0, 9)
    bar.on_step(1)
    assert shown.completed == 1
    bar.on_step(2)  # too soon to be drawn
    assert shown.completed == 1
    now += 1
    bar.on_step(3)
    assert shown.completed == 3
    bar.on_end()
