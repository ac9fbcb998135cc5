"""``desp bench``, end to end."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from desp.cli.bench import markdown

Desp = Callable[..., Any]
QUICK = ("--steps", "2", "--repeats", "1", "--device", "cpu", "--engine", "eager")


def test_sampler_as_json(desp: Desp) -> None:
    finished = desp("bench", "sampler", "--tasks", "polygons", *QUICK, "--json")
    assert finished.status == 0, finished.err
    (row,) = json.loads(finished.out)
    assert (row["task"], row["engine"], row["measured_steps"], row["steps"]) == ("polygons", "eager", 2, 100)
    assert row["speedup"] == pytest.approx(row["reference_ms"] / row["ms"])


def test_sampler_is_the_default_and_shows_a_table(desp: Desp) -> None:
    finished = desp("bench", "--tasks", "celeba", *QUICK)
    assert finished.status == 0, finished.err
    for word in ("sampler on cpu", "celeba", "speedup", "measured_steps"):
        assert word in finished.out


def test_train(desp: Desp) -> None:
    finished = desp("bench", "train", "--tasks", "polygons", *QUICK, "--json")
    assert finished.status == 0, finished.err
    (row,) = json.loads(finished.out)
    assert (row["task"], row["steps"], row["batch"]) == ("polygons", 2, 100)


def test_rows_are_recorded(desp: Desp) -> None:
    finished = desp("bench", "--tasks", "celeba", *QUICK, "--record", "measured")
    assert finished.status == 0, finished.err
    record = json.loads(Path("measured/sampler-cpu.json").read_text())
    assert [row["task"] for row in record["rows"]] == ["celeba"]
    assert record["commit"] == "0" * 40
    assert {"device", "versions", "command"} <= record.keys()


def test_an_unknown_task_is_named(desp: Desp) -> None:
    finished = desp("bench", "sampler", "--tasks", "polygon", *QUICK)
    assert finished.status == 2
    assert "There is no task 'polygon' in this benchmark. It has: polygons, digits, mnist" in finished.err


def test_an_unknown_benchmark_is_refused(desp: Desp) -> None:
    finished = desp("bench", "everything")
    assert finished.status == 2
    assert "sampler" in finished.message


def test_a_graph_needs_cuda(desp: Desp) -> None:
    finished = desp(
        "bench", "sampler", "--tasks", "celeba", "--device", "cpu", "--engine", "graph", "--steps", "1"
    )
    assert finished.status == 2
    assert "needs a CUDA device" in finished.err


def test_markdown_has_the_measured_rows(desp: Desp) -> None:
    finished = desp("bench", "sampler", "--tasks", "celeba", *QUICK, "--markdown")
    assert finished.status == 0, finished.err
    assert finished.out.startswith("| task | batch | size |")
    assert "| celeba | 64 | 5 | 50 | 2 | eager |" in finished.out


def test_a_field_that_only_some_rows_have_is_shown_with_gaps() -> None:
    rows = [{"task": "a", "ms": 99.94}, {"task": "b", "ms": 1234.5, "speedup": 2.0, "floor_ms": None}]
    assert markdown(rows).splitlines() == [
        "| task | ms | speedup |",
        "| --- | --- | --- |",
        "| a | 99.9 | - |",
        "| b | 1234 | 2 |",
    ]


def test_the_study_of_subsets_shows_how_many_sets_are_drawn_a_second() -> None:
    rows = [{"task": "celeba", "batch": 64, "ms": 2.0, "sets_per_s": 32000.0}]
    assert markdown(rows).splitlines()[::2] == [
        "| task | batch | ms | sets_per_s |",
        "| celeba | 64 | 2 | 32000 |",
    ]
