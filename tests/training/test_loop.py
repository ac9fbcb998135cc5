"""The training loop on a tiny problem: schedule, validation, and what goes wrong."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tiny_problem import (
    DENOISED,
    EVERY_STEP,
    KINDS,
    RICH,
    SHORT,
    ActingSource,
    Kind,
    Poisoned,
    Recorder,
    Scores,
    assert_same,
    held_out_loss,
    make_predictor,
    make_trainer,
    polygons,
    scored,
    weights_of,
)
from torch import Tensor

from desp.data.base import Batch, BatchSource
from desp.errors import CheckpointError, RunError, SettingsError, TrainingInterrupted
from desp.randomness import derive_seed
from desp.training import TrainingCallback
from desp.training.checkpoints import load_checkpoint
from desp.training.device import make_accelerator
from desp.training.schedule import learning_rate

NAN = float("nan")


# -- steps ---------------------------------------------------------------------------------------------


SMALL_STEPS = replace(SHORT, steps=15, learning_rate=1e-3)
ENERGIES = {"energy_real", "energy_sampled"}
NUMBERS: dict[Kind, set[str]] = {
    "contrastive": ENERGIES,
    "masked": ENERGIES | {"divergent"},
    "set-risk": {"risk"},
    "dspn": {"risk"},
    "dspn-hungarian": {"risk"},
    "c-dspn": {"risk", "cardinality_loss"},
    "tspn": {"risk", "cardinality_loss"},
    "tagger": {"accuracy"},
    "autoregressive-tagger": {"accuracy"},
    "label-likelihood": {"log_prob"},
    "engression": {"distance_to_truth", "distance_between"},
    **{kind: {"denoising_loss", "cardinality_loss"} for kind in DENOISED},
}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
@pytest.mark.parametrize("kind", KINDS)
def test_training_lowers_the_held_out_risk(kind: Kind, seed: int) -> None:
    """With any weights to begin with, and whichever data are drawn.

    Steps are small: a contrastive loss compares with samples that move as the energy does, so it need not fall
    while they go far. Nor may a run end early because initial weights happen to be steep.
    """
    predictor = make_predictor(kind, seed=seed, max_divergent_fraction=1.0)
    score = held_out_loss(predictor)
    before = score()
    trainer = make_trainer(predictor, SMALL_STEPS)
    trainer.seed = seed
    trainer.fit()
    assert score() < before


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_run_tells(kind: Kind) -> None:
    callback = Recorder()
    outcome = make_trainer(make_predictor(kind), replace(SHORT, steps=15), callback=callback).fit()
    assert (outcome.steps, outcome.score, outcome.score_step) == (15, None, None)
    assert (outcome.engine, outcome.stopped_early) == ("eager", False)
    assert (callback.starts, callback.ends, list(callback.numbers)) == ([(0, 15)], 1, list(range(1, 16)))
    assert callback.steps == list(range(1, 16))
    assert set(callback.numbers[1]) == {"loss", "gradient_norm", "learning_rate"} | NUMBERS[kind]


def test_the_same_seed_gives_the_same_weights_and_another_does_not() -> None:
    outcomes = []
    for seed in (0, 0, 1):
        trainer = make_trainer(make_predictor())
        trainer.seed = seed
        outcomes.append(trainer.fit().weights)
    assert_same(outcomes[0], outcomes[1])
    assert not all(torch.equal(outcomes[0][name], outcomes[2][name]) for name in outcomes[0])


@pytest.mark.parametrize("lr_schedule", ["constant", "cosine"])
def test_learning_rate_follows_the_schedule(lr_schedule: str) -> None:
    settings = replace(SHORT, warmup_steps=2, lr_schedule=lr_schedule)
    callback = Recorder()
    make_trainer(make_predictor(), settings, callback=callback).fit()
    logged = [callback.numbers[step]["learning_rate"] for step in range(1, 7)]
    assert logged == [learning_rate(step, settings) for step in range(6)]


def test_the_first_step_moves_weights_by_the_warm_up_rate() -> None:
    """Adam's first step is the learning rate times the sign of the gradient."""
    settings = replace(SHORT, steps=1, learning_rate=0.1, warmup_steps=10)
    trainer = make_trainer(make_predictor(), settings)
    before = weights_of(trainer)
    trainer.fit()
    moves = torch.cat([(value - before[name]).abs().flatten() for name, value in weights_of(trainer).items()])
    assert moves.max().item() == pytest.approx(0.01, rel=1e-3)


def test_clipping_limits_the_gradient_and_reports_its_length_before() -> None:
    settings = replace(SHORT, steps=1, clip_norm=1e-3)
    trainer = make_trainer(make_predictor(), settings, callback=Recorder())
    trainer.fit()
    left = torch.cat([weight.grad.flatten() for weight in trainer.update.parameters]).norm()
    assert left.item() == pytest.approx(1e-3, rel=1e-2)
    assert trainer.callback.numbers[1]["gradient_norm"] > 1e-2


def test_log_lines_are_means_of_the_steps_between() -> None:
    each, seldom = Recorder(), Recorder()
    settings = replace(SHORT, checkpoint_every=100)
    make_trainer(make_predictor(), settings, callback=each).fit()
    make_trainer(make_predictor(), replace(settings, log_every=4), callback=seldom).fit()
    assert list(seldom.numbers) == [4, 6]  # and the last step
    for end, steps in ((4, range(1, 5)), (6, range(5, 7))):
        mean = sum(each.numbers[step]["loss"] for step in steps) / len(steps)
        assert seldom.numbers[end]["loss"] == pytest.approx(mean, rel=1e-5)


def test_averaged_weights_are_what_comes_out() -> None:
    class Averaging(TrainingCallback):
        def on_log(self, step: int, numbers: dict[str, float]) -> None:  # noqa: ARG002
            keep = min(0.3, (1 + step) / (10 + step))
            for name, value in weights_of(trainer).items():
                expected[name] = keep * expected[name] + (1 - keep) * value

    trainer = make_trainer(make_predictor(), replace(SHORT, ema_decay=0.3), callback=Averaging())
    expected = weights_of(trainer)
    outcome = trainer.fit()
    for name, value in outcome.weights.items():
        torch.testing.assert_close(value, expected[name])
    assert any(not torch.allclose(value, outcome.weights[name]) for name, value in weights_of(trainer).items())


def test_every_step_and_attempt_draws_its_own_noise() -> None:
    def seeds(*bad: tuple[int, int]) -> list[int]:
        settings = replace(SHORT, on_divergence="rollback")
        trainer = make_trainer(make_predictor(), settings, source=Poisoned(*bad))
        compute, found = trainer.update.wrapped, []

        def spy(x: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
            found.append(generator.initial_seed())
            return compute(x, y, generator)

        trainer.update.wrapped = spy
        trainer.fit()
        return found

    plain, rolled_back = seeds(), seeds((0, 3))
    # Resumed runs and results on file depend on these: seed, attempt, step, process.
    assert plain == [derive_seed(0, "train", 0, step, 0) for step in range(6)]
    assert rolled_back == plain[:4] + [derive_seed(0, "train", 1, step, 0) for step in range(2, 6)]


def test_noise_follows_the_seed_and_the_process() -> None:
    trainer, seeds = make_trainer(make_predictor()), []

    def update(_: object, noise: int, *__: object) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        seeds.append(noise)
        return torch.zeros(()), torch.zeros(()), {}

    trainer.seed, trainer.update = 3, update
    trainer.accelerator = SimpleNamespace(process_index=2)
    trainer._step(next(polygons().batches(0)))
    assert seeds == [derive_seed(3, "train", 0, 0, 2)]


def test_data_that_end_too_early() -> None:
    class Few(BatchSource):
        def batches(self, first: int, attempt: int = 0) -> Iterator[Batch]:
            return islice(polygons().batches(first, attempt), 4 - first)

    callback = Recorder()
    with pytest.raises(RunError, match="ended after 4 of 6 steps"):
        make_trainer(make_predictor(), source=Few(), callback=callback).fit()
    assert callback.ends == 1


def test_cuda_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SettingsError, match=r'device="cpu" .*--device cpu'):
        make_accelerator("cuda", SHORT, None)


# -- validation ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("validation_mode", "sign"), [("min", 1), ("max", -1)])
@pytest.mark.parametrize("ema_decay", [None, 0.5])
def test_early_stopping_keeps_the_best_weights(
    tmp_path: Path, validation_mode: str, sign: int, ema_decay: float | None
) -> None:
    settings = replace(EVERY_STEP, patience=2, validation_mode=validation_mode, ema_decay=ema_decay)
    scores = Scores(*(sign * score for score in (3.0, 1.0, 2.0, 1.0)))  # equal is not better
    callback = Recorder()
    trainer = scored(scores, settings, folder=tmp_path, callback=callback)
    outcome = trainer.fit()
    assert outcome.stopped_early
    assert (outcome.steps, outcome.score_step, outcome.score) == (4, 2, sign * 1.0)
    assert [best for _, _, best in callback.scores] == [True, True, False, False]
    assert_same(outcome.weights, scores.seen[1])
    assert_same(load_checkpoint(trainer.store.best_path).tensors, scores.seen[1])
    assert not all(torch.equal(scores.seen[1][name], value) for name, value in weights_of(trainer).items())


def test_averaged_weights_are_what_is_validated() -> None:
    settings = replace(SHORT, steps=3, ema_decay=0.5)
    scores = Scores(1.0)
    scored(scores, replace(settings, validate_every=3)).fit()
    assert_same(scores.seen[0], make_trainer(make_predictor(), settings).fit().weights)


def test_improvement_renews_patience() -> None:
    scores = Scores(5, 6, 4, 5, 3, 9)
    outcome = scored(scores, replace(EVERY_STEP, patience=2)).fit()
    assert (outcome.stopped_early, outcome.steps, outcome.score_step) == (False, 6, 5)
    assert_same(outcome.weights, scores.seen[4])


def test_validation_happens_every_so_often_and_at_the_end() -> None:
    callback = Recorder()
    scored(Scores(1, 2, 3), replace(SHORT, steps=5, validate_every=2), callback=callback).fit()
    assert [step for step, _, _ in callback.scores] == [2, 4, 5]


@pytest.mark.parametrize("validation_mode", ["min", "max"])
def test_nan_is_never_the_best_score(validation_mode: str) -> None:
    scores = Scores(NAN, 5.0, NAN, NAN, NAN, NAN)
    outcome = scored(scores, replace(EVERY_STEP, validation_mode=validation_mode)).fit()
    assert (outcome.score, outcome.score_step) == (5.0, 2)
    assert_same(outcome.weights, scores.seen[1])


def test_nothing_but_nan_keeps_the_last_weights_and_costs_patience(tmp_path: Path) -> None:
    trainer = scored(Scores(NAN, NAN), replace(EVERY_STEP, patience=2), folder=tmp_path)
    outcome = trainer.fit()
    assert (outcome.stopped_early, outcome.steps, outcome.score) == (True, 2, None)
    assert_same(outcome.weights, weights_of(trainer))
    assert '"validation_score": null' in (tmp_path / "log.jsonl").read_text()
    assert not trainer.store.best_path.exists()


# -- run folders ---------------------------------------------------------------------------------------


def test_a_folder_is_not_used_twice(tmp_path: Path) -> None:
    make_trainer(make_predictor(), folder=tmp_path).fit()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=r"already holds a run, at step 6\..*--resume") as caught:
        make_trainer(make_predictor(seed=1), folder=tmp_path).fit()
    assert str(tmp_path) in str(caught.value)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("other", "settings"),
    [
        (lambda: make_predictor(hidden=9), SHORT),
        (lambda: make_predictor("set-risk"), SHORT),
        (make_predictor, replace(SHORT, ema_decay=0.9)),
    ],
    ids=["width", "method", "average"],
)
def test_resuming_with_other_settings(tmp_path: Path, other: Callable[[], object], settings: object) -> None:
    make_trainer(make_predictor(), folder=tmp_path).fit()
    with pytest.raises(CheckpointError, match=r"(?s)does not fit these settings.*the settings the run"):
        make_trainer(other(), settings, folder=tmp_path).fit(resume=True)


def test_a_run_made_longer_goes_on_with_its_engine(tmp_path: Path) -> None:
    make_trainer(make_predictor(), folder=tmp_path).fit()
    longer = make_trainer(make_predictor(), replace(SHORT, steps=8), folder=tmp_path)
    longer.method.training_engine.expected_gradients = 10**9  # enough to compile for, were it a new run
    assert longer.fit(resume=True).engine == "eager"


def test_resuming_nothing_begins_at_the_beginning(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"step": 1, "loss": 0.0}\n')  # stopped before the first checkpoint
    outcome = make_trainer(make_predictor(), folder=tmp_path).fit(resume=True)
    assert_same(outcome.weights, make_trainer(make_predictor()).fit().weights)
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 6


def test_resuming_a_finished_run_gives_its_outcome(tmp_path: Path) -> None:
    first = scored(Scores(3, 1, 2, 2, 2, 2), EVERY_STEP, folder=tmp_path).fit()
    again = scored(Scores(), EVERY_STEP, folder=tmp_path).fit(resume=True)
    assert_same(again.weights, first.weights)
    assert (again.score, again.score_step, again.steps) == (1, 2, 6)


def test_resuming_a_run_that_stopped_early_does_not_train_on(tmp_path: Path) -> None:
    settings = replace(EVERY_STEP, patience=2)
    first = scored(Scores(1, 2, 3), settings, folder=tmp_path).fit()
    again = scored(Scores(), settings, folder=tmp_path).fit(resume=True)
    assert first.stopped_early
    assert again.stopped_early
    assert again.steps == first.steps == 3
    assert_same(again.weights, first.weights)


def test_resuming_without_the_best_checkpoint_is_refused(tmp_path: Path) -> None:
    trainer = scored(Scores(3, 1, 2, 2, 2, 2), EVERY_STEP, folder=tmp_path)
    trainer.fit()
    trainer.store.best_path.unlink()
    with pytest.raises(CheckpointError, match=r"no checkpoint at .*best\.safetensors"):
        scored(Scores(), EVERY_STEP, folder=tmp_path).fit(resume=True)


def test_interruption_without_a_folder_says_that_nothing_is_kept() -> None:
    source = ActingSource(2, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(TrainingInterrupted, match=r"after step 3 of 12; nothing is saved"):
        make_trainer(make_predictor(), RICH, source=source).fit()
