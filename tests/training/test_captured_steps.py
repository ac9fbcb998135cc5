"""Training steps as CUDA graphs, on a CPU that pretends: they train as plain steps do."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_problem import (
    KINDS,
    RICH,
    SHORT,
    ActingSource,
    Given,
    Kind,
    Poisoned,
    Recorder,
    make_predictor,
    make_trainer,
    polygons,
    rich_trainer,
    weights_of,
)

from desp.data.base import BatchSource
from desp.errors import TrainingInterrupted
from desp.settings import Engine, TrainingSettings
from desp.training import Trainer
from pretend_cuda import PretendAccelerator, PretendGenerator, PretendGraph

# The rate and the share of the average change from step to step, and numbers of several steps are logged together.
CHANGING = replace(SHORT, ema_decay=0.9, clip_norm=0.1, warmup_steps=4, log_every=2)


def trainer_of(
    engine: Engine,
    kind: Kind = "contrastive",
    settings: TrainingSettings = CHANGING,
    source: BatchSource | None = None,
    callback: Recorder | None = None,
) -> Trainer:
    """A trainer that takes its CPU for a GPU, in double precision: Adam makes rounding errors as large as any."""
    predictor, accelerator = make_predictor(kind, engine=engine), PretendAccelerator()
    predictor.method.double()
    return make_trainer(predictor, settings, accelerator=accelerator, source=source, callback=callback)


def assert_trained_alike(kind: Kind, settings: TrainingSettings, *sources: BatchSource | None) -> None:
    """Captured and plain training log the same numbers and end with the same weights, those of the average too."""
    plain, captured = Recorder(), Recorder()
    expected = trainer_of("eager", kind, settings, sources[0], plain).fit()
    trainer = trainer_of("auto", kind, settings, sources[-1], captured)
    assert (trainer.update.drawn_from is not None) == (sources[-1] is None)
    found = trainer.fit()
    assert (expected.engine, found.engine) == ("eager", "graph")
    assert plain.numbers.keys() == captured.numbers.keys()
    assert plain.rollbacks == captured.rollbacks
    for step, numbers in plain.numbers.items():
        assert captured.numbers[step] == pytest.approx(numbers, rel=1e-4, abs=1e-6)
    for name, value in expected.weights.items():
        torch.testing.assert_close(found.weights[name], value, rtol=1e-4, atol=1e-5)


# With batch norm some gradients are nothing but rounding errors, which Adam makes as large as any.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "tspn"])
def test_captured_training_that_draws_its_batches_is_plain_training(
    kind: Kind, captured_graphs: list[PretendGraph]
) -> None:
    assert_trained_alike(kind, CHANGING, None)
    # Assignments are solved between two graphs.
    graphs = 2 if kind == "dspn-hungarian" else 1
    assert [item.replays for item in captured_graphs] == [CHANGING.steps - 1] * graphs


@pytest.mark.parametrize("kind", ["contrastive", "set-risk", "denoising"])
def test_captured_training_on_given_batches_is_plain_training(
    kind: Kind, captured_graphs: list[PretendGraph]
) -> None:
    assert_trained_alike(kind, CHANGING, Given())
    # For batches of 8 and of 5; the last batch of 8 is the first of its shape again.
    assert [item.replays for item in captured_graphs] == [2, 1]


def test_a_roll_back_is_captured_anew_with_the_state_it_goes_back_to(captured_graphs: list[PretendGraph]) -> None:
    settings = replace(CHANGING, on_divergence="rollback", steps=8)
    assert_trained_alike("contrastive", settings, Poisoned((0, 3)), Poisoned((0, 3)))
    assert len(captured_graphs) == 2


def test_resumed_training_goes_on_with_the_rate_of_its_schedule(
    tmp_path: Path, captured_graphs: list[PretendGraph]
) -> None:
    """A restored optimiser holds the rate as a number; a captured step must read it from the device."""
    whole = rich_trainer("denoising", tmp_path / "whole", accelerator=PretendAccelerator())
    assert whole.fit().engine == "graph"
    source = ActingSource(6, lambda: os.kill(os.getpid(), signal.SIGINT), device=torch.device("cuda"))
    with pytest.raises(TrainingInterrupted, match=f"after step 7 of {RICH.steps}"):
        rich_trainer("denoising", tmp_path / "parts", accelerator=PretendAccelerator(), source=source).fit()
    resumed = rich_trainer("denoising", tmp_path / "parts", accelerator=PretendAccelerator())
    assert resumed.fit(resume=True).engine == "graph"
    expected = weights_of(whole)
    for name, value in weights_of(resumed).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-5)
    assert len(captured_graphs) == 3


@pytest.mark.usefixtures("captured_graphs")
def test_the_callers_batch_is_neither_kept_nor_changed() -> None:
    """Sources may fill the memory of a batch with the next one, or hand out the same again."""
    ends = []
    for spoil in (False, True):
        trainer = trainer_of("auto", source=Given())
        batches = [next(polygons().batches(step)) for step in range(3)]
        tensors = {id(batch): trainer.update.prepare(batch) for batch in batches}
        before = {key: (x.clone(), y.clone()) for key, (x, y) in tensors.items()}
        trainer.update.prepare = lambda batch, tensors=tensors: tensors[id(batch)]  # the same memory every time
        for step, batch in enumerate(batches):
            trainer.update(batch, noise=step, step=step, rate=1e-2)
            for item in tensors[id(batch)] if spoil else ():
                item.fill_(float("nan"))
        for key, items in tensors.items():
            assert spoil or all(map(torch.equal, items, before[key]))
        ends.append(weights_of(trainer))
    for name, value in ends[0].items():
        assert torch.equal(ends[1][name], value)


def test_capture_itself_changes_nothing_and_replays_overwrite(captured_graphs: list[PretendGraph]) -> None:
    trainer = trainer_of("auto", settings=replace(CHANGING, ema_decay=None))
    trainer.update(1, noise=1, step=0, rate=0.0)
    before = weights_of(trainer)
    assert captured_graphs == []
    second, _, _ = trainer.update(2, noise=2, step=1, rate=0.0)
    value = float(second)
    for name, weight in weights_of(trainer).items():
        assert torch.equal(weight, before[name])  # at a rate of zero
    third, _, _ = trainer.update(3, noise=3, step=2, rate=0.0)
    assert third is second  # so whoever keeps it copies it
    assert float(third) != value
    assert float(trainer.update(2, noise=2, step=3, rate=0.0)[0]) == value  # seeds alone decide


@pytest.mark.usefixtures("captured_graphs")
@pytest.mark.parametrize(
    ("engine", "processes", "capturable", "captures"),
    [
        ("auto", 1, True, True),
        ("graph", 1, True, True),
        ("eager", 1, True, False),
        ("compiled", 1, True, False),
        ("auto", 2, True, False),
        ("auto", 1, False, False),
    ],
)
def test_which_steps_are_captured(engine: Engine, processes: int, capturable: bool, captures: bool) -> None:
    predictor = make_predictor(engine=engine)
    predictor.method.capturable = capturable
    trainer = make_trainer(predictor, accelerator=PretendAccelerator(processes), source=polygons(device="cuda"))
    assert trainer.update.captures == captures
    assert isinstance(next(trainer.update.feeds(0, 0)), int) == captures
    # torch refuses to capture an optimiser that was not told of it.
    assert all(group["capturable"] == captures for group in trainer.optimizer.param_groups)


@pytest.mark.usefixtures("captured_graphs")
def test_batches_drawn_on_the_host_are_not_drawn_on_the_device() -> None:
    trainer = trainer_of("auto", source=polygons(device="cpu"))
    assert trainer.update.captures
    assert trainer.update.drawn_from is None


def test_a_capture_that_is_broken_off_leaves_training_whole(
    captured_graphs: list[PretendGraph], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = trainer_of("eager").fit()
    trainer = trainer_of("auto")
    add = PretendGraph.register_generator_state

    def fail(self: PretendGraph, generator: PretendGenerator) -> None:
        add(self, generator)
        if len(self.generators) == 2:  # a chain's has one
            for item in self.generators:
                item.broken = True
            raise RuntimeError("operation not permitted\nwhen stream is capturing")

    monkeypatch.setattr(PretendGraph, "register_generator_state", fail)
    found = trainer.fit()
    assert not trainer.update.captures
    assert [item.replays for item in captured_graphs if len(item.generators) == 2] == [0]
    message = "training runs eagerly, as capturing the step failed: operation not permitted"
    assert [line for line in caplog.messages if "capturing the step failed" in line] == [message]
    for name, value in expected.weights.items():
        torch.testing.assert_close(found.weights[name], value, rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="not permitted"):
        trainer_of("graph").fit()
