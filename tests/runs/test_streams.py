"""Runs in threads of one process, each on a CUDA stream of its own, are those of a process alone."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from accelerate import PartialState
from safetensors.torch import load_file
from tiny_runs import tiny

from desp.runs.folder import RunFolder
from desp.runs.side_by_side import Threads, Work, run_side_by_side
from desp.runs.train import train_run
from desp.settings import Device

SEEDS = (0, 1, 2, 3)


@dataclass(frozen=True)
class _Run(Work):
    place: Path

    @property
    def folder(self) -> Path:
        return self.place

    @property
    def log(self) -> None:
        return None

    def commands(self) -> Iterator[list[str]]:
        yield [str(self.place)]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_weights_are_those_of_runs_one_after_the_other(tmp_path: Path, device: Device) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    settings = replace(tiny(30), device=device)
    PartialState(cpu=device == "cpu")

    def run(command: list[str]) -> None:
        folder = Path(command[0])
        train_run(settings, int(folder.name[-1]), RunFolder(folder))

    alone = Threads(run)
    for seed in SEEDS:
        assert alone.call([str(tmp_path / f"alone{seed}")], None) == 0
    failed: list[str] = []
    jobs = [_Run(tmp_path / f"together{seed}") for seed in SEEDS]
    run_side_by_side(jobs, len(jobs), lambda _, problem: failed.extend([problem] if problem else []), Threads(run))
    assert failed == []
    for seed in SEEDS:
        one, other = (
            load_file(tmp_path / f"{name}{seed}" / "model" / "model.safetensors") for name in ("alone", "together")
        )
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_what_is_asked_to_stop_does_not_begin() -> None:
    begun: list[list[str]] = []
    threads = Threads(begun.append)
    assert threads.call(["one"], None) == 0
    threads.stop()
    assert threads.call(["two"], None) == 130
    assert begun == [["one"]]
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(Threads(begun.append).call, ["three"], None).result() == 0
    assert begun == [["one"], ["three"]]
