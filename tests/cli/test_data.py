"""`desp data`, and training, scoring and reporting on what it prepares."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from desp.cli.run_arguments import with_data_dir
from desp.data import mnist_files
from desp.data.mnist import load_mnist
from desp.recipes import registry
from desp.recipes.registry import Recipe
from desp.settings import (
    ContrastiveSettings,
    EnergyDenoisingSettings,
    MnistSettings,
    RunSettings,
    TrainingSettings,
)
from desp.tasks import mnist as mnist_task
from tiny_clevr import write_tiny_clevr

Desp = Callable[..., Any]
RECIPES = ("tiny-mnist", "tiny-mnist-contrastive")


def settings_of(name: str) -> RunSettings:
    """Command: ``desp train NAME``."""
    method = ContrastiveSettings() if name.endswith("contrastive") else EnergyDenoisingSettings()
    training = TrainingSettings(steps=3, batch_size=4, validate_every=3, warmup_steps=0)
    return RunSettings(recipe=name, task=MnistSettings(), method=method, training=training)


TINY = [
    *("--method.energy.hidden", "8"),
    *("--method.sampler.steps", "2"),
    *("--device", "cpu"),
]
CHAIN = [
    *("--method.sampler.stochastic-steps", "1"),
    *("--method.training_sampler.steps", "2"),
    *("--method.training_sampler.stochastic-steps", "2"),
]


@pytest.fixture(autouse=True)
def _recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two recipes of the paper's table that are only here."""
    for name in RECIPES:
        recipe = Recipe(
            name, lambda name=name: settings_of(name), "mnist", "set-mnist", "desp", "raw", None, None, "-"
        )
        monkeypatch.setitem(registry._RECIPES, name, recipe)


# -- files -----------------------------------------------------------------------------------------------


def test_data_are_checked_and_described(desp: Desp, tiny_mnist: Path) -> None:
    finished = desp("data", "mnist", "--data-dir", tiny_mnist)
    assert finished.status == 0, finished.err
    assert "all files are there, and their checksums are right" in finished.message
    assert "190 sets for training, 10 for validation, 30 for test; 0 to 16 points" in finished.message
    data = load_mnist("mnist", tiny_mnist)
    sizes = torch.cat([data.training.sizes, data.test.sizes])
    assert f"points, {sizes.double().mean():.1f} on average" in finished.message
    assert desp("data", "mnist", "--data-dir", tiny_mnist, "--no-download").out == finished.out


def test_missing_data_without_download(desp: Desp, tmp_path: Path) -> None:
    finished = desp("data", "mnist", "--data-dir", tmp_path / "none", "--no-download")
    assert finished.status == 2
    assert "error: The data of 'mnist' are not there: expected train-images-idx3-ubyte.gz" in finished.message
    assert f"desp data mnist --data-dir {tmp_path / 'none'}" in finished.message
    assert not (tmp_path / "none").exists()


def test_a_failed_download_lists_the_mirrors(desp: Desp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirrors = ("http://127.0.0.1:9/one", "http://127.0.0.1:9/two")  # nobody answers there
    monkeypatch.setitem(mnist_files.MIRRORS, "mnist", mirrors)
    finished = desp("data", "mnist", "--data-dir", tmp_path)
    assert finished.status == 2
    assert "error: train-images-idx3-ubyte.gz could not be fetched." in finished.message
    for mirror in mirrors:
        assert f"{mirror}/train-images-idx3-ubyte.gz (no answer" in finished.message


def test_a_damaged_file_is_named(desp: Desp, tiny_mnist: Path) -> None:
    path = tiny_mnist / "mnist" / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(b"broken")
    finished = desp("data", "mnist", "--data-dir", tiny_mnist)
    assert finished.status == 2
    assert f"error: {path}: expected the MD5 sum" in finished.message


def test_an_unknown_dataset_is_refused(desp: Desp) -> None:
    assert desp("data", "cifar").status == 2


# -- CLEVR -----------------------------------------------------------------------------------------------


def test_clevr_is_checked_cached_and_described(
    desp: Desp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_tiny_clevr(tmp_path / "data" / "CLEVR_v1.0", 22, 4)
    (folder / "images" / "val" / "CLEVR_val_000001.png").write_bytes(b"broken")
    (folder / "images" / "train" / "CLEVR_train_000003.png").unlink()
    finished = desp("data", "clevr", "--data-dir", tmp_path / "data")
    assert finished.status == 0, finished.err
    assert f"{folder}: CLEVR v1.0, images are cached" in finished.message
    assert (
        "20 images for training, 1 for validation, 3 for test; 0 to 10 objects, 4.7 on average" in finished.message
    )
    assert "train: 1 left out, 0 boxes clipped to their image" in finished.message
    assert "1 x the image of a scene is missing: scene 3 (CLEVR_train_000003.png)" in finished.message
    assert "1 x the image is broken: CLEVR_val_000001.png" in finished.message
    monkeypatch.setenv("DESP_DATA", str(tmp_path / "data"))
    assert desp("data", "clevr").out == finished.out


def test_missing_clevr_cannot_be_fetched(desp: Desp, tmp_path: Path) -> None:
    finished = desp("data", "clevr", "--data-dir", tmp_path)
    assert finished.status == 2
    assert "error: The data of CLEVR are not there: expected the folders images and scenes" in finished.message
    assert "must be downloaded by hand from its official page" in finished.message


def score_few_images(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Of the tiny MNIST, too."""
    monkeypatch.setattr(mnist_task, "PUBLISHED_TESTS", count)
    few = replace(mnist_task.SetMnistTask.protocols["quick"], test_examples=(count, None))
    few = replace(few, calibration_examples=count, validation_examples=count)
    monkeypatch.setattr(mnist_task.SetMnistTask, "protocols", {"full": few, "quick": few})


# -- training --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", [RECIPES[0], pytest.param(RECIPES[1], marks=pytest.mark.long)])
def test_from_files_to_a_report(
    desp: Desp, tiny_mnist: Path, monkeypatch: pytest.MonkeyPatch, recipe: str
) -> None:
    score_few_images(monkeypatch, 12)
    chain = CHAIN if recipe.endswith("contrastive") else []
    moved = ["--task.translate-fraction", "0.5"]
    finished = desp("train", recipe, "--run", "run", "--data-dir", tiny_mnist, *TINY, *chain, *moved)
    assert finished.status == 0, finished.err
    assert "trained 3 steps" in finished.message
    saved = json.loads(Path("run/settings.json").read_text())
    wanted = {"kind": "mnist", "dataset": "mnist", "data_dir": str(tiny_mnist), "translate_fraction": 0.5}
    assert saved["settings"]["task"] == wanted | {"validation_distance": "chamfer"}
    assert len(saved["data_fingerprint"]) == 32

    finished = desp("evaluate", "run", "--json")
    assert finished.status == 0, finished.err
    rows = {row["metric"]: row for row in json.loads(finished.out)}
    for metric in ("chamfer", "hungarian", "size_rmse_released"):
        assert rows[metric]["paper"] is not None
        assert rows[metric]["value"] is not None
        assert f"{metric}_returned" in rows
        assert f"{metric}_all" in rows
    assert rows["score"]["value"] == rows["chamfer"]["value"]
    assert rows["chamfer"]["data"] == "MNIST"
    assert "data_dir" not in " ".join(
        json.loads(Path("run/evaluation.json").read_text())["result"]["changed_settings"]
    )

    finished = desp("report", "run")
    assert finished.status == 0, finished.err
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert "Best, median and worst" in page
    assert "15 true sets beside their predictions: best, median, worst." in page
    assert "One answer is right: the true set on the left." in page

    Path("ask.jsonl").write_text(json.dumps({"input": [[0.5, 0.5], [0.6, 0.5]]}) + "\n")
    finished = desp("predict", "run", "--input", "ask.jsonl", "--output", "out.jsonl", "--samples", "2")
    assert finished.status == 0, finished.err


def test_a_run_can_go_on_where_its_data_have_moved(
    desp: Desp, tiny_mnist: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert desp("train", "tiny-mnist", "--run", "run", "--data-dir", tiny_mnist, *TINY).status == 0
    moved = tiny_mnist.rename(tiny_mnist.with_name("moved"))
    longer = ["--training.steps", "4", "--resume"]
    finished = desp("train", "tiny-mnist", "--run", "run", *longer)
    assert finished.status == 2
    assert "desp data mnist" in finished.message
    finished = desp("train", "tiny-mnist", "--run", "run", "--data-dir", moved, *longer)
    assert finished.status == 0, finished.err
    assert f"from now on run finds its data in {moved}" in caplog.messages
    monkeypatch.setenv("DESP_DATA", str(moved))
    assert desp("evaluate", "run").status == 0


def test_a_data_folder_is_remembered_as_a_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a run finds its data from wherever it is used; also where the settings have a relative one."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    plain = settings_of("tiny-mnist")
    relative = replace(plain, task=plain.task.with_location("data"))
    whole = str(tmp_path.resolve() / "data")
    for settings, data_dir in ((plain, Path("data")), (plain, Path("data/../data")), (relative, None)):
        assert with_data_dir(settings, data_dir).task.location == whole


def test_a_run_that_cannot_be_meant_is_refused_before_data_are_looked_for(
    desp: Desp, tiny_mnist: Path, polygons: Path
) -> None:
    arguments = ["--run", "run", "--data-dir", tiny_mnist, *TINY]
    assert desp("train", "tiny-mnist", *arguments).status == 0
    shutil.rmtree(tiny_mnist)
    refused = desp("train", "mnist-tspn", "--run", polygons, "--resume")
    assert refused.status == 2
    assert "belongs to recipe 'polygons-desp'" in refused.message
    assert "no S/T to vary" in desp("ablate", "run").message


@pytest.mark.usefixtures("undrawn")
def test_what_is_done_with_a_run_finds_data_that_have_moved(
    desp: Desp, tiny_mnist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score_few_images(monkeypatch, 4)
    arguments = ["--run", "run", "--data-dir", tiny_mnist, *TINY, *CHAIN]
    assert desp("train", "tiny-mnist-contrastive", *arguments).status == 0
    Path("run/samples.json").unlink()  # the report must make them again
    for command in ("evaluate", "ablate", "tune", "report"):
        before, tiny_mnist = tiny_mnist, tiny_mnist.rename(tmp_path / f"moved for {command}")
        finished = desp(command, "run")
        assert finished.status == 2, command
        assert "expected train-images-idx3-ubyte.gz" in finished.message
        assert str(before) in finished.message
        finished = desp(command, "run", "--data-dir", tiny_mnist)
        assert finished.status == 0, finished.message
        assert f"from now on run finds its data in {tiny_mnist}" in finished.err
        assert "from now on" not in desp(command, "run", "--data-dir", tiny_mnist).err
    assert desp("evaluate", "run").status == 0  # the last folder is remembered


@pytest.mark.parametrize("command", ["evaluate", "ablate", "tune", "report"])
def test_a_wrong_data_folder_is_not_remembered(desp: Desp, tiny_mnist: Path, tmp_path: Path, command: str) -> None:
    arguments = ["--run", "run", "--data-dir", tiny_mnist, *TINY, *CHAIN]
    assert desp("train", "tiny-mnist-contrastive", *arguments).status == 0
    before = Path("run/settings.json").read_bytes()
    (tmp_path / "empty").mkdir()
    refused = desp(command, "run", "--data-dir", tmp_path / "empty")
    assert refused.status == 2
    assert "expected train-images-idx3-ubyte.gz" in refused.message
    missing = desp(command, "run", "--data-dir", tmp_path / "none")
    assert f"there is no folder {tmp_path / 'none'}" in missing.message
    assert Path("run/settings.json").read_bytes() == before


@pytest.mark.parametrize("command", ["evaluate", "ablate", "tune", "report"])
def test_runs_without_a_dataset_take_no_data_folder(
    desp: Desp, polygons: Path, tmp_path: Path, command: str
) -> None:
    refused = desp(command, polygons, "--data-dir", tmp_path)
    assert refused.status == 2
    assert "'polygons-desp' does not. Leave it out" in refused.message


def test_missing_data_write_nothing(desp: Desp, tmp_path: Path) -> None:
    finished = desp("train", "tiny-mnist", "--run", "run", "--data-dir", tmp_path / "none", *TINY)
    assert finished.status == 2
    assert f"desp data mnist --data-dir {tmp_path / 'none'}" in finished.message
    assert not Path("run").exists()


@pytest.mark.parametrize("recipe", ["polygons-desp", "custom"])
def test_other_recipes_take_no_data_folder(desp: Desp, tmp_path: Path, recipe: str) -> None:
    data = ["--data", tmp_path / "x.jsonl"] if recipe == "custom" else []
    finished = desp("train", recipe, "--data-dir", tmp_path, *data)
    assert finished.status == 2
    assert f"--data-dir goes with runs that read a dataset; this one of '{recipe}' does not" in finished.message


def test_a_data_file_is_not_for_mnist(desp: Desp, tmp_path: Path) -> None:
    finished = desp("train", "tiny-mnist", "--data", tmp_path / "x.jsonl")
    assert finished.status == 2
    assert "'tiny-mnist' takes --data-dir" in finished.message


def test_tables_show_set_mnist(desp: Desp, tmp_path: Path) -> None:
    scores = {"score": 5e-5, "chamfer": 5e-5, "hungarian": 7e-5, "size_rmse_released": 0.25, "chamfer_all": 6e-5}
    result = {
        "recipe": "tiny-mnist",
        "seed": 0,
        "data": "MNIST",
        "scores": {"raw": scores, "returned": scores},
        "real_data": {},
        "changed_settings": [],
    }
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "tiny-mnist-seed0.json").write_text(json.dumps(result))
    finished = desp("tables", "--markdown", "--results", tmp_path / "results")
    shown = [re.split(r" *\| *", line)[3:6] for line in finished.out.splitlines()[2:]]
    assert shown == [
        ["chamfer (1e-5)", "6.00 ± 1", "5.00"],
        ["hungarian (1e-5)", "6.00 ± 1", "7.00"],
        ["size_rmse_released", "0.002 ± 0.003", "0.25"],
    ]
    finished = desp("tables", "--results", tmp_path / "results")
    assert "set-MNIST auto-encoding" in finished.out
    assert "chamfer_all" not in finished.out
    assert "chamfer_all" in desp("tables", "--all", "--results", tmp_path / "results").out
