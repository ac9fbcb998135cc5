"""Training whose samples diverge although all is finite: it stops with advice, or rolls back."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_problem import (
    EVERY_STEP,
    GOING_BACK,
    SHORT,
    ActingSource,
    Recorder,
    Scores,
    assert_same,
    diverging_trainer,
)

from desp.errors import TrainingError, TrainingInterrupted
from desp.training.checkpoints import load_checkpoint
from desp.training.loop import MAX_ROLLBACKS


def at_first(**fractions: float) -> Callable[[int, int], float]:
    """These fractions at steps of the first attempt (`s3=.5`), and none else."""
    return lambda attempt, step: 0.0 if attempt else fractions.get(f"s{step}", 0.0)


@pytest.mark.parametrize("log_every", [1, 3, 100])
def test_training_goes_back_however_often_it_logs(tmp_path: Path, log_every: int) -> None:
    callback, settings = Recorder(), replace(GOING_BACK, log_every=log_every)
    trainer = diverging_trainer(at_first(s2=0.95, s3=0.1), settings, folder=tmp_path, callback=callback)
    assert trainer.fit().rollbacks == 1
    assert callback.rollbacks == [(4, 2)]
    assert callback.steps[:6] == [1, 2, 3, 4, 3, 4]
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["learning_rate"] for line in lines if line["step"] == 6] == [5e-3]
    assert all(line["divergent"] == 0 for line in lines)


def test_as_many_as_the_settings_allow_may_diverge_since_the_last_checkpoint() -> None:
    assert diverging_trainer(at_first(s2=1.0, s3=0.0)).fit().rollbacks == 0


def test_the_best_weights_go_back_too(tmp_path: Path) -> None:
    """Step 3 scores 1 and is lost, as most samples diverged before step 4 was saved."""
    settings = replace(EVERY_STEP, on_divergence="rollback", checkpoint_every=2, ema_decay=0.9)
    scores = Scores(5, 4, 1, 9, 9, 9, 9)
    trainer = diverging_trainer(at_first(s2=1.0, s3=1.0), settings, folder=tmp_path, validate=scores)
    scores.trainer = trainer
    outcome = trainer.fit()
    assert (outcome.score, outcome.score_step, outcome.rollbacks) == (4, 2, 1)
    assert_same(outcome.weights, load_checkpoint(trainer.store.best_path).tensors)


def test_it_stops_with_advice(tmp_path: Path) -> None:
    trainer = diverging_trainer(at_first(s2=0.6, s3=0.6), SHORT, folder=tmp_path)
    with pytest.raises(TrainingError, match=r"By step 4, 60\.0% of the samples diverge") as caught:
        trainer.fit()
    assert caught.value.step == 4
    for words in (
        "step-00000002",
        "max_step_norm",
        "--training.learning-rate",
        "--training.on-divergence rollback",
    ):
        assert words in str(caught.value)


def test_it_gives_up() -> None:
    callback = Recorder()
    with pytest.raises(TrainingError, match=r"By step 2, 100\.0% .* rolling back 5 times did not help"):
        diverging_trainer(lambda *_: 1.0, callback=callback).fit()
    assert len(callback.rollbacks) == MAX_ROLLBACKS


def stopped_at(step: int) -> ActingSource:
    return ActingSource(step - 1, lambda: os.kill(os.getpid(), signal.SIGINT))


def test_what_was_in_vain_is_not_saved_by_a_stop_request(tmp_path: Path) -> None:
    settings = replace(GOING_BACK, steps=8, checkpoint_every=4, log_every=100)
    fractions = at_first(s4=0.9, s5=0.9)
    with pytest.raises(TrainingInterrupted, match="Stopped after step 5 of 8"):
        diverging_trainer(fractions, settings, folder=tmp_path, source=stopped_at(6)).fit()
    assert diverging_trainer(fractions, settings, folder=tmp_path).fit(resume=True).rollbacks == 1


@pytest.mark.parametrize(("before", "rollbacks"), [(0.3, [(8, 4)]), (0.0, [])])
def test_a_resumed_run_looks_at_all_steps_since_the_checkpoint(
    tmp_path: Path, before: float, rollbacks: list[tuple[int, int]]
) -> None:
    settings = replace(GOING_BACK, steps=8, checkpoint_every=4, log_every=3)
    fractions = at_first(s4=before, s5=before, s6=0.8, s7=0.8)
    with pytest.raises(TrainingInterrupted, match="Stopped after step 6 of 8"):
        diverging_trainer(fractions, settings, folder=tmp_path, source=stopped_at(6)).fit()
    callback = Recorder()
    diverging_trainer(fractions, settings, folder=tmp_path, callback=callback).fit(resume=True)
    assert callback.rollbacks == rollbacks


def test_the_newest_checkpoint_is_the_last_good_one(tmp_path: Path) -> None:
    trainer = diverging_trainer(at_first(s4=0.6, s5=0.6), SHORT, folder=tmp_path)
    with pytest.raises(TrainingError, match=r"The last good checkpoint is .*step-00000004\.safetensors\."):
        trainer.fit()
    assert len(trainer.store.paths()) == 2
