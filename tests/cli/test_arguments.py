"""Every argument arrives where it is meant to, and so does every default."""

import inspect
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from desp import benchmarks
from desp.cli.bench import FIELDS
from desp.errors import RunError
from desp.paper import ablation
from desp.recipes import get_recipe
from desp.runs import evaluate, predict, train, tune
from desp.runs.folder import RunFolder
from desp.settings import AttentionSettings, ContrastiveSettings, EnergySettings, MethodSettings, RunSettings

Desp = Callable[..., Any]
Spy = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    """Ends a command where it would call a function of a module, and tells with which arguments."""

    def install(name: str, module: Any) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = []
        signature = inspect.signature(getattr(module, name))

        def note(*arguments: Any, **named: Any) -> None:
            bound = signature.bind(*arguments, **named)
            bound.apply_defaults()
            calls.append(dict(bound.arguments))
            raise RunError("as far as this test goes")

        monkeypatch.setattr(module, name, note)
        return calls

    return install


def only(calls: list[dict[str, Any]]) -> dict[str, Any]:
    (call,) = calls
    calls.clear()
    call.pop("progress", None)  # what shows it is made anew every time
    return {name: value.path if isinstance(value, RunFolder) else value for name, value in call.items()}


def test_train(desp: Desp, spy: Spy) -> None:
    calls = spy("train_run", train)
    assert desp("train", "polygons-desp").status == 2
    call = only(calls)
    assert call["settings"] == get_recipe("polygons-desp").build()
    assert (call["seed"], call["folder"], call["resume"]) == (0, Path("runs/polygons-desp-seed0"), False)
    assert call["callback"] is not None
    desp("train", "polygons-desp", "--seed", 4, "--training.batch-size", 3, "--device", "cpu")
    call = only(calls)
    expected = get_recipe("polygons-desp").build()
    expected = replace(expected, training=replace(expected.training, batch_size=3), device="cpu")
    assert (call["settings"], call["seed"]) == (expected, 4)
    assert call["folder"] == Path("runs/polygons-desp-seed4")
    desp("train", "polygons-desp", "--seed", 4, "--run", "elsewhere")
    assert only(calls)["folder"] == Path("elsewhere")


@pytest.mark.parametrize("option", [["--energy", "attention"], ["--energy=attention"]])
def test_train_with_another_energy(desp: Desp, spy: Spy, option: list[str]) -> None:
    calls = spy("train_run", train)
    desp("train", "polygons-denoising", *option)
    method = only(calls)["settings"].method
    width = get_recipe("polygons-denoising").build().method.width
    assert width != AttentionSettings().hidden
    assert method.energy == AttentionSettings(hidden=width)  # as wide as the recipe's
    assert method == get_recipe("polygons-denoising").build().method.with_part("energy", method.energy)


@pytest.mark.parametrize(
    "option",
    [
        ["--use-method", "contrastive"],
        ["--use-method=contrastive"],
        ["--use_method", "contrastive"],
        ["--use-method", "tspn", "--use-method", "contrastive"],
    ],
)
def test_train_with_another_method(desp: Desp, spy: Spy, option: list[str]) -> None:
    calls = spy("train_run", train)
    desp("train", "polygons-denoising", *option, "--method.data-noise", 0.03)
    settings = only(calls)["settings"]
    recipe = get_recipe("polygons-denoising").build()
    assert settings == replace(recipe, method=ContrastiveSettings(data_noise=0.03))


def test_the_help_lists_all_methods_and_energies_and_says_what_they_are(desp: Desp) -> None:
    text = " ".join(desp("train", "custom", "--help").out.replace("│", " ").split())
    for family in (MethodSettings, EnergySettings):
        for kind, item in family.kinds().items():
            assert item.summary
            assert f"{kind} ({item.summary})" in text


def test_train_on_own_data(desp: Desp, spy: Spy, vectors: Path) -> None:
    calls = spy("train_run", train)
    desp("train", "custom", "--data", vectors.name)
    settings = only(calls)["settings"]
    assert isinstance(settings, RunSettings)
    assert settings.task.path == str(vectors)  # whole, wherever one is later


def test_resume(desp: Desp, spy: Spy, polygons: Path) -> None:
    calls = spy("train_run", train)
    desp("train", "polygons-desp", "--run", polygons, "--resume", "--training.steps", 99)
    call = only(calls)
    saved, seed = RunFolder(polygons).load_settings()
    assert call["settings"] == replace(saved, training=replace(saved.training, steps=99))
    assert (call["seed"], call["folder"], call["resume"]) == (seed, polygons, True)


def test_demo(desp: Desp, spy: Spy) -> None:
    calls = spy("train_run", train)
    desp("demo")
    call = only(calls)
    assert call["settings"] == get_recipe("demo").build()
    assert (call["seed"], call["folder"], call["resume"]) == (0, Path("runs/demo"), False)
    desp("demo", "--run", "mine", "--seed", 5)
    call = only(calls)
    assert (call["seed"], call["folder"]) == (5, Path("mine"))


def test_evaluate(desp: Desp, spy: Spy, polygons: Path) -> None:
    calls = spy("evaluate_run", evaluate)
    desp("evaluate", polygons)
    usual = {"folder": polygons, "samples": 10, "distance": "chamfer", "protocol": "quick", "seeds": ()}
    assert only(calls) == usual
    desp("evaluate", polygons, "--samples", 7, "--distance", "hungarian", "--protocol", "full")
    assert only(calls) == {**usual, "samples": 7, "distance": "hungarian", "protocol": "full"}
    desp("evaluate", polygons, "--record", "results", "--variant", "tiny")
    assert only(calls) == {**usual, "protocol": "full"}


def test_own_data_are_scored_by_ten_predictions(desp: Desp, spy: Spy, vectors: Path) -> None:
    calls = spy("evaluate_run", evaluate)
    short = ["--training.steps", 1, "--training.batch-size", 2, "--method.energy.hidden", 4, "--device", "cpu"]
    desp("train", "custom", "--data", vectors, "--run", "run", *short, "--method.sampler.steps", 2)
    assert only(calls) == {
        "folder": Path("run"),
        "samples": 10,
        "distance": "chamfer",
        "protocol": "quick",
        "seeds": (),
    }


def test_predict(desp: Desp, spy: Spy, polygons: Path) -> None:
    calls = spy("predict_file", predict)
    desp("predict", polygons, "--input", "in.jsonl", "--output", "out.jsonl")
    assert list(only(calls).values()) == [polygons, Path("in.jsonl"), Path("out.jsonl"), None, 0, False, None]
    desp("predict", polygons, "--input", "in.jsonl", "--output", "out.jsonl", "--samples", 3, "--seed", 8)
    assert list(only(calls).values())[3:] == [3, 8, False, None]
    desp("predict", polygons, "--input", "in.jsonl", "--output", "out.jsonl", "--best")
    assert list(only(calls).values())[3:] == [None, 0, True, None]
    desp("predict", polygons, "--input", "in.jsonl", "--output", "out.jsonl", "--best", "--samples", 2)
    assert list(only(calls).values())[3:] == [2, 0, True, None]
    desp("predict", polygons, "--input", "in.jsonl", "--output", "out.jsonl", "--draw", "pictures")
    assert only(calls)["draw"] is not None


def test_ablate(desp: Desp, spy: Spy, polygons: Path) -> None:
    calls = spy("ablate_run", ablation)
    desp("ablate", polygons)
    call = only(calls)
    assert (call["folder"], call["ratios"]) == (polygons, (0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0))
    desp("ablate", polygons, "--ratios", 0.25, 0.75)
    call = only(calls)
    assert (call["ratios"], call["protocol"]) == ((0.25, 0.75), "quick")
    desp("ablate", polygons, "--record", "results", "--variant", "tiny")
    assert only(calls)["protocol"] == "full"


@pytest.mark.parametrize("reset", [False, True])
def test_tune(desp: Desp, spy: Spy, polygons: Path, reset: bool) -> None:
    tuned, put_back = spy("tune_run", tune), spy("reset_run", tune)
    desp("tune", polygons, *(["--reset"] if reset else []))
    assert (len(tuned), len(put_back)) == ((0, 1) if reset else (1, 0))
    call = only(put_back or tuned)
    assert call["folder"] == polygons
    assert call.get("protocol", "full") == "full"


def test_tune_on_fewer_examples(desp: Desp, spy: Spy, polygons: Path) -> None:
    tuned = spy("tune_run", tune)
    desp("tune", polygons, "--protocol", "quick")
    assert only(tuned)["protocol"] == "quick"


@pytest.mark.usefixtures("undrawn")
def test_report_makes_predictions_only_where_there_are_none(desp: Desp, spy: Spy, polygons: Path) -> None:
    calls = spy("sample_run", evaluate)
    assert desp("report", polygons).status == 0
    assert calls == []
    (polygons / "samples.json").unlink()
    assert desp("report", polygons).status == 2
    assert only(calls)["folder"] == polygons


ROW = {**dict.fromkeys(FIELDS), "device": "cpu", "task": "chain", "ms": 1234.5, "batch": 77, "repeats": 12.345}


@pytest.fixture
def benched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Which benchmarks were asked for, with which options; nothing is measured."""
    given: list[tuple[str, Any]] = []
    for name in benchmarks.BENCHMARKS:

        def measure(options: benchmarks.BenchOptions, name: str = name) -> list[dict[str, Any]]:
            given.append((name, options))
            return [options.tell(dict(ROW))]

        monkeypatch.setitem(benchmarks.BENCHMARKS, name, measure)
    return given


def test_bench(desp: Desp, benched: list[tuple[str, Any]]) -> None:
    assert desp("bench").status == 0
    what, options = benched.pop()
    found = (options.engine, options.tasks, options.steps, options.repeats, options.seed)
    assert (what, *found) == ("sampler", "auto", (), None, 5, 0)
    more = ["--device", "cpu", "--engine", "eager", "--tasks", "x", "y", "--steps", 9, "--repeats", 2, "--json"]
    finished = desp("bench", "train", *more)
    what, options = benched.pop()
    found = (options.device.type, options.engine, options.tasks, options.steps, options.repeats)
    assert (what, *found) == ("train", "cpu", "eager", ("x", "y"), 9, 2)
    assert json.loads(finished.out) == [ROW]


@pytest.mark.parametrize("what", list(benchmarks.BENCHMARKS))
def test_a_benchmark_is_shown_and_recorded_by_its_name(
    desp: Desp, benched: list[tuple[str, Any]], what: str
) -> None:
    finished = desp("bench", what, "--device", "cpu", "--record", "kept")
    assert finished.status == 0, finished.err
    assert [name for name, _ in benched] == [what]
    assert f"{what} on cpu" in finished.out
    assert "1234" in finished.out  # without powers of ten
    record = json.loads(Path(f"kept/{what}-cpu.json").read_text())
    assert (record["benchmark"], record["rows"]) == (what, [ROW])
    shown = desp("bench", what, "--device", "cpu", "--markdown").out.splitlines()
    assert shown == ["| task | batch | ms |", "| --- | --- | --- |", "| chain | 77 | 1234 |"]


def test_what_is_compiled_for_a_benchmark_is_compiled_anew(desp: Desp, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = []

    def measure(options: benchmarks.BenchOptions) -> list[dict[str, Any]]:
        folders.extend(os.environ[name] for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"))
        return [dict(ROW)]

    monkeypatch.setitem(benchmarks.BENCHMARKS, "sampler", measure)
    monkeypatch.setenv("TRITON_CACHE_DIR", "mine")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    assert desp("bench", "--device", "cpu").status == 0
    assert "mine" not in folders
    assert not any(Path(folder).exists() for folder in folders)
    assert os.environ["TRITON_CACHE_DIR"] == "mine"
    assert "TORCHINDUCTOR_CACHE_DIR" not in os.environ
