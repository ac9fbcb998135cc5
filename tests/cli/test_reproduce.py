"""``desp reproduce``: what it runs, what it goes on with, what it says of failures."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from desp.recipes import all_recipes, get_recipe
from desp.settings import MnistSettings, to_json

Desp = Callable[..., Any]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What reproduce would run in processes of their own."""
    calls: list[list[str]] = []

    def call(self: object, command: list[str], log: Path) -> int:
        calls.append(command)
        return 7 if command[1] == "digits-desp" else 0

    monkeypatch.setattr("desp.cli.reproduce._Children.call", call)
    return calls


def test_reproduce_does_what_is_left(desp: Desp, commands: list[list[str]]) -> None:
    recipes = ["--recipes", "polygons-desp", "polygons-risk-chamfer"]
    assert desp("reproduce", "toy", "--seeds", 0, *recipes).status == 0
    run = "runs/polygons-desp-seed0"
    assert commands[:3] == [
        ["train", "polygons-desp", "--run", run, "--seed", "0"],
        ["evaluate", run, "--record", "results"],
        ["ablate", run, "--record", "results/ablations"],
    ]
    assert [command[0] for command in commands[3:]] == ["train", "evaluate"]  # direct risk has no S/T
    commands.clear()
    Path(run).mkdir(parents=True)
    Path(run, "settings.json").write_text("{}")  # begun, and not finished
    assert desp("reproduce", "toy", "--seeds", 0, "--recipes", "polygons-desp").status == 0
    assert commands[0] == ["train", "polygons-desp", "--run", run, "--seed", "0", "--resume"]
    commands.clear()
    for path in (Path(run, "summary.json"), Path("results/polygons-desp-seed0.json")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    assert desp("reproduce", "toy", "--seeds", 0, "--recipes", "polygons-desp").status == 0
    assert [command[0] for command in commands] == ["ablate"]


def test_reproduce_runs_a_whole_table(desp: Desp, commands: list[list[str]]) -> None:
    finished = desp("reproduce", "toy", "--seeds", 0, 1, "--no-ablate")
    trained = {(command[1], command[5]) for command in commands if command[0] == "train"}
    toy = [item.name for item in all_recipes() if item.table == "toy"]
    assert trained == {(name, seed) for name in toy for seed in ("0", "1")}
    assert not any(command[0] == "ablate" for command in commands)
    # One recipe fails, the others go on, and the end is not called a success.
    assert finished.status == 2
    assert f"2 of {2 * len(toy)} runs failed" in finished.err
    assert "ended with status 7" in finished.out


def test_reproduce_tells_where_a_dataset_is(desp: Desp, commands: list[list[str]], tiny_mnist: Path) -> None:
    desp("reproduce", "mnist", "--seeds", 0, "--data-dir", tiny_mnist, "--recipes", "mnist-desp-paper")
    assert commands[0][:2] == ["train", "mnist-desp-paper"]
    assert [command[0] for command in commands] == ["train", "evaluate", "ablate"]
    assert all(command[-2:] == ["--data-dir", str(tiny_mnist)] for command in commands)
    refused = desp("reproduce", "toy", "--data-dir", tiny_mnist)
    assert refused.status == 2
    assert "--data-dir goes with tables of datasets" in refused.err


def test_reproduce_looks_for_a_dataset_once(desp: Desp, commands: list[list[str]], tmp_path: Path) -> None:
    finished = desp("reproduce", "mnist", "--data-dir", tmp_path)
    assert finished.status == 2
    assert finished.err.count(f"desp data mnist --data-dir {tmp_path}") == 1
    missing = desp("reproduce", "mnist", "--data-dir", tmp_path / "none")
    assert f"there is no folder {tmp_path / 'none'}" in missing.message
    assert commands == []


def test_reproduce_looks_where_a_run_has_its_data(desp: Desp, commands: list[list[str]], tiny_mnist: Path) -> None:
    settings = get_recipe("mnist-tspn").build()
    settings = replace(settings, task=MnistSettings(data_dir=str(tiny_mnist)))
    values = {"recipe": "mnist-tspn", "seed": 0, "settings": to_json(settings), "data": None}
    Path("runs/mnist-tspn-seed0").mkdir(parents=True)
    Path("runs/mnist-tspn-seed0/settings.json").write_text(json.dumps(values))
    assert desp("reproduce", "mnist", "--seeds", 0, "--recipes", "mnist-tspn").status == 0
    assert [command[0] for command in commands] == ["train", "evaluate"]


def test_reproduce_needs_no_dataset_when_all_is_done(
    desp: Desp, commands: list[list[str]], tmp_path: Path
) -> None:
    for path in (Path("runs/mnist-tspn-seed0/summary.json"), Path("results/mnist-tspn-seed0.json")):
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    arguments = ["--seeds", 0, "--recipes", "mnist-tspn"]
    assert desp("reproduce", "mnist", "--data-dir", tmp_path, *arguments).status == 0
    assert commands == []


def test_reproduce_tells_why_a_run_failed(desp: Desp) -> None:
    run = Path("runs/polygons-desp-seed0")
    run.mkdir(parents=True)
    (run / "not of a run").touch()
    finished = desp("reproduce", "toy", "--seeds", 0, "--recipes", "polygons-desp")
    assert finished.status == 2
    assert f"{run} is not empty and not a run folder" in finished.out


def test_reproduce_refuses_recipes_of_other_tables(desp: Desp, commands: list[list[str]]) -> None:
    finished = desp("reproduce", "mnist", "--recipes", "polygons-desp", "mnist-tspn")
    assert finished.status == 2
    assert "Not in the table 'mnist': polygons-desp" in finished.err
    assert commands == []


def test_reproduce_refuses_unknown_names(desp: Desp, commands: list[list[str]]) -> None:
    assert desp("reproduce", "toy", "--recipes", "polygon").status == 2
    assert desp("reproduce", "cifar").status == 2
    assert commands == []
