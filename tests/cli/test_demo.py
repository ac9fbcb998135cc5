"""``desp demo``: the whole way, made short."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from desp.cli.demo import _percent
from desp.recipes import Recipe, get_recipe
from desp.settings import ContrastiveSettings, DeepSetsSettings, LangevinSettings, RunSettings

Desp = Callable[..., Any]


def tiny_demo() -> RunSettings:
    """The demo with next to no training."""
    demo = get_recipe("demo").build()
    chain = LangevinSettings(steps=3, stochastic_steps=3)
    method = ContrastiveSettings(
        energy=DeepSetsSettings(hidden=8), training_sampler=chain, sampler=replace(chain, stochastic_steps=2)
    )
    return replace(demo, method=method, training=replace(demo.training, steps=3, warmup_steps=0), device="cpu")


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, recipe = tiny_demo(), get_recipe("demo")

    def small(name: str) -> Recipe:
        return replace(recipe, build=lambda: settings)

    monkeypatch.setattr("desp.cli.demo.get_recipe", small)


def test_demo_trains_scores_and_reports(desp: Desp) -> None:
    finished = desp("demo")
    assert finished.status == 0
    for words in (
        "four to eight corners",
        "score ",
        "right number of corners",
        "report: runs/demo/report.html",
        " predict runs/demo --input runs/demo/five.jsonl",
    ):
        assert words in finished.out
    assert Path("runs/demo/report.html").stat().st_size > 10_000
    evaluation = json.loads(Path("runs/demo/evaluation.json").read_text())
    assert evaluation["result"]["protocol"]["name"] == "demo"
    for part in ("predicting", "scoring single sets", "comparing collections of sets", "calibration"):
        assert f"{part} ..." in finished.err  # no terminal: a line for each part


def test_the_demo_uses_one_thread_and_puts_the_others_back(desp: Desp, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    monkeypatch.setattr("desp.cli.demo.train", lambda *_, **__: threads.append(torch.get_num_threads()))
    torch.set_num_threads(2)
    try:
        assert desp("demo").status == 0
        threads.append(torch.get_num_threads())
    finally:
        torch.set_num_threads(1)
    assert threads == [1, 2]


def test_a_demo_that_another_process_trains_is_not_removed(desp: Desp) -> None:
    Path("runs/demo").mkdir(parents=True)
    Path("runs/demo/settings.json").write_text('{"recipe": "demo"}')
    hold = "import sys, time; from pathlib import Path; from desp.locks import sole_use\n"
    hold += "with sole_use(Path('runs/demo')): print('held', flush=True); time.sleep(60)"
    held = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE)
    assert held.stdout is not None
    held.stdout.readline()
    finished = desp("demo")
    held.kill()
    held.communicate()
    assert finished.status == 2
    assert f"in use: process {held.pid}" in finished.err
    assert Path("runs/demo/settings.json").exists()


def test_scoring_tells_how_far_it_is(desp: Desp) -> None:
    """As many parts as are told of are there, in order."""
    from desp.runs.evaluate import evaluate_run
    from desp.runs.folder import RunFolder

    assert desp("demo").status == 0
    told: list[tuple[str, int, int]] = []
    evaluate_run(RunFolder(Path("runs/demo")), protocol="demo", progress=lambda *news: told.append(news))
    assert [done for _, done, _ in told] == list(range(told[0][2]))


@pytest.mark.long  # it trains the demo twice
def test_demo_replaces_an_earlier_demo(desp: Desp) -> None:
    assert desp("demo", "--run", "here").status == 0
    assert desp("demo", "--run", "here", "--seed", 1).status == 0
    assert '"seed": 1' in Path("here/settings.json").read_text()


def test_demo_replaces_nothing_else(desp: Desp, polygons: Path) -> None:
    Path("photos").mkdir()
    Path("photos/cat.txt").write_text("cat")
    Path("bytes").mkdir()
    Path("bytes/settings.json").write_bytes(b"\xff")
    for path in ("photos", polygons, "photos/cat.txt", "bytes"):
        finished = desp("demo", "--run", path)
        assert finished.status == 2
        assert "something other than a demo" in finished.err
    assert Path("photos/cat.txt").read_text() == "cat"
    assert (polygons / "settings.json").exists()


@pytest.mark.usefixtures("without_matplotlib")
def test_demo_names_the_extra_it_needs_first(desp: Desp) -> None:
    finished = desp("demo")
    assert finished.status == 2
    assert 'pip install "desp[viz]"' in finished.err
    assert not Path("runs").exists()


def test_almost_all_is_not_called_all() -> None:
    assert [_percent(share) for share in (1.0, 0.9998, 0.99, 0.0)] == ["100.0 %", "99.9 %", "99.0 %", "0.0 %"]


def test_a_demo_that_cannot_begin_leaves_the_earlier_one(desp: Desp) -> None:
    assert desp("demo").status == 0
    finished = desp("demo", "--seed", "-1")
    assert finished.status == 2
    assert "at least 0, got -1" in finished.err
    assert Path("runs/demo/report.html").exists()
