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
    base,
    chains,
    distance_rows,
    distances,
    floors,
    predict,
    predict_rows,
    sampler,
    sampler_rows,
    scaling,
    scaling_rows,
    timing,
    train_rows,
    write_record,
)
from desp.benchmarks.timing import Timing, measure
from desp.errors import SettingsError
from desp.precision import matmul_precision
from desp.report.figures.scaling import scaling_picture

CPU = torch.device("cpu")
FIELDS = {
    *("task", "engine", "device", "precision", "ms", "reference_ms", "speedup", "floor_ms", "share_of_floor"),
    *("peak_mb", "compile_s", "steps", "measured_steps", "batch", "size"),
}
SCALING_FIELDS = {"task", "vary", "value", "ms", "batch", "size", "steps", "engine", "device", "precision"}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Little work a row; and the precision of matrix products is as it was at the end."""
    few = tuple(replace(case, batch=2, size=min(case.size, 6)) for case in chains.CHAINS)
    for module in (chains, sampler):
        monkeypatch.setattr(module, "CHAINS", few)
    monkeypatch.setitem(floors.MATRIX_SIDE, "cpu", 64)
    monkeypatch.setitem(floors.COPIED_BYTES, "cpu", 2**16)
    monkeypatch.setattr(timing, "SHORTEST_SAMPLE_S", 0.001)
    monkeypatch.setattr(timing, "WARM_UP_S", 0.001)
    monkeypatch.setattr(distances, "SHAPES", ((2, 3, 2), (1, 5, 3)))
    for name, grid in (("BATCHES", (1, 2)), ("SIZES", (2, 4)), ("STEPS", (1, 3)), ("DISTANCE_SIZES", (2, 4))):
        monkeypatch.setattr(scaling, name, grid)
    monkeypatch.setitem(scaling.LARGE_SETS, "cpu", (1, 8))
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
        assert row["share_of_floor"] == pytest.approx(row["floor_ms"] / row["ms"])


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

    def measured(work: Callable[[], object], device: torch.device, repeats: int) -> Timing:
        work()
        calls.append((torch.get_float32_matmul_precision(), repeats))
        return Timing(2.0 if len(calls) % 2 else 10.0, 1.0, 3.0 * len(calls), 4.0 * len(calls))

    for module in (sampler, distances):
        monkeypatch.setattr(module, "measure", measured)
    return calls


def test_both_times_of_a_chain_are_scaled_to_its_length(clock: list[tuple[str, int]]) -> None:
    (row,) = sampler_rows(options(tasks=("celeba",), steps=5, repeats=3))
    assert clock == [("high", 3), ("highest", 3)]  # the reference computes as it was published
    found = {name: row[name] for name in ("ms", "reference_ms", "speedup", "compile_s", "peak_mb")}
    assert found == {"ms": 20.0, "reference_ms": 100.0, "speedup": 5.0, "compile_s": 3.0, "peak_mb": 4.0}
    assert row["reference_peak_mb"] == 8.0


def test_times_of_distances_are_what_was_measured(clock: list[tuple[str, int]]) -> None:
    for row in distance_rows(options(repeats=4)):
        assert (row["ms"], row["reference_ms"], row["speedup"]) == (2.0, 10.0, 5.0)
    assert {repeats for _, repeats in clock} == {4}


def test_distances_are_measured_between_different_sets() -> None:
    pairs = []

    def distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        pairs.append((a, b))
        return a.sum(dim=(1, 2))

    distances.time_distance(distance, (2, 3, 4), options(seed=1))
    assert {tuple(item.shape) for pair in pairs for item in pair} == {(2, 3, 4)}
    assert not any(torch.equal(a, b) for a, b in pairs)
    again = distances.random_sets((2, 3, 4), options(seed=1))
    assert torch.equal(pairs[0][0], again)
    assert not torch.equal(again, distances.random_sets((2, 3, 4), options(seed=0)))


def test_a_timing_is_the_median_and_tells_the_fastest() -> None:
    assert timing.timing_of([0.003, 0.001, 0.02], first=7.0, peak_mb=1.26) == Timing(3.0, 1.0, 7.0, 1.3)


@pytest.mark.parametrize("task", ["polygons", "digits"])
def test_train_rows(task: str) -> None:
    (row,) = train_rows(options(tasks=(task,), steps=1, repeats=2))
    check_compared(row)
    assert row["task"] == task
    assert row["steps"] == row["measured_steps"] == 1
    assert (row["batch"], row["size"]) == (100, {"polygons": 8, "digits": 64}[task])
    assert row["floor_ms"] > 0


def test_distance_rows() -> None:
    rows = distance_rows(options())
    assert [(row["task"], row["size"]) for row in rows] == [
        *(("chamfer", 3), ("chamfer", 5)),
        *(("hungarian", 3), ("hungarian", 5)),
    ]
    for row in rows:
        check_compared(row)
        assert row["floor_ms"] is row["share_of_floor"] is row["steps"] is None


def test_predict_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict, "PREDICTIONS", 3)
    monkeypatch.setattr(predict, "RECIPES", ("polygons-denoising", "digits-desp"))
    rows = predict_rows(options())
    assert [(row["task"], row["size"], row["steps"]) for row in rows] == [
        ("polygons-denoising", 8, 20),
        ("digits-desp", 64, 100),
    ]
    for row in rows:
        assert (row["engine"], row["precision"], row["predictions"]) == ("eager", "float32", 3)
        assert row["ms"] > 0


def test_scaling_rows_and_their_picture() -> None:
    told: list[Row] = []
    rows = scaling_rows(options(on_row=told.append))
    assert told == rows
    varied = [(row["task"], row["vary"], row["value"]) for row in rows]
    assert varied == [
        *(("chain", "batch", 1), ("chain", "batch", 2)),
        *(("chain", "size", 2), ("chain", "size", 4)),
        *(("chain", "steps", 1), ("chain", "steps", 3)),
        ("chain", "large sets", 8),
        *(("chamfer", "size", 2), ("chamfer", "size", 4)),
        *(("hungarian", "size", 2), ("hungarian", "size", 4)),
    ]
    for row in rows:
        assert row.keys() >= SCALING_FIELDS
        if row["vary"] != "steps":
            assert row["size" if row["vary"] == "large sets" else row["vary"]] == row["value"]
        assert row["steps"] == (row["value"] if row["vary"] == "steps" else 2 if row["task"] == "chain" else None)
    svg = scaling_picture(rows)
    for text in (b"milliseconds", b"hungarian", b"steps of a chain"):
        assert text in svg


def test_scaling_of_some_parts() -> None:
    rows = scaling_rows(options(tasks=("chamfer",)))
    assert {row["task"] for row in rows} == {"chamfer"}
    assert b"steps of a chain" not in scaling_picture(rows)


@pytest.mark.parametrize(
    ("measured", "known"),
    [(sampler_rows, "polygons"), (train_rows, "digits"), (distance_rows, "chamfer"), (scaling_rows, "chain")],
)
def test_unknown_tasks_are_refused(measured: Callable[[BenchOptions], list[Row]], known: str) -> None:
    with pytest.raises(SettingsError, match=f"no task 'polygon'.*{known}"):
        measured(options(tasks=("polygon",)))


@pytest.mark.parametrize("wrong", [{"repeats": 0}, {"steps": 0}])
def test_wrong_numbers_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match=f"--{next(iter(wrong))} must be at least 1, got 0"):
        options(**wrong)


def test_scaling_a_timing_leaves_first_call_and_memory() -> None:
    assert Timing(2.0, 1.0, 3.0, 4.0).scaled(5) == Timing(10.0, 5.0, 3.0, 4.0)


@pytest.mark.parametrize("repeats", [1, 4])
def test_measuring_calls_often_enough(repeats: int) -> None:
    calls: list[int] = []
    timing_ = measure(lambda: calls.append(1), CPU, repeats)
    assert len(calls) >= 2 + repeats
    assert 0 <= timing_.fastest_ms <= timing_.ms


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the system cannot forget a peak")
def test_peak_memory_sees_what_was_held() -> None:
    """Pages that are written count, also when they are free again at the end."""
    memory = timing.PeakMemory(CPU)
    torch.ones(2**24).sum()
    assert memory.mb() > 32


def test_precision_is_put_back_after_an_error() -> None:
    before = torch.get_float32_matmul_precision()
    with pytest.raises(ZeroDivisionError), matmul_precision("high"):
        raise ZeroDivisionError
    assert torch.get_float32_matmul_precision() == before


def test_only_cuda_rounds_products() -> None:
    with matmul_precision("high"):
        assert base.precision_name(CPU) == "float32"
        assert base.precision_name(torch.device("cuda")) == "tf32"
    with matmul_precision("highest"):
        assert base.precision_name(torch.device("cuda")) == "float32"


def test_record(tmp_path: Path) -> None:
    path = write_record(tmp_path, "sampler", [{"task": "polygons", "ms": float("nan")}], CPU)
    assert path == tmp_path / "sampler-cpu.json"
    record = json.loads(path.read_text())
    assert record["rows"] == [{"task": "polygons", "ms": None}]
    assert {"benchmark", "commit", "device", "versions", "command"} <= record.keys()
