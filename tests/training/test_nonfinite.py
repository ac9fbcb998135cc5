"""Training that meets NaN or infinity: it stops with advice, or goes back."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_problem import (
    EVERY_STEP,
    KINDS,
    SHORT,
    Kind,
    Poisoned,
    Recorder,
    Scores,
    assert_same,
    make_predictor,
    make_trainer,
    scored,
)

from desp.data.base import Batch
from desp.errors import TrainingError
from desp.training.checkpoints import load_checkpoint
from desp.training.loop import MAX_ROLLBACKS


def assert_all_finite(folder: Path) -> None:
    files = list(folder.rglob("*.safetensors"))
    assert files
    for file in files:
        for name, value in load_checkpoint(file).tensors.items():
            assert torch.isfinite(value).all(), (file.name, name)


@pytest.mark.parametrize("kind", KINDS)
def test_non_finite_loss_names_step_and_checkpoint_and_what_to_try(tmp_path: Path, kind: Kind) -> None:
    settings = replace(SHORT, steps=9, checkpoint_every=4, log_every=100, ema_decay=0.9)
    trainer = make_trainer(make_predictor(kind), settings, source=Poisoned((0, 5)), folder=tmp_path)
    with pytest.raises(TrainingError) as caught:
        trainer.fit()
    message = str(caught.value)
    assert "in step 6." in message
    assert str(tmp_path / "checkpoints" / "step-00000004.safetensors") in message
    for advice in ("--training.learning-rate", "--training.clip-norm", "--training.on-divergence rollback"):
        assert advice in message
    assert_all_finite(tmp_path)


def test_non_finite_at_once_says_that_nothing_was_saved(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"in step 1\. Nothing was saved"):
        make_trainer(make_predictor(), source=Poisoned((0, 0)), folder=tmp_path).fit()
    assert not list(tmp_path.rglob("*.safetensors"))


def test_rollback_goes_back_halves_the_rate_and_draws_new_data(tmp_path: Path) -> None:
    source, callback = Poisoned((0, 3)), Recorder()
    settings = replace(SHORT, on_divergence="rollback", ema_decay=0.9)
    outcome = make_trainer(make_predictor(), settings, source=source, folder=tmp_path, callback=callback).fit()
    assert outcome.steps == 6
    assert callback.rollbacks == [(4, 2)]
    assert source.asked == [(0, step) for step in range(4)] + [(1, step) for step in range(2, 6)]
    rates = [callback.numbers[step]["learning_rate"] for step in range(1, 7)]
    assert rates == [1e-2, 1e-2, 5e-3, 5e-3, 5e-3, 5e-3]
    assert all(torch.isfinite(value).all() for value in outcome.weights.values())
    assert_all_finite(tmp_path)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert len(lines) == 6


def test_rolling_back_twice_to_the_same_place(tmp_path: Path) -> None:
    """The state to go back to must not be worn out by what was trained since."""
    callback = Recorder()
    settings = replace(SHORT, on_divergence="rollback")
    source = Poisoned((0, 3), (1, 3))
    trainer = make_trainer(make_predictor(), settings, source=source, folder=tmp_path, callback=callback)
    assert trainer.fit().steps == 6
    assert callback.rollbacks == [(4, 2), (4, 2)]
    assert_all_finite(tmp_path)


def test_rollback_without_a_folder_goes_back_to_memory() -> None:
    callback = Recorder()
    settings = replace(SHORT, on_divergence="rollback")
    make_trainer(make_predictor(), settings, source=Poisoned((0, 1)), callback=callback).fit()
    assert callback.rollbacks == [(2, 0)]


def test_rollback_gives_up(tmp_path: Path) -> None:
    source, callback = Poisoned(*((attempt, 3) for attempt in range(20))), Recorder()
    settings = replace(SHORT, on_divergence="rollback")
    with pytest.raises(TrainingError, match=r"in step 4\..*rolling back 5 times did not help"):
        make_trainer(make_predictor(), settings, source=source, folder=tmp_path, callback=callback).fit()
    assert len(callback.rollbacks) == MAX_ROLLBACKS == 5
    assert_all_finite(tmp_path)


def test_rollback_takes_the_best_weights_back_too(tmp_path: Path) -> None:
    """A score of the part that was thrown away must not lend its weights to another score."""
    settings = replace(EVERY_STEP, on_divergence="rollback")
    scores = Scores(5, 4, 1, 9, 9, 9, 9)  # step 3 scores 1 and is lost
    trainer = scored(scores, settings, source=Poisoned((0, 3)), folder=tmp_path)
    outcome = trainer.fit()
    assert (outcome.score, outcome.score_step) == (4, 2)
    assert_same(outcome.weights, scores.seen[1])
    assert_same(load_checkpoint(trainer.store.best_path).tensors, scores.seen[1])


def test_weights_that_are_not_finite_are_not_validated() -> None:
    settings = replace(EVERY_STEP, log_every=100, checkpoint_every=100)
    with pytest.raises(TrainingError, match=r"in step 3\."):
        scored(Scores(5, 4), settings, source=Poisoned((0, 2))).fit()


def test_a_stop_request_never_saves_what_is_not_finite(tmp_path: Path) -> None:
    class PoisonedThenStopped(Poisoned):
        def batches(self, first: int, attempt: int = 0) -> Iterator[Batch]:
            for batch in super().batches(first, attempt):
                if self.asked[-1] == (0, 2):  # no step at which anything else is read or saved
                    os.kill(os.getpid(), signal.SIGINT)
                yield batch

    settings = replace(SHORT, log_every=100)
    with pytest.raises(TrainingError, match="in step 3"):
        make_trainer(make_predictor(), settings, source=PoisonedThenStopped((0, 2)), folder=tmp_path).fit()
    assert_all_finite(tmp_path)


class Interrupted(Scores):
    """Scores that are interrupted once, at their third call."""

    calls = 0

    def __call__(self) -> float:
        self.calls += 1
        if self.calls == 3:
            raise KeyboardInterrupt
        return super().__call__()


def test_an_interrupted_validation_is_made_up_for(tmp_path: Path) -> None:
    settings = replace(EVERY_STEP, steps=3, checkpoint_every=3)
    with pytest.raises(KeyboardInterrupt):
        scored(Interrupted(5, 4), settings, folder=tmp_path).fit()
    assert [path.name for path in (tmp_path / "checkpoints").glob("step-*")] == ["step-00000003.safetensors"]
    outcome = scored(Scores(1), settings, folder=tmp_path).fit(resume=True)
    assert (outcome.steps, outcome.score, outcome.score_step) == (3, 1, 3)
    again = scored(Scores(), settings, folder=tmp_path).fit(resume=True)  # and not a second time
    assert again.score_step == 3


def test_a_failure_names_the_step_that_was_bad_and_not_the_one_where_it_was_seen() -> None:
    settings = replace(SHORT, log_every=4, checkpoint_every=4)
    with pytest.raises(TrainingError, match="in step 2") as caught:
        make_trainer(make_predictor(), settings, source=Poisoned((0, 1))).fit()
    assert caught.value.step == 2
