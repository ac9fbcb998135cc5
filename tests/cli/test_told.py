"""What commands say: troubles, numbers where they belong, and the status they end with."""

import contextlib
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from desp.cli import common, main
from desp.recipes import all_recipes
from desp.runs import evaluate, folder, predict, train, tune
from desp.runs.predict import WrittenPredictions
from desp.tasks.polygons import PolygonsTask
from desp.training.bar import ProgressBar

Desp = Callable[..., Any]


@pytest.fixture
def with_outcome(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets training end as is said, whatever it did."""
    train_run = train.train_run

    def install(**changes: Any) -> None:
        monkeypatch.setattr(train, "train_run", lambda *a, **k: replace(train_run(*a, **k), **changes))

    return install


def notes(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("note:")]


def test_a_training_without_trouble_says_nothing(
    desp: Desp, tiny: list[str], with_outcome: Callable[..., None]
) -> None:
    with_outcome(score_step=6, rollbacks=0)
    assert notes(desp("train", "polygons-desp", "--run", "a", *tiny).out) == []
    with_outcome(score_step=None, rollbacks=0)
    finished = desp("train", "polygons-desp", "--run", "b c", *tiny)
    assert notes(finished.out) == []
    assert finished.out.splitlines()[0].startswith("trained 6 steps in ")
    assert finished.out.splitlines()[0].endswith(" s: b c")
    assert finished.out.splitlines()[1:] == ["next:", "  desp evaluate 'b c'", "  desp report 'b c'"]


def test_troubles_of_training_are_told(desp: Desp, tiny: list[str], with_outcome: Callable[..., None]) -> None:
    with_outcome(rollbacks=3, score_step=None)
    (note,) = notes(desp("train", "polygons-desp", "--run", "a", *tiny).out)
    assert "training diverged and rolled back (3 x), halving the learning rate each time" in note
    assert "--training.learning-rate" in note
    with_outcome(rollbacks=0, score_step=4)
    (note,) = notes(desp("train", "polygons-desp", "--run", "b", *tiny).out)
    assert "validation was best at step 4 of 6; those weights are kept" in note
    with_outcome(rollbacks=1, score_step=2)
    assert len(notes(desp("train", "polygons-desp", "--run", "c", *tiny).out)) == 2


def test_a_training_that_fails_and_goes_back_is_told_by_the_command(
    desp: Desp, tiny: list[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here it truly fails, once: the loss of its first step is not a number."""
    from desp.methods import Contrastive

    forward, failures = Contrastive.forward, [True]

    def failing(self: Contrastive, *arguments: Any) -> Any:
        loss, statistics = forward(self, *arguments)
        return (loss * float("nan") if failures and failures.pop() else loss), statistics

    monkeypatch.setattr(Contrastive, "forward", failing)
    finished = desp("train", "polygons-desp", "--run", "a", *tiny, "--training.on-divergence", "rollback")
    assert finished.status == 0, finished.err
    assert "rolled back (1 x)" in notes(finished.out)[0]
    assert any("Rolling back to step 0 with half the learning rate" in message for message in caplog.messages)


# -- the bar of training ---------------------------------------------------------------------------------


def test_the_bar_shows_where_training_is() -> None:
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        bar = ProgressBar()
        (shown,) = bar._progress.tasks
        bar.on_start(3, 9)
        assert (shown.completed, shown.total) == (3, 9)
        bar.on_log(5, {"loss": 0.12345, "risk": 7.0})
        assert (shown.completed, shown.fields["numbers"]) == (5, "loss 0.123")
        bar.on_validation_start(6)
        assert (shown.completed, shown.fields["numbers"]) == (6, "validating")
        bar.on_validation_end(6, 0.123456, best=True)
        bar.on_validation_end(7, 2.5, best=False)
        bar.on_rollback(8, 4)
        assert shown.completed == 4
        bar.on_end()
    lines = [line.strip() for line in err.getvalue().splitlines()]
    assert "step 6: validation score 0.1235 (best)" in lines
    assert "step 7: validation score 2.5" in lines


# -- numbers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (3, "3"), (12345, "12345"), (0.123456, "0.123"), (1e-5, "1e-05"), ("a", "a")]
)
def test_numbers_for_people(value: object, text: str) -> None:
    assert common.number(value) == text


def cells(text: str, name: str) -> list[str]:
    """The cells of the first line of a table that has this cell."""
    for line in text.splitlines():
        row = [cell.strip() for cell in line.replace("┃", "│").strip("│ ").split("│")]
        if name in row:
            return row
    raise AssertionError(f"no line with {name}")


def test_recipes_are_listed_with_what_they_are(desp: Desp) -> None:
    text = desp("recipes").out
    listed = {item["name"]: item for item in json.loads(desp("recipes", "--json").out)}
    for item in all_recipes():
        facts = [item.name, item.table or "-", item.task, item.system, item.scored]
        facts += [common.number(item.expected), common.number(item.minutes), item.hardware]
        assert cells(text, item.name)[:8] == facts
        assert listed[item.name]["minutes"] == item.minutes
        assert listed[item.name]["hardware"] == item.hardware
        assert listed[item.name]["expected"] == item.expected
        assert listed[item.name]["summary"] == item.summary
        assert (listed[item.name]["paper"] is None) or item.table is not None


def test_the_rows_of_an_evaluation_are_in_their_columns(desp: Desp, polygons: Path) -> None:
    rows = {row["metric"]: row for row in json.loads(desp("evaluate", polygons, "--json").out)}
    text = desp("evaluate", polygons).out
    assert "polygons-desp, seed 0" in text
    score = rows["score"]
    numbers = [common.number(score[name]) for name in ("paper", "raw", "returned", "real_data")]
    shown = cells(text, "score")
    assert shown == ["score", "lower", *numbers]
    assert cells(text, "metric") == ["metric", "better", "paper", "raw", "returned", "real data"]
    assert f"\nsteps of training: {score['steps']}. ended by: shortened. roll-backs: 0\n" in text
    assert "\ndata: generated\n" in text
    assert "sets_per_collection 6" in text  # polygons are compared as collections
    assert "calibration_examples 50" in text
    assert "validation_examples" not in text
    assert (score["ended_by"], score["rollbacks"]) == ("shortened", 0)
    assert score["steps"].startswith("6 of ")
    details = json.loads((polygons / "evaluation.json").read_text())["details"]
    assert all(f"\n{name}: " in text for name in details)
    ranks = ", ".join(common.number(share) for share in details["calibration"]["histogram"])
    assert f"histogram {ranks}" in text


def test_the_rows_of_an_ablation_are_in_their_columns(desp: Desp, polygons: Path) -> None:
    text = desp("ablate", polygons, "--ratios", 0, 1).out
    ablation = json.loads((polygons / "ablation.json").read_text())
    names = ("ratio", "stochastic_steps", "score", "score_returned", "energy", "size_rmse")
    assert cells(text, "ratio")[:2] == ["ratio", "stochastic_steps"]
    assert cells(text, "ratio")[2:6] == ["score (raw)", "score (returned)", "energy (raw)", "size_rmse (returned)"]
    for row in ablation["rows"]:
        expected = [common.number(row[name]) for name in names]
        assert cells(text, expected[2])[:6] == expected
    assert "polygons-desp, seed 0: S/T of T = 3 (generated)" in " ".join(text.split())
    assert f"picture: {polygons / 'ablation.png'}" in text
    assert "sets_per_collection 6" in text
    assert "calibration_examples" not in text


def test_an_ablation_tells_no_counts_of_what_its_task_does_not_score(
    desp: Desp, polygons: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PolygonsTask, "compares_collections", False)
    lines = desp("ablate", polygons, "--ratios", 0).out.splitlines()
    (protocol,) = [line for line in lines if line.startswith("protocol quick: ")]
    assert "test_examples" in protocol
    assert "sets_per_collection" not in protocol


def test_tuning_lists_the_best_first_and_marks_the_chosen(
    desp: Desp, polygons: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {"steps": 3, "noise_scale": 0.5}
    candidates = [
        {"sampler": before, "score": 2.0, "seconds": 1.0},
        {"sampler": {**before, "steps": 6}, "score": None, "seconds": 4.0},
        {"sampler": {**before, "noise_scale": 0.25}, "score": 1.0, "seconds": 3.0},
    ]
    tuning = {"recipe": "polygons-desp", "seed": 5, "before": before, "examples": 77, "candidates": candidates}

    def tune_run(_: folder.RunFolder, tell: Callable[[dict[str, Any]], None], __: str) -> dict[str, Any]:
        for candidate in candidates:
            tell(candidate)
        return {**tuning, "sampler": candidates[2]["sampler"]}

    monkeypatch.setattr(tune, "tune_run", tune_run)
    finished = desp("tune", polygons)
    assert "polygons-desp, seed 5: samplers on 77 examples, best first" in finished.message
    lines = [line for line in finished.out.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in line.strip("│").split("│")] for line in lines] == [
        ["*", "noise_scale 0.25", "1", "3"],
        ["", "as the run was begun", "2", "1"],
        ["", "steps 6", "-", "4"],
    ]
    assert "chosen: noise_scale 0.25" in finished.out
    shown = [line for line in finished.err.splitlines() if line.startswith("samplers tried")]
    assert shown == [
        "samplers tried: 1, best score 2",
        "samplers tried: 2, best score 2",
        "samplers tried: 3, best score 1",
    ]
    monkeypatch.setattr(tune, "tune_run", lambda *_: {**tuning, "sampler": before})
    assert "chosen: the sampler that the run was begun with" in desp("tune", polygons).out


def test_the_demo_tells_the_score_of_what_is_returned(desp: Desp, monkeypatch: pytest.MonkeyPatch) -> None:
    result = {
        "scores": {
            "raw": {"score": 9.0, "right_size": 0.1},
            "returned": {"score": 1.234e-4, "right_size": 0.9876},
        },
        "real_data": {"score": 5.67e-6},
    }
    scored, reported = [], []
    monkeypatch.setattr(
        evaluate, "evaluate_run", lambda folder, **_: (scored.append(folder.path), (result, []))[1]
    )
    monkeypatch.setattr("desp.cli.demo.train", lambda *_, **__: True)
    monkeypatch.setattr("desp.cli.demo.report", reported.append)
    monkeypatch.setattr("desp.cli.demo.shutil.which", lambda _: "/bin/desp")
    text = desp("demo", "--run", "mine").out
    assert "score 1.23e-04 (smaller is better; real polygons get 5.7e-06), 98.7 % of the sets have" in text
    assert "\n  desp predict mine --input mine/five.jsonl" in text
    assert scored == reported == [Path("mine")]


@pytest.mark.parametrize(("count", "words"), [(1, "1 input, 2 sets each: out"), (3, "3 inputs, 2 sets each: out")])
def test_predict_counts(
    desp: Desp, polygons: Path, count: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "predict_file", lambda *_, **__: WrittenPredictions(count, 2, False))
    finished = desp("predict", polygons, "--input", "in", "--output", "out", "--samples", 2)
    assert finished.out == f"{words}\n"


@pytest.mark.parametrize(("samples", "deterministic"), [(2, True), (1, True), (2, False)])
def test_predict_tells_that_a_method_gives_one_set(
    desp: Desp, polygons: Path, monkeypatch: pytest.MonkeyPatch, samples: int, deterministic: bool
) -> None:
    monkeypatch.setattr(predict, "predict_file", lambda *_, **__: WrittenPredictions(1, samples, deterministic))
    told = desp("predict", polygons, "--input", "in", "--output", "out", "--samples", samples).out
    note = told.startswith("note: this method predicts the same set for an input every time")
    assert note == (samples == 2 and deterministic)


# -- the end ---------------------------------------------------------------------------------------------


def test_errors_go_to_standard_error(desp: Desp) -> None:
    finished = desp("evaluate", "nowhere")
    assert (finished.status, finished.out) == (2, "")
    assert finished.err.startswith("error: ")


def test_a_reader_that_has_seen_enough_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("desp.cli.recipes.all_recipes", broken)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        main(["recipes"])  # no SystemExit
    assert out.getvalue() == ""
    assert err.closed  # Python would complain there once more while it ends


def test_a_stopped_demo_says_that_it_starts_anew(desp: Desp, monkeypatch: pytest.MonkeyPatch) -> None:
    from desp.errors import TrainingInterrupted

    def stopped(*_: object, **__: object) -> None:
        raise TrainingInterrupted("Stopped after step 3.")

    monkeypatch.setattr(train, "train_run", stopped)
    finished = desp("demo")
    assert (finished.status, finished.err.strip()) == (130, "The demo was stopped. Run it again, it starts anew.")
    finished = desp("train", "polygons-desp", "--run", "a b")
    assert finished.status == 130
    command = "Stopped after step 3. The command: desp train polygons-desp --run 'a b' --resume"
    assert finished.err.strip() == command
