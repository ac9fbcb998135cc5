"""``desp reproduce``: what it runs, what it goes on with, what it says of failures."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from desp.errors import RunError
from desp.recipes import all_recipes, get_recipe, registry
from desp.settings import (
    SCHEMA,
    ContrastiveSettings,
    DeepSetsSettings,
    LangevinSettings,
    MnistSettings,
    RunSettings,
    to_json,
)
from desp.training.bar import ProgressBar
from tiny_clevr import write_tiny_clevr

Desp = Callable[..., Any]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What reproduce would run in processes of their own."""
    calls: list[list[str]] = []

    def call(self: object, command: list[str], log: Path) -> int:
        calls.append(command)
        return 7 if command[1] == "digits-desp" else 0

    monkeypatch.setattr("desp.runs.side_by_side.Processes.call", call)
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
    commands.clear()
    Path(run, "summary.json").unlink()  # the project's own results come without their runs
    found = desp("reproduce", "toy", "--seeds", 0, "--recipes", "polygons-desp", "--no-ablate")
    assert (found.status, commands) == (0, [])
    assert found.out == "polygons-desp seed 0: already recorded in results; not run again\n"


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
    values = {
        "recipe": "mnist-tspn",
        "seed": 0,
        "settings": {"schema": SCHEMA, **to_json(settings)},
        "data_fingerprint": None,
    }
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


def test_reproduce_on_generated_data(desp: Desp, commands: list[list[str]]) -> None:
    """Runs and results have names of their own, and are found again."""
    arguments = ("reproduce", "clevr", "--seeds", 1, "--recipes", "clevr-detector", "--generated")
    assert desp(*arguments).status == 0
    run = "runs/clevr-detector-generated-seed1"
    assert commands == [
        ["train", "clevr-detector", "--run", run, "--seed", "1", "--task.source", "generated"],
        ["evaluate", run, "--record", "results"],
    ]
    commands.clear()
    for path in (Path(run, "summary.json"), Path("results/clevr-detector-seed1.json")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    assert desp(*arguments).status == 0
    assert commands == [["evaluate", run, "--record", "results"]]  # the result of other data is none of it
    commands.clear()
    Path("results/clevr-detector-generated-seed1.json").write_text("{}")
    assert desp(*arguments).status == 0
    assert commands == []


def test_reproduce_finds_results_of_other_data(desp: Desp, commands: list[list[str]], tmp_path: Path) -> None:
    """Which data they are is told by the files alone."""
    folder = write_tiny_clevr(tmp_path / "data" / "clevr")
    for split in ("train", "val"):
        file = folder / "scenes" / f"CLEVR_{split}_scenes.json"
        file.write_text(file.read_text().replace("made up", "re-rendered"))
    for path in ("runs/clevr-detector-seed1/summary.json", "results/clevr-detector-re-rendered-seed1.json"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("{}")
    arguments = ("--seeds", 1, "--recipes", "clevr-detector", "--data-dir", tmp_path / "data")
    assert desp("reproduce", "clevr", *arguments).status == 0
    assert commands == []


@pytest.mark.parametrize(
    ("table", "flags", "message"),
    [
        ("toy", (), "'polygons-desp-paper' has no choice of data that are read or generated"),
        ("mnist", (), "'mnist-desp-paper' has no choice of data that are read or generated"),
        ("clevr", ("--data-dir", "."), "data are read or generated. Leave one of them out"),
    ],
)
def test_reproduce_refuses_to_generate(
    desp: Desp, commands: list[list[str]], table: str, flags: tuple[str, ...], message: str
) -> None:
    finished = desp("reproduce", table, "--generated", *flags)
    assert finished.status == 2
    assert message in " ".join(finished.err.split())
    assert commands == []


@pytest.mark.long
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
    assert "There is no table 'cifar'. Known are: toy, mnist" in desp("reproduce", "cifar").message
    assert "There is no table 'celebrities'" in desp("reproduce", "celebrities").message
    assert commands == []


# -- what is there already -----------------------------------------------------------------------------


def recorded(recipe: str, commit: str = "0" * 40, **training: Any) -> dict[str, Any]:
    settings = get_recipe(recipe).build()
    settings = replace(settings, training=replace(settings.training, **training))
    values = {"schema": SCHEMA, **to_json(settings)}
    return {"recipe": recipe, "seed": 0, "settings": values, "training": {"commit": commit}}


def test_results_of_other_settings_are_named_and_left_out(desp: Desp, commands: list[list[str]]) -> None:
    Path("results").mkdir()
    recipes = ("--recipes", "polygons-desp", "polygons-risk-chamfer")
    arguments = ("reproduce", "toy", "--seeds", 0, "--no-ablate", *recipes)
    Path("results/polygons-desp-seed0.json").write_text(json.dumps(recorded("polygons-desp", learning_rate=0.5)))
    finished = desp(*arguments)
    assert finished.status == 2
    assert "results/polygons-desp-seed0.json is of other settings (training.learning_rate" in finished.out
    assert "Name another folder with --results, or move it away" in finished.out
    assert {command[1] for command in commands if command[0] == "train"} == {"polygons-risk-chamfer"}
    assert "1 of 2 runs were left out" in finished.message
    commands.clear()
    Path("results/polygons-desp-seed0.json").write_text(json.dumps(recorded("polygons-desp")))
    assert desp(*arguments).status == 0
    assert {command[1] for command in commands if command[0] == "train"} == {"polygons-risk-chamfer"}


def test_a_run_of_other_settings_is_not_gone_on_with(desp: Desp, commands: list[list[str]]) -> None:
    """It would be refused when it is recorded, after all of its training."""
    run = Path("runs/polygons-desp-seed0")
    run.mkdir(parents=True)
    begun = recorded("polygons-desp", learning_rate=0.5)
    (run / "settings.json").write_text(json.dumps(begun | {"data_fingerprint": None}))
    finished = desp("reproduce", "toy", "--seeds", 0, "--recipes", "polygons-desp")
    assert finished.status == 2
    assert f"{run} is of other settings (training.learning_rate" in finished.out
    assert commands == []


def test_results_of_another_commit_stay_unless_the_same_is_asked_for(
    desp: Desp, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("results").mkdir()
    Path("results/polygons-desp-seed0.json").write_text(json.dumps(recorded("polygons-desp", commit="1" * 40)))
    arguments = ("reproduce", "toy", "--seeds", 0, "--recipes", "polygons-desp", "--no-ablate")
    assert "already recorded" in desp(*arguments).out
    finished = desp(*arguments, "--same-code")
    assert finished.status == 2
    assert f"is of another commit ({'1' * 40})" in finished.out
    monkeypatch.setenv("DESP_COMMIT", "1" * 40)
    assert desp(*arguments, "--same-code").status == 0
    monkeypatch.setenv("DESP_COMMIT", f"{'1' * 40}-dirty")
    assert "needs a commit without changes" in desp(*arguments, "--same-code").message
    assert commands == []


def parts(*commits: str | None) -> dict[str, Any]:
    return {"commit": "0" * 40, "parts": [{"from_step": 0, "commit": item} for item in commits]}


def test_ablations_are_checked_like_scores(desp: Desp, commands: list[list[str]]) -> None:
    Path("results/ablations").mkdir(parents=True)
    Path("results/polygons-desp-seed0.json").write_text(json.dumps(recorded("polygons-desp")))
    ablation = Path("results/ablations/polygons-desp-seed0.json")
    ablation.write_text(json.dumps(recorded("polygons-desp", learning_rate=0.5)))
    finished = desp(*ONE)
    assert finished.status == 2
    assert f"{ablation} is of other settings (training.learning_rate" in finished.out
    assert desp(*ONE, "--no-ablate").status == 0  # which uses none
    ablation.write_text(json.dumps(recorded("polygons-desp", commit="1" * 40)))
    assert f"{ablation} is of another commit ({'1' * 40})" in desp(*ONE, "--same-code").out
    assert desp(*ONE).status == 0
    assert commands == []


def test_a_run_is_checked_when_only_its_ablation_is_left(desp: Desp, commands: list[list[str]]) -> None:
    run = Path("runs/polygons-desp-seed0")
    run.mkdir(parents=True)
    begun = recorded("polygons-desp", learning_rate=0.5)
    (run / "settings.json").write_text(json.dumps(begun | {"data_fingerprint": None}))
    Path("results").mkdir()
    Path("results/polygons-desp-seed0.json").write_text(json.dumps(recorded("polygons-desp")))
    assert f"{run} is of other settings" in desp(*ONE).out
    assert desp(*ONE, "--no-ablate").status == 0
    assert commands == []


@pytest.mark.parametrize(("commits", "named"), [(("1" * 40, "0" * 40), "1" * 40), ((None, "0" * 40), "unknown")])
def test_every_part_of_training_must_be_of_the_same_code(
    desp: Desp, commands: list[list[str]], commits: tuple[str | None, ...], named: str
) -> None:
    """Of results, and of runs that are not recorded yet."""
    arguments = (*ONE, "--no-ablate", "--same-code")
    result = Path("results/polygons-desp-seed0.json")
    result.parent.mkdir()
    result.write_text(json.dumps(recorded("polygons-desp") | {"training": parts(*commits)}))
    assert f"{result} is of another commit ({named})" in desp(*arguments).out
    result.unlink()
    run = Path("runs/polygons-desp-seed0")
    run.mkdir(parents=True)
    (run / "summary.json").write_text(json.dumps({"commit": "0" * 40}))
    values = recorded("polygons-desp") | {"data_fingerprint": None}
    (run / "settings.json").write_text(json.dumps(values | {"parts": parts(*commits)["parts"]}))
    assert f"{run} is of another commit ({named})" in desp(*arguments).out
    assert commands == []
    (run / "settings.json").write_text(json.dumps(values))  # of an older version, which noted no parts
    assert desp(*arguments).status == 0
    (run / "summary.json").write_text(json.dumps({"commit": "1" * 40}))
    assert f"{run} is of another commit ({'1' * 40})" in desp(*arguments).out


def test_an_interrupted_table_goes_on(desp: Desp, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny recipe, trained in this process: stopped in the middle, gone on with, and not done again."""
    monkeypatch.setattr(registry, "_RECIPES", dict(registry._RECIPES))

    @registry.recipe(table="tiny", task="polygons", system="desp", scored="raw")
    def tiny_desp() -> RunSettings:
        """Made small."""
        usual = get_recipe("polygons-desp-paper").build()
        chain = LangevinSettings(steps=3, stochastic_steps=2, noise_scale=0.01)
        method = ContrastiveSettings(energy=DeepSetsSettings(hidden=8), training_sampler=chain, sampler=chain)
        training = replace(usual.training, steps=6, batch_size=8, log_every=1)
        return replace(usual, recipe="tiny-desp", method=method, training=training, device="cpu")

    done: list[str] = []

    def call(self: object, command: list[str], log: Path) -> int:
        done.append(" ".join(command))
        return int(desp(*command).status)

    def interrupt(self: ProgressBar, step: int, numbers: dict[str, float]) -> None:
        if step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("desp.runs.side_by_side.Processes.call", call)
    monkeypatch.setattr("desp.runs.side_by_side.ThreadPoolExecutor", Here)
    arguments = ("reproduce", "tiny", "--seeds", 0, "--no-ablate")
    with monkeypatch.context() as patch:
        patch.setattr(ProgressBar, "on_log", interrupt)
        assert "ended with status 130" in desp(*arguments).out
    begins = "tiny-desp seed 0: begins; log: runs/tiny-desp-seed0.log\n"
    assert desp(*arguments).out == f"{begins}tiny-desp seed 0: recorded\n"
    result = json.loads(Path("results/tiny-desp-seed0.json").read_text())
    assert [part["from_step"] for part in result["training"]["parts"]] == [0, 3]
    assert desp(*arguments).out == "tiny-desp seed 0: already recorded in results; not run again\n"
    assert [line.split()[0] for line in done] == ["train", "train", "evaluate"]
    assert done[1].endswith("--resume")


class Here(ThreadPoolExecutor):
    """Does everything at once in this thread, which alone gets signals."""

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*given, **named))
        return future


# -- processes -----------------------------------------------------------------------------------------

ONE = ("reproduce", "toy", "--seeds", 0, "--recipes", "polygons-desp")
Interpreter = Callable[[str], None]


@pytest.fixture
def interpreter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Interpreter:
    """Makes a shell script stand for Python, so that a child does in no time what is asked of it."""

    def install(script: str) -> None:
        path = tmp_path / "interpreter"
        path.write_text(f'#!/bin/sh\necho "$*" >> called\n{script}\n')
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return install


@pytest.mark.parametrize(("end", "status"), [("kill -9 $$", -9), ("kill -15 $$", -15), ("exit 1", 1)])
def test_a_child_that_is_killed_is_not_recorded(
    desp: Desp, interpreter: Interpreter, end: str, status: int
) -> None:
    interpreter(f"echo how it began; echo as far as it came\n{end}")
    finished = desp(*ONE)
    assert finished.status == 2
    assert f"ended with status {status}: as far as it came (see runs/polygons-desp-seed0.log)" in finished.out
    assert "recorded" not in finished.out
    assert "1 of 1 runs failed" in finished.err
    assert Path("called").read_text().splitlines() == [
        "-m desp train polygons-desp --run runs/polygons-desp-seed0 --seed 0"  # what needs it is not tried
    ]


def test_what_children_say_is_kept_in_the_log_of_their_run(desp: Desp, interpreter: Interpreter) -> None:
    interpreter('echo "out of $3"; echo "error of $3" >&2')
    finished = desp(*ONE, "--runs", "trained", "--results", "scored", "--no-ablate")
    assert finished.status == 0
    begins = "polygons-desp seed 0: begins; log: trained/polygons-desp-seed0.log\n"
    assert finished.out == f"{begins}polygons-desp seed 0: recorded\n"
    assert [line.split()[2:] for line in Path("called").read_text().splitlines()] == [
        ["train", "polygons-desp", "--run", "trained/polygons-desp-seed0", "--seed", "0"],
        ["evaluate", "trained/polygons-desp-seed0", "--record", "scored"],
    ]
    lines = ["out of train", "error of train", "out of evaluate", "error of evaluate"]
    log = Path("trained/polygons-desp-seed0.log")
    assert log.read_text().splitlines() == lines
    desp(*ONE, "--runs", "trained", "--results", "scored", "--no-ablate")
    assert log.read_text().splitlines() == lines * 2  # nothing of an earlier try is lost


def test_each_seed_is_named_once(desp: Desp) -> None:
    """Two jobs would train in one folder."""
    assert "--seeds: numbers from 0 on, each once, got 0 0" in desp("reproduce", "toy", "--seeds", 0, 0).message


def test_three_seeds_unless_others_are_named(desp: Desp, commands: list[list[str]]) -> None:
    assert desp("reproduce", "toy", "--recipes", "polygons-desp", "--no-ablate").status == 0
    trained = [command[3:] for command in commands if command[0] == "train"]
    assert trained == [[f"runs/polygons-desp-seed{seed}", "--seed", str(seed)] for seed in (0, 1, 2)]
    commands.clear()
    recipes = ["--recipes", "polygons-desp", "polygons-risk-chamfer"]
    assert desp("reproduce", "toy", "--seeds", 4, 3, *recipes).status == 0
    seeds = [command[5] for command in commands if command[0] == "train"]
    assert seeds == ["4", "4", "3", "3"]  # a whole table of one seed first


def test_no_seeds_are_refused(desp: Desp, commands: list[list[str]]) -> None:
    finished = desp("reproduce", "toy", "--seeds")
    assert finished.status == 2
    assert "--seeds" in finished.message
    assert commands == []


def test_no_jobs_are_refused(desp: Desp, commands: list[list[str]]) -> None:
    finished = desp("reproduce", "toy", "--jobs", 0)
    assert finished.status == 2
    assert "--jobs must be at least 1, got 0" in finished.message
    assert commands == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_as_many_jobs_as_are_asked_for_run_at_once(desp: Desp, monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    together, most, lock = [0], [0], threading.Lock()
    meeting = threading.Barrier(jobs, timeout=60)

    def call(self: object, command: list[str], log: Path) -> int:
        with lock:
            together[0] += 1
            most[0] = max(most[0], together[0])
        meeting.wait()  # no one leaves before all have come
        with lock:
            together[0] -= 1
        return 0

    monkeypatch.setattr("desp.runs.side_by_side.Processes.call", call)
    options = ["--seeds", 0, 1, "--no-ablate", "--recipes", "polygons-desp"]
    assert desp("reproduce", "toy", *options, *([] if jobs == 1 else ["--jobs", jobs])).status == 0
    assert most == [jobs]


def test_children_are_not_reached_by_the_ctrl_c_of_the_terminal(desp: Desp, interpreter: Interpreter) -> None:
    interpreter("echo $$ $(cut -d' ' -f6 /proc/$$/stat) >> sessions")
    assert desp(*ONE, "--no-ablate").status == 0
    for line in Path("sessions").read_text().splitlines():
        process, session = line.split()
        assert process == session


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_let_children_save_themselves_and_begin_no_other(
    desp: Desp, interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    interpreter("trap 'touch saved; exit 3' TERM\ntouch started\nfor _ in $(seq 200); do sleep 0.02; done")

    def interrupted(futures: Any) -> Iterator[Any]:
        for _ in range(3000):
            if Path("started").exists():
                os.kill(os.getpid(), number)
            time.sleep(0.01)
        raise RunError("no child was started")

    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("desp.runs.side_by_side.as_completed", interrupted)
    finished = desp("reproduce", "toy", "--seeds", 0, 1, "--recipes", "polygons-desp", "polygons-risk-chamfer")
    assert finished.status == 130
    assert "interrupted" in finished.err
    assert Path("saved").exists()
    assert len(Path("called").read_text().splitlines()) == 1
    assert signal.getsignal(signal.SIGTERM) is handler
