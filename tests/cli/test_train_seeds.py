"""``desp train --seeds``: several runs from one command."""

import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

Desp = Callable[..., Any]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Path | None]]:
    """What would run in processes of their own; the one of seed 7 fails."""
    calls: list[tuple[list[str], Path | None]] = []

    def call(self: object, command: list[str], log: Path | None) -> int:
        calls.append((command, log))
        return 3 if command[-1] == "7" else 0

    monkeypatch.setattr("desp.runs.side_by_side.Processes.call", call)
    return calls


class Here(ThreadPoolExecutor):
    """Does everything at once in this thread."""

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*given, **named))
        return future


@pytest.fixture
def told(desp: Desp, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What commands say that run in this process, in place of their own."""
    said: list[str] = []

    def call(self: object, command: list[str], log: Path | None) -> int:
        finished = desp(*command)
        said.append(finished.message)
        return int(finished.status)

    monkeypatch.setattr("desp.runs.side_by_side.Processes.call", call)
    monkeypatch.setattr("desp.runs.side_by_side.ThreadPoolExecutor", Here)
    return said


def test_every_seed_is_trained_in_a_folder_of_its_own(desp: Desp, tiny: list[str]) -> None:
    """In real processes; the weights are those of a run alone."""
    finished = desp("train", "polygons-desp", "--run", "several", "--seeds", 0, 4, "--jobs", 2, *tiny)
    assert finished.status == 0, finished.err
    assert [json.loads(Path(f"several-seed{seed}/settings.json").read_text())["seed"] for seed in (0, 4)] == [0, 4]
    assert "trained 6 steps" in Path("several-seed4.log").read_text()
    assert desp("train", "polygons-desp", "--run", "alone", "--seed", 4, *tiny).status == 0
    ours, alone = (load_file(f"{name}/model/model.safetensors") for name in ("several-seed4", "alone"))
    assert all((ours[name] == alone[name]).all() for name in alone)


def test_one_more_seed_and_more_steps(desp: Desp, tiny: list[str], told: list[str]) -> None:
    assert desp("train", "polygons-desp", "--run", "several", "--seeds", 0, 3, *tiny).status == 0
    written = Path("several-seed0/model/model.safetensors").stat().st_mtime_ns
    finished = desp("train", "polygons-desp", "--run", "several", "--seeds", 0, 3, 4, "--resume", *tiny)
    assert finished.status == 0, finished.err
    assert len(told) == 5
    assert Path("several-seed0/model/model.safetensors").stat().st_mtime_ns == written  # what is finished stays
    assert Path("several-seed4/summary.json").is_file()
    longer = ["8" if item == "6" else item for item in tiny]
    desp("train", "polygons-desp", "--run", "several", "--seeds", 3, "--resume", *longer)
    assert json.loads(Path("several-seed3/summary.json").read_text())["steps"] == 8


def test_what_is_run(desp: Desp, commands: list[tuple[list[str], Path | None]]) -> None:
    assert desp("train", "polygons-desp", "--seeds", 1, 2, "--training.steps", 9, "--jobs=2").status == 0
    shared = ["train", "polygons-desp", "--training.steps", "9", "--run"]
    assert sorted(commands) == [
        (
            [*shared, f"runs/polygons-desp-seed{seed}", "--seed", str(seed)],
            Path(f"runs/polygons-desp-seed{seed}.log"),
        )
        for seed in (1, 2)
    ]
    commands.clear()
    assert desp("train", "polygons-desp", "--seeds", 1, "--run", "a/b").status == 0
    assert commands == [
        (["train", "polygons-desp", "--run", "a/b-seed1", "--seed", "1"], None)
    ]  # progress is shown


def test_what_begins_is_told_with_its_log(desp: Desp, commands: list[tuple[list[str], Path | None]]) -> None:
    finished = desp("train", "polygons-desp", "--seeds", 1, 7, "--jobs", 2)
    begun = [line for line in finished.out.splitlines() if "begins" in line]
    assert sorted(begun) == [f"seed {n}: begins; log: runs/polygons-desp-seed{n}.log" for n in (1, 7)]
    assert "next:" not in finished.out
    finished = desp("train", "polygons-desp", "--seeds", 1, "--run", "a")
    assert finished.out.splitlines() == ["seed 1: begins; folder: a-seed1", "seed 1: trained: a-seed1"]


def test_runs_with_logs_end_with_the_next_commands(
    desp: Desp, commands: list[tuple[list[str], Path | None]], vectors: Path
) -> None:
    finished = desp("train", "polygons-desp", "--seeds", 1, 2, "--jobs", 2, "--run", "a b")
    assert finished.out.splitlines()[-3:] == ["next:", "  desp evaluate 'a b-seed1'", "  desp report 'a b-seed1'"]
    finished = desp("train", "custom", "--data", vectors, "--seeds", 1, 2, "--jobs", 2, "--run", "own")
    shown = "  desp predict own-seed1 --input NEW.jsonl --output PREDICTED.jsonl --samples 5"
    assert finished.out.splitlines()[-2:] == ["next:", shown]


def test_what_was_begun_goes_on(desp: Desp, commands: list[tuple[list[str], Path | None]]) -> None:
    for seed, file in ((1, "settings.json"), (2, "settings.json"), (2, "summary.json")):
        Path(f"run-seed{seed}").mkdir(exist_ok=True)
        Path(f"run-seed{seed}", file).write_text("{}")
    arguments = ("train", "polygons-desp", "--run", "run", "--seeds", 1, 2, 3)
    refused = desp(*arguments)
    assert refused.status == 2
    assert "There are runs in run-seed1, run-seed2 already. Add --resume" in refused.message
    assert desp(*arguments, "--resume").status == 0
    assert [command[2:] for command, _ in commands] == [
        ["--resume", "--run", "run-seed1", "--seed", "1"],
        ["--resume", "--run", "run-seed2", "--seed", "2"],  # also a finished one, which checks its settings
        ["--run", "run-seed3", "--seed", "3"],
    ]


@pytest.mark.parametrize(
    ("recipe", "flags", "message"),
    [
        ("digits-desp", (), "belongs to recipe 'polygons-desp', not 'digits-desp'"),
        (
            "polygons-desp",
            ("--training.learning-rate", 0.5),
            "was begun with other settings (training.learning_rate",
        ),
        ("polygons-desp", ("--training.steps", "0_008"), None),
    ],
)
def test_a_finished_run_must_be_the_one_that_is_asked_for(
    desp: Desp, polygons: Path, told: list[str], recipe: str, flags: tuple[object, ...], message: str | None
) -> None:
    polygons.rename("run-seed0")
    finished = desp("train", recipe, "--run", "run", "--seeds", 0, "--resume", *flags)
    assert finished.status == (2 if message else 0), told
    assert (message or "trained 8 steps") in told[0]
    assert json.loads(Path("run-seed0/summary.json").read_text())["steps"] == (6 if message else 8)


def test_what_failed_after_training_is_done_when_it_is_resumed(desp: Desp, vectors: Path, told: list[str]) -> None:
    short = ("--training.steps", 2, "--training.batch-size", 8, "--method.sampler.steps", 3, "--device", "cpu")
    command = ("train", "custom", "--data", vectors, "--run", "run", "--seeds", 0, *short)
    assert desp(*command).status == 0, told
    Path("run-seed0/evaluation.json").unlink()
    assert desp(*command, "--resume").status == 0, told
    assert Path("run-seed0/evaluation.json").exists()


@pytest.mark.parametrize(("run", "begins"), [(".", "here/inside"), ("..", "here"), ("../a", "here/a")])
def test_folders_are_named_also_by_dots(
    desp: Desp,
    commands: list[tuple[list[str], Path | None]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    run: str,
    begins: str,
) -> None:
    inside = tmp_path / "here" / "inside"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    assert desp("train", "polygons-desp", "--seeds", 1, "--run", run).status == 0
    assert Path(commands[0][0][3]).resolve() == (tmp_path / f"{begins}-seed1").resolve()


def test_what_is_interrupted_says_how_all_seeds_go_on(desp: Desp, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("desp.cli.train_seeds.run_side_by_side", interrupted)
    finished = desp("train", "polygons-desp", "--seeds", 1, 2, "--run", "a b")
    assert finished.status == 130
    assert "go on with all seeds: desp train polygons-desp --seeds 1 2 --run 'a b' --resume" in finished.message


def test_one_that_fails_does_not_end_the_others(desp: Desp, commands: list[tuple[list[str], Path | None]]) -> None:
    finished = desp("train", "polygons-desp", "--seeds", 7, 8)
    assert finished.status == 2
    assert [command[-1] for command, _ in commands] == ["7", "8"]
    assert "seed 7: `desp train polygons-desp" in finished.out
    assert "1 of 2 seeds failed. To go on: desp train polygons-desp --seeds 7 8 --resume" in finished.message


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--seed", 1, "--seeds", 1, 2), "--seed is one seed, --seeds are several. Leave one of them out."),
        (("--seeds", 1, 1), "each once, got 1 1"),
        (("--seeds", "-1"), "--seeds"),
        (("--seeds", 1, "--jobs", 0), "--jobs must be at least 1, got 0"),
        (("--seeds",), "--seeds needs at least one number"),
        (("--seeds", "--jobs", 2), "--seeds needs at least one number"),
        (("--seeds", 1, "--run", "/"), "/ has no name. Choose another one."),
        (("--jobs", 2), "--jobs goes with several seeds: --seeds 0 1 2"),
        (("--seeds", 1, "--training.stepz", 3), "--training.stepz"),
    ],
)
def test_what_does_not_go_together_is_refused(
    desp: Desp, commands: list[Any], flags: tuple[object, ...], message: str
) -> None:
    finished = desp("train", "polygons-desp", *flags)
    assert finished.status == 2
    assert message in finished.message
    assert commands == []


def test_not_within_several_processes(desp: Desp, commands: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "Leave `accelerate launch` out" in desp("train", "polygons-desp", "--seeds", 1, 2).message
    assert commands == []
