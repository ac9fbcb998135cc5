"""What a roll-back returns to does not depend on interruptions before it."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_problem import RICH, Poisoned, Recorder, assert_same, make_predictor, make_trainer, weights_of

from desp.data.base import Batch
from desp.errors import TrainingInterrupted
from desp.settings import TrainingSettings
from desp.training import Trainer
from desp.training.checkpoints import CheckpointStore, load_checkpoint

# Saved at 4, 8 and 12; validated at 3, 6, 9 and 12, so that the best one also changes in between.
SETTINGS = replace(RICH, on_divergence="rollback", validate_every=3)
Step = tuple[int, int]


class Stopped(Poisoned):
    """A batch that is not finite, and a signal during a step: each (attempt, steps done with it)."""

    def __init__(self, bad: Step, stop: Step | None = None) -> None:
        super().__init__((bad[0], bad[1] - 1))
        self.stop = stop

    def batches(self, first: int, attempt: int = 0) -> Iterator[Batch]:
        for step, batch in enumerate(super().batches(first, attempt), first):
            if self.stop == (attempt, step + 1):
                os.kill(os.getpid(), signal.SIGINT)
            yield batch


def trainer_of(source: Stopped, settings: TrainingSettings = SETTINGS, **options: Any) -> Trainer:
    """The first attempt scores better with every validation, the second one worse than all of them."""
    trainer = make_trainer(make_predictor(), settings, source=source, validate=lambda: 0.0, **options)
    trainer.validate = lambda: 90.0 - trainer.state.step if trainer.state.attempt == 0 else 88.0
    return trainer


def log_of(folder: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in record.items() if name != "seconds"} for record in records]


@pytest.mark.parametrize(
    ("bad", "stops"),
    [
        ((0, 8), [(0, 5)]),
        ((0, 8), [(0, 7)]),
        ((0, 8), [(0, 4)]),
        ((0, 4), [(0, 2)]),
        ((0, 8), [(0, 5), (0, 6), (0, 7)]),
        ((0, 8), [(0, 7), (1, 5)]),
        ((0, 8), [(0, 6), (1, 6), (1, 7), (1, 9)]),
    ],
    ids=["once", "with a new best", "where all is saved", "before anything is", "thrice", "and after it", "often"],
)
def test_a_resumed_run_rolls_back_as_one_that_nobody_stopped(tmp_path: Path, bad: Step, stops: list[Step]) -> None:
    watched = Recorder()
    whole = trainer_of(Stopped(bad), folder=tmp_path / "whole", callback=watched)
    expected = whole.fit()
    assert (expected.rollbacks, watched.rollbacks) == (1, [(bad[1], 0 if bad[1] == 4 else 4)])
    rollbacks, folder = [], tmp_path / "parts"
    for stop in [*stops, None]:
        told = Recorder()
        trainer = trainer_of(Stopped(bad, stop), folder=folder, callback=told)
        if stop is None:
            found = trainer.fit(resume=True)
        else:
            with pytest.raises(TrainingInterrupted, match=f"Stopped after step {stop[1]} "):
                trainer.fit(resume=True)
        rollbacks += told.rollbacks
    assert rollbacks == watched.rollbacks
    assert_same(weights_of(trainer), weights_of(whole))
    assert_same(found.weights, expected.weights)
    assert (found.score, found.score_step) == (expected.score, expected.score_step)
    assert log_of(folder) == log_of(tmp_path / "whole")
    assert trainer.store.paths()[-1].name == "step-00000012.safetensors"
    assert len(list(trainer.store.folder.iterdir())) == 3  # with the one before, and the best
    assert_same(load_checkpoint(trainer.store.best_path).tensors, expected.weights)


def stopped_at(step: int, folder: Path) -> CheckpointStore:
    trainer = trainer_of(Stopped((0, 8), (0, step)), folder=folder)
    with pytest.raises(TrainingInterrupted):
        trainer.fit()
    assert trainer.store is not None
    return trainer.store


@pytest.mark.parametrize("lost", ["step-00000004.safetensors", "best-before.safetensors"])
@pytest.mark.parametrize("damaged", [False, True])
def test_where_the_target_is_lost_a_run_rolls_back_to_where_it_was_stopped(
    tmp_path: Path, lost: str, damaged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With the best weights it has; it says so when it begins."""
    path = stopped_at(7, tmp_path).folder / lost
    path.write_bytes(b"damaged") if damaged else path.unlink()
    told = Recorder()
    outcome = trainer_of(Stopped((0, 8)), folder=tmp_path, callback=told).fit(resume=True)
    assert told.rollbacks == [(8, 7)]
    assert (outcome.score, outcome.score_step) == (84, 6)
    assert f"{lost}" in caplog.text
    assert "If training fails, it rolls back to step 7 instead." in caplog.text


def test_a_checkpoint_of_an_older_version_is_rolled_back_to(tmp_path: Path) -> None:
    """It does not say which one it would have been."""
    store = stopped_at(7, tmp_path)
    saved = load_checkpoint(store.path(7))
    assert saved.state.pop("rollback_step") == 4
    store.save(7, saved)
    told = Recorder()
    assert trainer_of(Stopped((0, 8)), folder=tmp_path, callback=told).fit(resume=True).rollbacks == 1
    assert told.rollbacks == [(8, 7)]


@pytest.mark.parametrize("step", [2, 7])
def test_nothing_is_kept_for_a_roll_back_that_never_happens(
    tmp_path: Path, step: int, caplog: pytest.LogCaptureFixture
) -> None:
    settings = replace(SETTINGS, on_divergence="stop")
    with pytest.raises(TrainingInterrupted):
        trainer_of(Stopped((0, 99), (0, step)), settings, folder=tmp_path).fit()
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    newest = f"step-{step:08d}.safetensors"
    assert names == ({newest} if step == 2 else {newest, "step-00000004.safetensors", "best.safetensors"})
    (tmp_path / "checkpoints" / "step-00000004.safetensors").unlink(missing_ok=True)
    assert trainer_of(Stopped((0, 99)), settings, folder=tmp_path).fit(resume=True).score_step == 12
    assert "rolls back" not in caplog.text


class Crash(BaseException):
    """The machine loses its power."""


def crash_at_rename(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is undone, the `number`-th checkpoint from now does not get its name."""
    rename, names = os.replace, []

    def watched(source: Path, target: Path) -> None:
        if Path(target).suffix == ".safetensors":
            names.append(target)
            if len(names) == number:
                raise Crash
        rename(source, target)

    monkeypatch.setattr(os, "replace", watched)


def without_links(*_: object) -> None:
    raise OSError("This file system has no hard links.")


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("place", [1, 2])
@pytest.mark.parametrize("stops", [[(0, 7), (1, 5)], [(0, 5), (0, 7)], [(0, 7), None]], ids=str)
def test_a_crash_between_names_of_checkpoints_changes_nothing(
    tmp_path: Path, stops: list[Step | None], place: int, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the last save of these: the best of a failed attempt, or of later steps, is not taken for another."""
    whole = trainer_of(Stopped((0, 8)), folder=tmp_path / "whole")
    expected, folder = whole.fit(), tmp_path / "parts"
    if not links:
        monkeypatch.setattr(os, "link", without_links)
        place += stops[-1] != (1, 5)
    for stop in stops[:-1]:
        with pytest.raises(TrainingInterrupted):
            trainer_of(Stopped((0, 8), stop), folder=folder).fit(resume=True)
    with monkeypatch.context() as crashing:
        crash_at_rename(place, crashing)
        with pytest.raises(Crash):
            trainer_of(Stopped((0, 8), stops[-1]), folder=folder).fit(resume=True)
    trainer = trainer_of(Stopped((0, 8)), folder=folder)
    found = trainer.fit(resume=True)
    assert (found.score, found.score_step) == (expected.score, expected.score_step)
    assert_same(found.weights, expected.weights)
    assert trainer.store is not None
    assert_same(load_checkpoint(trainer.store.best_path).tensors, expected.weights)
    assert len(list(trainer.store.folder.iterdir())) == 3


def test_the_best_of_other_steps_is_not_taken_for_the_best(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As where the newest checkpoint was deleted, which is the advice if it is damaged."""
    store = stopped_at(7, tmp_path)
    for path in (store.path(7), store.target_best_path):
        path.unlink()
    assert load_checkpoint(store.best_path).state["step"] == 6
    trainer = trainer_of(Stopped((0, 8)), folder=tmp_path)
    outcome = trainer.fit(resume=True)
    assert "best.safetensors is not of step 3" in caplog.text
    assert (outcome.score, outcome.score_step) == (88.0, 6)
    assert_same(outcome.weights, load_checkpoint(store.best_path).tensors)
    assert load_checkpoint(store.best_path).state == {"step": 6, "score": 88.0}
