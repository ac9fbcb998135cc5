"""Rows of the benchmarks: complete, consistent and scaled; no time is asserted."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from desp.benchmarks import (
    BenchOptions,
    Row,
    chains,
    measure,
    sampler_rows,
    train_rows,
    write_record,
)
from desp.benchmarks.measure import timing
from desp.cli.bench import markdown
from desp.errors import SettingsError
from desp.precision import matmul_precision

CPU = torch.device("cpu")
FIELDS = {
    *("task", "engine", "device", "precision", "ms", "reference_ms", "speedup", "peak_mb", "compile_s"),
    *("steps", "measured_steps", "batch", "size"),
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Little work a row; and the precision of matrix products is as it was at the end."""
    few = tuple(replace(case, batch=2, size=min(case.size, 6)) for case in chains.CHAINS)
    monkeypatch.setattr(chains, "CHAINS", few)
    monkeypatch.setattr(measure, "SHORTEST_SAMPLE_S", 0.001)
    monkeypatch.setattr(measure, "WARM_UP_S", 0.001)
    before = torch.get_float32_matmul_precision()
    yield
    assert torch.get_float32_matmul_precision() == before


def options(**changes: Any) -> BenchOptions:
    return BenchOptions(CPU, **{"engine": "eager", "steps": 2, "repeats": 1, **changes})


def check_compared(row: Row) -> None:
    assert row.keys() >= FIELDS
    assert row["speedup"] == pytest.approx(row["reference_ms"] / row["ms"])
    assert (row["device"], row["precision"]) == ("cpu", "float32")
    assert row["ms"] > 0
    assert row["peak_mb"] >= 0
    assert row["compile_s"] > 0


def test_sampler_rows() -> None:
    told: list[Row] = []
    rows = sampler_rows(options(on_row=told.append))
    assert [row["task"] for row in rows] == ["polygons", "digits", "mnist", "clevr", "celeba"]
    assert told == rows
    for row in rows:
        check_compared(row)
        assert row["engine"] == "eager"
        assert row["measured_steps"] == 2 < row["steps"]


def test_chains_are_not_measured_beyond_their_end() -> None:
    (row,) = sampler_rows(options(tasks=("celeba",), steps=1000))
    assert row["measured_steps"] == row["steps"] == 50


def test_cpu_chains_are_cut_unless_told_otherwise() -> None:
    (row,) = sampler_rows(options(tasks=("celeba",), steps=None))
    assert (row["measured_steps"], row["steps"]) == (20, 50)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Work is done once and takes 2 ms the first time, 10 ms the second; with which precision and repeats."""
    calls: list[tuple[str, int]] = []

    def measured(work: Callable[[], object], device: torch.device, repeats: int) -> Row:
        work()
        calls.append((torch.get_float32_matmul_precision(), repeats))
        times = {"ms": 2.0 if len(calls) % 2 else 10.0, "spread_ms": 0.5 * len(calls)}
        return {**times, "compile_s": 3.0 * len(calls), "peak_mb": 4.0 * len(calls)}

    monkeypatch.setattr(chains, "measure", measured)
    return calls


def test_both_times_of_a_chain_are_scaled_to_its_length(clock: list[tuple[str, int]]) -> None:
    (row,) = sampler_rows(options(tasks=("celeba",), steps=5, repeats=3))
    assert clock == [("high", 3), ("highest", 3)]  # the reference computes as it was published
    found = {name: row[name] for name in ("ms", "reference_ms", "speedup", "compile_s", "peak_mb")}
    assert found == {"ms": 20.0, "reference_ms": 100.0, "speedup": 5.0, "compile_s": 3.0, "peak_mb": 4.0}
    assert row["reference_peak_mb"] == 8.0
    assert (row["spread_ms"], row["reference_spread_ms"]) == (5.0, 10.0)
    assert "captured_ms" not in row  # there are no CUDA graphs here


def test_a_timing_is_the_median() -> None:
    found = timing([0.003, 0.001, 0.02], first=7.0, peak_mb=1.26)
    assert found == {"ms": 3.0, "spread_ms": pytest.approx(19.0), "compile_s": 7.0, "peak_mb": 1.3}


def test_a_second_reference_stands_beside_the_first() -> None:
    times = [timing([seconds], first=1.0, peak_mb=1.0) for seconds in (0.002, 0.1, 0.0167)]
    row = measure.make_row("polygons", "graph", CPU, *times)
    assert (row["captured_ms"], row["captured_speedup"]) == (pytest.approx(16.7), pytest.approx(8.35))
    shown = markdown([row]).splitlines()
    cells = dict(zip(shown[0].split(" | "), shown[2].split(" | "), strict=True))
    assert (cells["speedup"], cells["captured_speedup"]) == ("50", "8.3")


@pytest.mark.parametrize("task", ["polygons", pytest.param("digits", marks=pytest.mark.long)])
def test_train_rows(task: str) -> None:
    (row,) = train_rows(options(tasks=(task,), steps=1, repeats=2))
    check_compared(row)
    assert row["task"] == task
    assert row["steps"] == row["measured_steps"] == 1
    assert (row["batch"], row["size"]) == (100, {"polygons": 8, "digits": 64}[task])


@pytest.mark.parametrize(
    ("measured", "known"),
    [(sampler_rows, "polygons"), (train_rows, "digits")],
)
def test_unknown_tasks_are_refused(measured: Callable[[BenchOptions], list[Row]], known: str) -> None:
    with pytest.raises(SettingsError, match=f"no task 'polygon'.*{known}"):
        measured(options(tasks=("polygon",)))


@pytest.mark.parametrize("wrong", [{"repeats": 0}, {"steps": 0}])
def test_wrong_numbers_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match=f"--{next(iter(wrong))} must be at least 1, got 0"):
        options(**wrong)


@pytest.mark.parametrize("repeats", [1, 4])
def test_measuring_calls_often_enough(repeats: int) -> None:
    calls: list[int] = []
    found = measure.measure(lambda: calls.append(1), CPU, repeats)
    assert len(calls) >= 2 + repeats
    assert found["ms"] >= 0


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the system cannot forget a peak")
def test_peak_memory_sees_what_was_held() -> None:
    """Pages that are written count, also when they are free again at the end."""
    grown_mb = measure.watch_memory(CPU)
    torch.ones(2**24).sum()
    assert grown_mb() > 32


def test_precision_is_put_back_after_an_error() -> None:
    before = torch.get_float32_matmul_precision()
    with pytest.raises(ZeroDivisionError), matmul_precision("high"):
        raise ZeroDivisionError
    assert torch.get_float32_matmul_precision() == before


def test_only_cuda_rounds_products() -> None:
    """Our precision allows tf32, which CPUs do not have."""
    found = timing([1.0], 1.0, 1.0)
    for device, precision in (("cpu", "float32"), ("cuda", "tf32")):
        assert measure.make_row("task", "eager", torch.device(device), found)["precision"] == precision


def test_record(tmp_path: Path) -> None:
    path = write_record(tmp_path, "sampler", [{"task": "polygons", "ms": float("nan")}], CPU)
    assert path == tmp_path / "sampler-cpu.json"
    record = json.loads(path.read_text())
    assert record["rows"] == [{"task": "polygons", "ms": None}]
    assert {"benchmark", "commit", "device", "versions", "command"} <= record.keys()
