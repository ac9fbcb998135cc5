"""``desp demo``: the whole way, made short."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

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
        " predict runs/demo --input five.jsonl",
    ):
        assert words in finished.out
    assert Path("runs/demo/report.html").stat().st_size > 10_000
    assert Path("runs/demo/evaluation.json").is_file()


@pytest.mark.long  # it trains the demo twice
def test_demo_replaces_an_earlier_demo(desp: Desp) -> None:
    assert desp("demo", "--run", "here").status == 0
    assert desp("demo", "--run", "here", "--seed", 1).status == 0
    assert '"seed": 1' in Path("here/settings.json").read_text()


def test_demo_replaces_nothing_else(desp: Desp, polygons: Path) -> None:
    Path("photos").mkdir()
    Path("photos/cat.txt").write_text("cat")
    for path in ("photos", polygons, "photos/cat.txt"):
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
