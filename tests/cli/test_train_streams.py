"""``desp train --seeds ... --streams``: several runs at the same time in threads of one process."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from desp.runs.train import train_run

Desp = Callable[..., Any]


def weights(run: str) -> dict[str, Any]:
    return dict(load_file(f"{run}/model/model.safetensors"))


def test_runs_are_those_of_processes(desp: Desp, tiny: list[str]) -> None:
    finished = desp("train", "polygons-desp", "--run", "several", "--seeds", 0, 4, 5, "--streams", *tiny)
    assert finished.status == 0, finished.err
    assert [f"seed {seed}: trained: several-seed{seed}" in finished.out for seed in (0, 4, 5)] == [True] * 3
    for seed in (0, 4, 5):
        assert json.loads(Path(f"several-seed{seed}/settings.json").read_text())["seed"] == seed
        log = Path(f"several-seed{seed}.log").read_text()
        assert [f"several-seed{other}" in log for other in (0, 4, 5)] == [other == seed for other in (0, 4, 5)]
        assert "trained 6 steps" in log
        assert (Path(f"several-seed{seed}") / "samples.json").is_file()
    assert desp("train", "polygons-desp", "--run", "alone", "--seed", 4, *tiny).status == 0
    ours, alone = weights("several-seed4"), weights("alone")
    assert all((ours[name] == alone[name]).all() for name in alone)


def test_one_that_fails_does_not_end_the_others(desp: Desp, tiny: list[str]) -> None:
    Path("several-seed1").mkdir()
    (Path("several-seed1") / "something").write_text("else")
    finished = desp("train", "polygons-desp", "--run", "several", "--seeds", 0, 1, "--streams", *tiny)
    assert finished.status == 2
    assert "seed 0: trained" in finished.out
    assert "seed 1: `desp train polygons-desp" in finished.out
    assert "ended with status 2: error: " in finished.out
    assert "1 of 2 seeds failed. To go on: desp train polygons-desp" in finished.message


def test_interrupted_runs_are_saved_and_go_on(desp: Desp, tiny: list[str]) -> None:
    """Bit for bit as if they had not been interrupted."""
    long = ["250" if item == "6" else item for item in tiny]
    command = ["train", "polygons-desp", "--run", "several", "--seeds", "0", "1", "--streams"]
    process = subprocess.Popen([sys.executable, "-m", "desp", *command, *long], stderr=subprocess.PIPE, text=True)
    logs = [Path(f"several-seed{seed}/log.jsonl") for seed in (0, 1)]
    while process.poll() is None and not all(log.exists() and log.read_text().count("\n") > 2 for log in logs):
        time.sleep(0.05)
    process.terminate()
    _, err = process.communicate(timeout=100)
    assert process.returncode == 130, err
    assert "interrupted. To go on with all seeds: desp train polygons-desp --run several" in " ".join(err.split())
    for seed in (0, 1):
        assert "--resume" in Path(f"several-seed{seed}.log").read_text()
        assert not Path(f"several-seed{seed}/model").exists()
    assert desp(*command, "--resume", *long).status == 0
    assert desp("train", "polygons-desp", "--run", "alone", "--seed", 1, *long).status == 0
    ours, alone = weights("several-seed1"), weights("alone")
    assert all((ours[name] == alone[name]).all() for name in alone)


def test_an_error_that_nobody_foresaw_does_not_end_the_others(
    desp: Desp, tiny: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(settings: object, seed: int, *given: object, **named: object) -> object:
        if seed == 1:
            raise RuntimeError("CUDA out of memory")
        return train_run(settings, seed, *given, **named)

    monkeypatch.setattr("desp.runs.train.train_run", out_of_memory)
    finished = desp("train", "polygons-desp", "--run", "several", "--seeds", 0, 1, "--streams", *tiny)
    assert finished.status == 2
    assert "seed 0: trained" in finished.out
    assert "seed 1: RuntimeError: CUDA out of memory" in finished.out
    assert "1 of 2 seeds failed. To go on:" in finished.message


def test_standard_output_may_be_closed(tiny: list[str]) -> None:
    command = ["train", "polygons-desp", "--run", "several", "--seeds", "0", "1", "--streams", *tiny]
    closed = subprocess.run(
        ["bash", "-c", 'exec "$@" >&-', "bash", sys.executable, "-m", "desp", *command],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert closed.returncode == 0, closed.stderr
    assert (Path("several-seed1") / "model").is_dir()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--streams",), "--streams goes with several seeds: --seeds 0 1 2"),
        (("--seeds", 0, 1, "--streams", "--jobs", 2), "--jobs some. Leave one of them out."),
    ],
)
def test_what_does_not_go_together_is_refused(desp: Desp, flags: tuple[object, ...], message: str) -> None:
    finished = desp("train", "polygons-desp", *flags)
    assert finished.status == 2
    assert message in finished.message
