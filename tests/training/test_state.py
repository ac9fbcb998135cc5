"""What training knows of itself: its time, its modes, and what a roll-back or a resumed run takes over."""

import json
import os
import signal
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator
from tiny_problem import (
    EVERY_STEP,
    GOING_BACK,
    SHORT,
    ActingSource,
    Poisoned,
    Recorder,
    Scores,
    assert_same,
    make_predictor,
    make_trainer,
    polygons,
    scored,
    weights_of,
)

from desp.errors import TrainingInterrupted
from desp.predictor.fitting import train_predictor
from desp.settings import Engine
from desp.training import TrainingCallback
from desp.training.checkpoints import CheckpointStore, load_checkpoint
from desp.training.convergence import Ending
from desp.training.state import TrainingState, Window


@pytest.fixture
def _seconds_are_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by a second whenever it is looked at, which is once a step."""
    clock = count()
    monkeypatch.setattr("desp.training.loop.time", SimpleNamespace(monotonic=lambda: float(next(clock))))


def stopped_at(step: int) -> ActingSource:
    return ActingSource(step - 1, lambda: os.kill(os.getpid(), signal.SIGINT))


@pytest.mark.usefixtures("_seconds_are_steps")
def test_the_time_of_all_parts_is_added_up(tmp_path: Path) -> None:
    with pytest.raises(TrainingInterrupted, match="after step 3"):
        make_trainer(make_predictor(), folder=tmp_path, source=stopped_at(3)).fit()
    assert make_trainer(make_predictor(), folder=tmp_path).fit(resume=True).seconds == 6
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["seconds"] for line in lines] == [1, 2, 3, 4, 5, 6]


@pytest.mark.usefixtures("_seconds_are_steps")
def test_the_time_of_what_was_lost_counts() -> None:
    """Four steps, back to the second, and four more."""
    assert make_trainer(make_predictor(), GOING_BACK, source=Poisoned((0, 3))).fit().seconds == 8


def test_modules_are_in_training_mode_whatever_they_were_in() -> None:
    class Watching(TrainingCallback):
        def on_step(self, step: int) -> None:  # noqa: ARG002
            modes.extend(module.training for module in trainer.method.modules())

    modes: list[bool] = []
    trainer = make_trainer(make_predictor(), callback=Watching())
    trainer.method.eval()
    trainer.fit()
    assert modes
    assert all(modes)


def test_callbacks_are_told_before_and_after_a_validation() -> None:
    class Watching(TrainingCallback):
        def on_validation_start(self, step: int) -> None:
            told.append(("validating", step))

        def on_validation_end(self, step: int, score: float, best: bool) -> None:  # noqa: ARG002
            told.append(("validated", step))

    told: list[tuple[str, int]] = []
    scored(Scores(1, 2), replace(SHORT, steps=4, validate_every=2), callback=Watching()).fit()
    assert told == [("validating", 2), ("validated", 2), ("validating", 4), ("validated", 4)]


def test_the_best_checkpoint_says_which_step_it_is_and_how_good(tmp_path: Path) -> None:
    trainer = scored(Scores(3, 1, 2, 2, 2, 2), EVERY_STEP, folder=tmp_path)
    trainer.fit()
    assert load_checkpoint(trainer.store.best_path).state == {"step": 2, "score": 1}


def test_a_resumed_run_that_goes_back_at_once_has_the_best_weights_it_began_with(tmp_path: Path) -> None:
    """The fourth step scores best and is lost, as the fifth is not finite and nothing was saved in between."""
    settings = replace(EVERY_STEP, on_divergence="rollback", checkpoint_every=3)
    before = Scores(5, 4, 6)
    with pytest.raises(TrainingInterrupted, match="after step 3"):
        scored(before, settings, folder=tmp_path, source=stopped_at(3)).fit()
    callback = Recorder()
    trainer = scored(Scores(1, 9, 9, 9), settings, folder=tmp_path, source=Poisoned((0, 4)), callback=callback)
    outcome = trainer.fit(resume=True)
    assert (callback.starts, callback.rollbacks) == ([(3, 6)], [(5, 3)])
    assert (outcome.score, outcome.score_step, outcome.rollbacks) == (4, 2, 1)
    assert_same(outcome.weights, before.seen[1])
    assert_same(load_checkpoint(trainer.store.best_path).tensors, before.seen[1])


def test_roll_backs_are_counted_across_an_interruption(tmp_path: Path) -> None:
    """A resumed run goes on with the rate and the streams of its attempt."""
    settings = replace(GOING_BACK, ema_decay=0.9)
    whole = make_trainer(make_predictor(), settings, source=Poisoned((0, 1))).fit()

    class Stopped(Poisoned):
        def batches(self, first: int, attempt: int = 0):  # type: ignore[no-untyped-def]
            for batch in super().batches(first, attempt):
                if self.asked[-1] == (1, 2):
                    os.kill(os.getpid(), signal.SIGINT)
                yield batch

    with pytest.raises(TrainingInterrupted, match="after step 3"):
        make_trainer(make_predictor(), settings, source=Stopped((0, 1)), folder=tmp_path).fit()
    callback = Recorder()
    trainer = make_trainer(make_predictor(), settings, source=Poisoned(), folder=tmp_path, callback=callback)
    outcome = trainer.fit(resume=True)
    assert outcome.rollbacks == whole.rollbacks == 1
    assert [callback.numbers[step]["learning_rate"] for step in (4, 5, 6)] == [5e-3] * 3
    assert_same(outcome.weights, whole.weights)


def test_a_roll_back_forgets_everything_since(tmp_path: Path) -> None:
    """What comes after it is what a run from there, of another attempt, would give."""
    settings = replace(GOING_BACK, ema_decay=0.9, log_every=3, checkpoint_every=3)
    start = make_trainer(make_predictor(), settings)._snapshot()
    start.state["attempt"] = 1
    CheckpointStore(tmp_path / "checkpoints").save(0, start)
    found = make_trainer(make_predictor(), settings, source=Poisoned((0, 2))).fit()
    fresh = make_trainer(make_predictor(), settings, folder=tmp_path).fit(resume=True)
    assert found.rollbacks == fresh.rollbacks == 1
    assert_same(found.weights, fresh.weights)


def test_an_engine_is_settled_only_by_chains_that_ran() -> None:
    """Back at the very beginning, the engine is still to be chosen."""
    trainer = make_trainer(make_predictor(), GOING_BACK, source=Poisoned((0, 1)))
    settled: list[object] = []

    class Watching(Recorder):
        def on_rollback(self, step: int, to_step: int) -> None:  # noqa: ARG002
            settled.append((to_step, trainer.method.training_engine.resumed_engine))

    trainer.callback = Watching()
    trainer.fit()
    assert settled == [(0, None)]


@pytest.mark.parametrize(
    ("engine", "steps", "expected"),
    [
        ("auto", 33_333, "eager"),
        ("auto", 33_334, "compiled"),
        ("eager", 10**6, "eager"),
        ("compiled", 1, "compiled"),
    ],
)
def test_an_engine_is_chosen_by_all_gradients_of_a_training(engine: Engine, steps: int, expected: str) -> None:
    """Chains of three steps: compiling pays from a hundred thousand gradients on."""
    method = make_predictor(engine=engine).method
    method.set_training_steps(steps)
    assert method.training_engine.name(torch.device("cpu")) == expected


@pytest.mark.parametrize(
    ("before", "expected"), [("eager", "eager"), ("compiled", "compiled"), ("graph", "eager")]
)
def test_a_run_goes_on_with_the_engine_of_its_checkpoint(tmp_path: Path, before: str, expected: str) -> None:
    """On this device: a graph was none of a CPU."""
    saved = make_trainer(make_predictor())._snapshot()
    saved.state.update(step=6, engine=before)
    CheckpointStore(tmp_path / "checkpoints").save(6, saved)
    trainer = make_trainer(make_predictor(), folder=tmp_path)
    trainer.fit(resume=True)
    assert trainer.method.training_engine.name(torch.device("cpu")) == expected


def test_the_length_of_a_training_reaches_its_method(monkeypatch: pytest.MonkeyPatch) -> None:
    predictor, planned = make_predictor(), []
    plan = predictor.method.set_training_steps

    def watched(steps: int) -> None:
        planned.append(steps)
        plan(steps)

    monkeypatch.setattr(predictor.method, "set_training_steps", watched)
    train_predictor(predictor, polygons(), replace(SHORT, steps=2), Accelerator(cpu=True))
    assert planned == [2]
    assert predictor.method.training_engine.expected_gradients == 2 * 3  # chains of three steps


def test_what_an_old_checkpoint_does_not_say_begins_anew() -> None:
    assert TrainingState.of({"step": 3, "attempt": 1}) == TrainingState(step=3, attempt=1)
    kept = TrainingState(step=4, window=Window(2, {"loss": 3.0}))
    saved = {"step": 4, "window": {"steps": 2, "sums": {"loss": 3.0}}}
    assert TrainingState.of(saved) == kept


def test_a_checkpoint_in_which_the_reason_to_stop_was_called_verdict() -> None:
    saved = {"step": 4, "ending": {"end": 5, "verdict": "converged", "means": [1.0], "steps": [4]}}
    ending = Ending(end=5, stop_reason="converged", means=[1.0], steps=[4])
    assert TrainingState.of(saved) == TrainingState(step=4, ending=ending)
    assert saved["ending"] == {"end": 5, "verdict": "converged", "means": [1.0], "steps": [4]}


def test_a_window_is_the_mean_of_all_its_steps() -> None:
    window = Window().plus({"a": 1.0}, 3).plus({"a": 5.0, "b": 2.0}, 1)
    assert (window.steps, window.means) == (4, {"a": 2.0, "b": 0.5})
    assert Window().means == {}


def test_a_roll_back_halves_the_steps_themselves() -> None:
    """Adam's first step is as long as the learning rate."""
    settings = replace(GOING_BACK, steps=1, learning_rate=0.1)
    trainer = make_trainer(make_predictor(), settings, source=Poisoned((0, 0), (1, 0)))
    before = weights_of(trainer)
    assert trainer.fit().rollbacks == 2
    moves = torch.cat([(value - before[name]).abs().flatten() for name, value in weights_of(trainer).items()])
    assert moves.max().item() == pytest.approx(0.1 / 4, rel=1e-3)
