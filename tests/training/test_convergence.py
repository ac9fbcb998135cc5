"""Training without a given length ends when validation no longer improves beyond its noise, or time is over."""

import math
import os
import signal
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny_problem import SHORT, ActingSource, Recorder, assert_same, make_predictor, make_trainer, weights_of
from torch import Tensor

from desp.errors import SettingsError, TrainingInterrupted
from desp.settings import TrainingSettings
from desp.training import Trainer
from desp.training.convergence import (
    STEPS_WITHOUT_VALIDATION,
    Ending,
    decay_start,
    early_validation,
    is_late,
    mean_and_error,
    paired_difference,
    with_decay,
)
from desp.training.schedule import learning_rate
from desp.training.state import TrainingState

OPEN = replace(
    SHORT, steps=None, lr_schedule="wsd", validate_every=4, patience=4, keep="last", ema_decay=0.9, warmup_steps=3
)


class Lengths(Recorder):
    """Also remembers when the length was told, and which errors."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[int | None] = []
        self.errors: list[float | None] = []

    def on_length(self, steps: int | None) -> None:
        self.lengths.append(steps)

    def on_validation_standard_error(self, step: int, standard_error: float | None) -> None:
        del step
        self.errors.append(standard_error)


def by_step(trainer_of: Callable[[], Trainer], scores: Callable[[int], list[float]]) -> Callable[[], Tensor]:
    """A validation whose scores depend on the step alone."""
    return lambda: torch.tensor(scores(trainer_of().state.step))


def make_open(
    scores: Callable[[int], list[float]], settings: TrainingSettings = OPEN, **options: Any
) -> tuple[Trainer, Lengths]:
    callback, made = Lengths(), []
    validate = by_step(lambda: made[0], scores)
    made.append(make_trainer(make_predictor(), settings, validate=validate, callback=callback, **options))
    return made[0], callback


def levelling(step: int) -> list[float]:
    """Improves until step 8, then is the same."""
    return [max(10.0 - step, 2.0), max(11.0 - step, 3.0)]


# -- noise ---------------------------------------------------------------------------------------------


def test_means_have_standard_errors() -> None:
    mean, error = mean_and_error([1.0, 2.0, 3.0, 6.0])
    assert (mean, error) == (3.0, pytest.approx(math.sqrt((4 + 1 + 0 + 9) / 3 / 4)))
    assert mean_and_error([5.0]) == (5.0, 0.0)


def test_what_two_validations_share_is_no_noise_of_their_difference() -> None:
    assert paired_difference([1.0, 100.0], [0.5, 99.5]) == (0.5, 0.0)
    with pytest.raises(SettingsError, match="1 scores before, and 2 now"):
        paired_difference([1.0, 2.0], [1.0])


@pytest.mark.parametrize(("sign", "factor"), [(1, 1.0), (-1, -1.0)])
def test_an_improvement_within_the_noise_is_none_but_small_ones_add_up(sign: int, factor: float) -> None:
    ending = Ending()
    for step, scores in enumerate([[2.0, 2.0], [0.9, 3.0], [1.7, 2.1], [1.6, 2.0]], start=1):
        ending.add(step, [factor * value for value in scores], sign, patience=10)
    # The second is better by .05 +- 1.05 and the third by .1 +- .2; the fourth, by .2 +- .2, is none either.
    assert (ending.reference_step, ending.waited) == (1, 3)
    ending.add(5, [factor * 1.7, factor * 1.8], sign, patience=10)
    assert (ending.reference_step, ending.waited) == (5, 0)


def test_a_score_that_is_no_number_is_no_improvement() -> None:
    ending = Ending()
    for step, score in enumerate([1.0, math.nan, 0.9], start=1):
        ending.add(step, [score, score], 1, patience=10)
    assert ending.reference_step == 3


@pytest.mark.parametrize("saved", [[], [math.nan, 1.0]], ids=["new", "resumed"])
def test_scores_that_are_no_numbers_are_no_reference(saved: list[float]) -> None:
    ending = Ending(reference=saved)
    for step, score in enumerate([math.nan, math.inf], start=1):
        ending.add(step, [score, 1.0], 1, patience=10)
    assert (ending.reference_step, ending.waited) == (0, 2)
    ending.add(3, [5.0, 6.0], 1, patience=10)
    assert (ending.reference, ending.reference_step, ending.waited) == ([5.0, 6.0], 3, 0)


def test_a_single_score_that_got_worse_has_converged() -> None:
    """Nothing is known of its noise."""
    ending = Ending()
    for step in range(1, 4):
        ending.add(step, [1.0 * step], 1, patience=2)
    assert (ending.end, ending.stop_reason) == (with_decay(3), "converged")


def test_patience_grows_with_the_steps() -> None:
    """Two validations without improvement, and a third of all steps."""
    ending = Ending()
    ending.add(60, [1.0], 1, patience=2)
    for step in (70, 80, 89):
        ending.add(step, [1.0], 1, patience=2)
        assert ending.end is None
    ending.add(90, [1.0], 1, patience=2)
    assert (ending.end, ending.stop_reason) == (with_decay(90), "converged")


def test_weights_that_got_worse_beyond_the_noise_are_not_trained_on() -> None:
    ending = Ending()
    for step, scores in enumerate([[1.0, 1.0], [2.0, 2.1], [3.0, 3.1]], start=1):
        ending.add(step, scores, 1, patience=2)
    assert (ending.end, ending.stop_reason) == (3, "overfitted")


def test_what_the_second_half_brought() -> None:
    assert Ending().recent_gain() is None
    assert Ending(steps=[10], means=[3.0]).recent_gain() is None
    assert Ending(steps=[15, 20], means=[5.0, 4.0]).recent_gain() is None  # nothing as early as half of it
    assert Ending(steps=[5, 10, 15, 20], means=[9.0, 3.0, 2.0, 1.5]).recent_gain() == 1.5


# -- schedule ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", range(1, 200))
def test_a_length_follows_from_where_the_decay_begins_and_back(step: int) -> None:
    assert decay_start(with_decay(step)) == step
    assert with_decay(step) == pytest.approx(1.25 * step, abs=1)


def test_the_rate_is_constant_until_the_last_fifth_and_then_falls_to_zero() -> None:
    settings = TrainingSettings(steps=20, learning_rate=0.5, warmup_steps=4, lr_schedule="wsd")
    rates = [learning_rate(step, settings) for step in range(21)]
    assert rates[:4] == [0.125, 0.25, 0.375, 0.5]
    assert rates[4:16] == [0.5] * 12
    assert rates[16:] == pytest.approx([0.4, 0.3, 0.2, 0.1, 0.0])
    assert all(later < earlier for earlier, later in pairwise(rates[15:]))
    opened = replace(settings, steps=None, validate_every=1)
    assert [learning_rate(step, opened) for step in range(4, 100)] == [0.5] * 96
    assert [learning_rate(step, opened, 20) for step in range(21)] == rates


def test_a_fifth_of_the_time_is_left_for_the_decay() -> None:
    assert [is_late(seconds, replace(OPEN, minutes=1.0)) for seconds in (47.9, 48.0)] == [False, True]
    assert not is_late(1e9, OPEN)


def test_the_first_validations_are_early() -> None:
    assert [step for step in range(1000) if early_validation(step, 400)] == [50, 100, 200]
    assert [step for step in range(1000) if early_validation(step, 4)] == [0, 1, 2]  # 0 is never validated


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"validate_every": 0}, "validate_every must be above 0 where steps are None"),
        ({"lr_schedule": "cosine"}, "lr_schedule must be wsd where steps are None"),
        ({"minutes": 0.0}, "minutes must be positive, or None"),
        ({"minutes": 1.0, "steps": 5}, "minutes must be None where steps are given"),
        ({"elements_per_batch": 0}, "elements_per_batch must be positive, or None"),
    ],
)
def test_lengths_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        replace(OPEN, **changes)


def test_large_sets_come_in_smaller_batches() -> None:
    settings = TrainingSettings(batch_size=64, elements_per_batch=1000)
    assert [settings.batch_size_for(size) for size in (0, 1, 15, 16, 40, 500, 5000)] == [
        64,
        64,
        64,
        62,
        25,
        16,
        16,
    ]
    assert replace(settings, batch_size=8).batch_size_for(5000) == 8  # none becomes larger
    assert replace(settings, elements_per_batch=None).batch_size_for(5000) == 64


# -- runs ----------------------------------------------------------------------------------------------


def test_a_run_ends_after_a_decay_when_validation_has_levelled_off() -> None:
    """It validates at 1, 2, 4, 8 and so on; 8 is the last improvement, four validations later it is decided."""
    trainer, told = make_open(levelling)
    outcome = trainer.fit()
    assert (outcome.steps, outcome.stop_reason, outcome.stopped_early) == (30, "converged", False)
    assert [step for step, _, _ in told.scores] == [1, 2, 4, 8, 12, 16, 20, 24, 28, 30]
    assert (told.starts, told.lengths) == ([(0, None)], [30])
    rates = [told.numbers[step]["learning_rate"] for step in range(1, 31)]
    assert rates == [learning_rate(step, replace(OPEN, steps=30)) for step in range(30)]
    assert told.errors == [pytest.approx(0.5)] * 10
    assert (outcome.score_step, outcome.score, outcome.score_standard_error) == (30, 2.5, pytest.approx(0.5))
    assert outcome.recent_gain == 0.0  # from step 12 to step 24


def test_by_default_ten_validations_may_bring_nothing() -> None:
    """8 is the last improvement, ten validations later it is decided."""
    trainer, _ = make_open(levelling, replace(OPEN, patience=None))
    assert trainer.fit().steps == 60


def test_such_a_run_is_the_same_as_one_of_that_length() -> None:
    trainer, _ = make_open(levelling)
    outcome = trainer.fit()
    fixed, told = make_open(levelling, replace(OPEN, steps=outcome.steps, patience=None))
    same = fixed.fit()
    assert_same(same.weights, outcome.weights)
    assert (told.lengths, same.stop_reason) == ([], None)


@pytest.mark.parametrize("at", [5, 20, 24, 25, 29])
def test_a_resumed_run_ends_where_it_would_have(tmp_path: Path, at: int) -> None:
    whole, _ = make_open(levelling, folder=tmp_path / "whole")
    outcome = whole.fit()
    source = ActingSource(at - 1, lambda: os.kill(os.getpid(), signal.SIGINT))
    trainer, _ = make_open(levelling, folder=tmp_path / "parts", source=source)
    with pytest.raises(TrainingInterrupted, match=rf"after step {at}( of 30)?;"):
        trainer.fit()
    resumed, told = make_open(levelling, folder=tmp_path / "parts")
    after = resumed.fit(resume=True)
    assert_same(after.weights, outcome.weights)
    assert_same(weights_of(resumed), weights_of(whole))
    assert told.starts == [(at, 30 if at >= 24 else None)]
    same = ("steps", "score", "score_step", "score_standard_error", "stop_reason", "recent_gain")
    assert [getattr(after, name) for name in same] == [getattr(outcome, name) for name in same]
    again, _ = make_open(levelling, folder=tmp_path / "parts")
    assert_same(again.fit(resume=True).weights, outcome.weights)  # there is nothing left to do


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A second passes whenever anybody looks."""
    ticks = count()
    fake = SimpleNamespace(monotonic=lambda: float(next(ticks)))
    monkeypatch.setattr("desp.training.loop.time", fake)
    return fake


def falling(step: int) -> list[float]:
    return [-1.0 * step, -1.5 * step]


@pytest.mark.usefixtures("clock")
def test_time_ends_a_run_that_still_improves() -> None:
    """Sixteen of twenty seconds are over at step 16; then comes the decay."""
    trainer, told = make_open(falling, replace(OPEN, minutes=20 / 60))
    outcome = trainer.fit()
    assert (outcome.steps, outcome.stop_reason, told.lengths) == (20, "out of time", [20])
    # From step 4, the last of the first half, to step 12, the last that was validated before the decay.
    assert outcome.recent_gain == pytest.approx(1.25 * 8)


def test_an_end_that_time_decided_is_kept_by_a_resumed_run(
    tmp_path: Path, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(OPEN, minutes=20 / 60)
    source = ActingSource(17, lambda: os.kill(os.getpid(), signal.SIGINT))
    trainer, _ = make_open(falling, settings, folder=tmp_path, source=source)
    with pytest.raises(TrainingInterrupted, match="after step 18 of 20;"):
        trainer.fit()
    monkeypatch.setattr(clock, "monotonic", lambda: 0.0)  # a machine of no patience
    resumed, _ = make_open(falling, settings, folder=tmp_path)
    assert resumed.fit(resume=True).steps == 20


@pytest.mark.usefixtures("clock")
def test_an_end_that_time_decided_outlives_a_kill(tmp_path: Path) -> None:
    """It is saved at once, and not at the next regular checkpoint."""

    def die() -> None:
        raise RuntimeError("killed")

    settings = replace(OPEN, minutes=20 / 60, checkpoint_every=1000)
    trainer, _ = make_open(falling, settings, folder=tmp_path, source=ActingSource(17, die))
    with pytest.raises(RuntimeError, match="killed"):
        trainer.fit()
    resumed, told = make_open(falling, settings, folder=tmp_path)
    assert resumed.store is not None
    assert resumed.store.paths() != []
    assert resumed.fit(resume=True).steps == 20
    assert told.starts == [(16, 20)]


def test_another_length_has_no_limit_of_minutes() -> None:
    timed = replace(OPEN, minutes=2.0)
    assert timed.of_length(7) == replace(OPEN, steps=7)
    assert timed.of_length(None) == timed


def test_without_validation_a_length_is_taken_that_has_served_before() -> None:
    trainer = make_trainer(make_predictor(), OPEN)
    assert trainer.schedule.end(trainer.state) == STEPS_WITHOUT_VALIDATION


@pytest.mark.parametrize(
    ("step", "end"), [(100, 125), (1599, 1998), (1600, STEPS_WITHOUT_VALIDATION), (1900, STEPS_WITHOUT_VALIDATION)]
)
def test_time_only_shortens_a_run_without_validation(step: int, end: int) -> None:
    """Its decay begins after step 1600, and its rate never rises again."""
    trainer = make_trainer(make_predictor(), replace(OPEN, minutes=1.0))
    schedule, state = trainer.schedule, trainer.state
    state.step, state.seconds = step, 59.0
    before = schedule.rate(step, state)
    assert schedule.look_at_clock(state, trainer.accelerator) == (end < STEPS_WITHOUT_VALIDATION)
    assert schedule.end(state) == end
    assert schedule.rate(step, state) <= before


def test_a_saved_state_does_not_change_with_the_one_that_is_made_of_it() -> None:
    saved = asdict(TrainingState())
    TrainingState.of(saved).ending.add(1, [1.0, 2.0], 1, patience=2)
    assert saved == asdict(TrainingState())


# -- which weights are kept ------------------------------------------------------------------------------

SIX = replace(SHORT, validate_every=2)


@pytest.mark.parametrize(
    ("scores", "keep", "kept"),
    [
        ([[3.0, 5.0], [1.0, 3.0], [1.1, 3.0]], "last", 6),  # worse by .05 +- .05
        ([[3.0, 5.0], [1.0, 3.0], [1.2, 3.1]], "last", 4),  # worse by .15 +- .05
        ([[3.0, 5.0], [1.0, 3.0], [1.1, 3.0]], "best", 4),
        ([[3.0, 5.0], [1.0, 3.0], [0.9, 3.0]], "last", 6),
        ([[3.0, 5.0], [1.0, 3.0], [math.nan, 3.0]], "last", 4),
    ],
)
def test_the_last_weights_are_kept_unless_earlier_ones_are_clearly_better(
    scores: list[list[float]], keep: str, kept: int
) -> None:
    seen: dict[int, dict[str, Tensor]] = {}

    def of(step: int) -> list[float]:
        seen[step] = weights_of(trainer)
        return scores[step // 2 - 1]

    trainer, _ = make_open(of, replace(SIX, keep=keep))
    outcome = trainer.fit()
    assert outcome.score_step == kept
    assert outcome.score == pytest.approx(sum(scores[kept // 2 - 1]) / 2)
    assert_same(outcome.weights, seen[kept])


def test_overfitted_weights_are_not_kept() -> None:
    """The best score of all was within the noise of the last, which is clearly worse than the reference."""
    trainer, _ = make_open(levelling)
    state = trainer.state
    state.step = state.validated_step = 8
    state.ending = Ending(best=[1.0, 5.0], last=[3.0, 3.5])
    assert trainer.schedule.keeps_last(state)
    state.ending.stop_reason = "overfitted"
    assert not trainer.schedule.keeps_last(state)
