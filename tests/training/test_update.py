"""Whole training steps: plainly, and captured."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from tiny_problem import (
    KINDS,
    RICH,
    SHORT,
    ActingSource,
    Given,
    Kind,
    Recorder,
    make_predictor,
    make_trainer,
    polygons,
    rich_trainer,
    weights_of,
)
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from desp.capture import CapturedCall
from desp.data import PointTable, draw_digits, draw_polygons
from desp.data.base import Batch, BatchSource
from desp.data.mnist import PIXELS, translate_points
from desp.data.pedestrians import WindowTable, simulated_pedestrians
from desp.data.simulated_items import simulated_pool
from desp.errors import TrainingInterrupted
from desp.scaling import FeatureScaling
from desp.settings import TrainingSettings
from desp.tasks.celeba import FeatureNoise, draw_labelled
from desp.training import Trainer, TrainingCallback
from desp.training.schedule import learning_rate

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
AVERAGED = replace(SHORT, ema_decay=0.9, clip_norm=0.1, warmup_steps=3)


class Rerun(CapturedCall[object]):
    """Stands in for a capture: a replay does the work again, which is what a capture must amount to."""

    def __init__(self, work: Callable[[], object], generators: Sequence[torch.Generator]) -> None:
        self.work, self.generators = work, generators

    def __call__(self) -> object:
        return self.work()


def capturing(trainer: Trainer) -> Trainer:
    """Let a trainer on the CPU believe that it can capture steps."""
    trainer.update.captures, trainer.update._ema_weight = True, torch.zeros(())
    return trainer


@pytest.fixture
def reruns(monkeypatch: pytest.MonkeyPatch) -> list[Rerun]:
    made: list[Rerun] = []

    def make(work: Callable[[], object], generators: Sequence[torch.Generator]) -> Rerun:
        made.append(Rerun(work, generators))
        return made[-1]

    monkeypatch.setattr("desp.training.update.CapturedCall", make)
    monkeypatch.setattr("desp.training.update.warm_up", lambda work: work())
    return made


class GradientsSeen(TrainingCallback):
    """Remembers the gradients and weights after every step."""

    def __init__(self) -> None:
        self.trainer: Trainer | None = None
        self.gradients: list[Tensor] = []
        self.weights: list[Tensor] = []
        self.norms: list[float] = []

    def on_step(self, step: int) -> None:  # noqa: ARG002
        parameters = list(self.trainer.method.parameters())
        self.gradients.append(torch.cat([item.grad.flatten() for item in parameters]).double())
        self.weights.append(torch.cat([item.detach().flatten() for item in parameters]).double())

    def on_log(self, step: int, numbers: dict[str, float]) -> None:  # noqa: ARG002
        self.norms.append(numbers["gradient_norm"])


def watched(settings: TrainingSettings, source: BatchSource | None = None) -> GradientsSeen:
    """What was seen in a whole training."""
    callback = GradientsSeen()
    callback.trainer = make_trainer(make_predictor(), settings, callback=callback, source=source)
    callback.trainer.fit()
    return callback


def test_steps_are_those_of_adam_with_the_given_decays() -> None:
    """Kingma and Ba's algorithm 1, with gradients as they are: nothing else moves the weights."""
    settings = replace(SHORT, steps=4, betas=(0.3, 0.7), learning_rate=0.02, warmup_steps=3)
    seen, mean, square = watched(settings), torch.zeros(()), torch.zeros(())
    for step in range(1, 4):
        gradient = seen.gradients[step]
        if step == 1:
            mean, square = 0.7 * seen.gradients[0], 0.3 * seen.gradients[0].square()
        mean, square = 0.3 * mean + 0.7 * gradient, 0.7 * square + 0.3 * gradient.square()
        ahead, spread = mean / (1 - 0.3 ** (step + 1)), square / (1 - 0.7 ** (step + 1))
        expected = -learning_rate(step, settings) * ahead / (spread.sqrt() + 1e-8)
        found = seen.weights[step] - seen.weights[step - 1]
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-7)


class Steep(BatchSource):
    """Huge polygons, which make long gradients."""

    def batches(self, first: int, attempt: int = 0) -> Iterator[Batch]:
        for batch in polygons().batches(first, attempt):
            yield replace(batch, sets=replace(batch.sets, elements=1000 * batch.sets.elements))


@pytest.mark.parametrize("clip_norm", [None, 1e-3, 1e9])
def test_gradients_are_clipped_only_where_they_are_longer_than_the_limit(clip_norm: float | None) -> None:
    seen = watched(replace(SHORT, steps=2, clip_norm=clip_norm), Steep())
    assert min(seen.norms) > 2
    left = [float(gradient.norm()) for gradient in seen.gradients]
    assert left == pytest.approx([1e-3, 1e-3] if clip_norm == 1e-3 else seen.norms, rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_captured_steps_with_drawing_are_the_plain_ones(kind: Kind, reruns: list[Rerun]) -> None:
    plain, captured = (make_trainer(make_predictor(kind), settings=AVERAGED) for _ in range(2))
    expected = plain.fit()
    outcome = capturing(captured).fit()
    assert len(reruns) == 1
    assert outcome.engine == "graph"
    for name, value in expected.weights.items():
        torch.testing.assert_close(outcome.weights[name], value, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_captured_steps_with_given_batches_are_the_plain_ones(kind: Kind, reruns: list[Rerun]) -> None:
    plain, captured = (make_trainer(make_predictor(kind), settings=AVERAGED, source=Given()) for _ in range(2))
    expected = plain.fit()
    outcome = capturing(captured).fit()
    assert len(reruns) == 2  # for batches of 8 and of 5; the last batch of 8 is the first of its shape again
    for name, value in expected.weights.items():
        torch.testing.assert_close(outcome.weights[name], value, rtol=1e-6, atol=1e-7)


def test_captured_steps_go_back_to_other_batches(reruns: list[Rerun]) -> None:
    """After a roll-back, and from a step that is not the first, the drawn batches are the plain ones, too."""
    ends = []
    for captured in (False, True):
        callback = Recorder()
        trainer = make_trainer(make_predictor(), replace(AVERAGED, on_divergence="rollback"), callback=callback)
        trainer = capturing(trainer) if captured else trainer
        fail_once(trainer, step=3)
        ends.append(trainer.fit().weights)
        assert callback.rollbacks == [(4, 2)]
    assert len(reruns) == 2
    for name, value in ends[0].items():
        torch.testing.assert_close(ends[1][name], value, rtol=1e-6, atol=1e-7)


def fail_once(trainer: Trainer, step: int) -> None:
    """Let the loss of a step of the first attempt not be finite."""
    add = trainer.monitor.add

    def added(number: int, loss: Tensor, norm: Tensor, statistics: dict[str, Tensor]) -> None:
        bad = number == step and trainer.state.attempt == 0
        add(number, loss * float("nan") if bad else loss, norm, statistics)

    trainer.monitor.add = added  # type: ignore[method-assign]


@pytest.mark.parametrize("part", ["CapturedCall", "warm_up"])
def test_what_cannot_be_captured_or_compiled_is_stepped_plainly(
    part: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("not permitted\nhere")

    monkeypatch.setattr("desp.training.update.warm_up", lambda work: work())
    monkeypatch.setattr(f"desp.training.update.{part}", fail)
    plain, captured = (make_trainer(make_predictor(), settings=AVERAGED) for _ in range(2))
    expected = plain.fit()
    outcome = capturing(captured).fit()
    assert outcome.engine == "eager"
    assert caplog.messages.count("training runs eagerly, as capturing the step failed: not permitted") == 1
    for name, value in expected.weights.items():
        torch.testing.assert_close(outcome.weights[name], value, rtol=1e-6, atol=1e-7)


def test_a_replay_that_fails_is_no_matter_of_capture(reruns: list[Rerun]) -> None:
    trainer = capturing(make_trainer(make_predictor(), settings=AVERAGED))
    trainer.update(0, noise=0, step=0, rate=1e-3)
    trainer.update(1, noise=1, step=1, rate=1e-3)

    def fail() -> object:
        raise RuntimeError("out of memory")

    reruns[0].work = fail
    with pytest.raises(RuntimeError, match="out of memory"):
        trainer.update(2, noise=2, step=2, rate=1e-3)


def test_rolled_back_steps_are_captured_anew(reruns: list[Rerun]) -> None:
    trainer = capturing(make_trainer(make_predictor(), settings=AVERAGED))
    saved = trainer._snapshot()
    for step in range(3):
        trainer.update(step, noise=step, step=step, rate=1e-3)
    first = {name: value.clone() for name, value in trainer.method.state_dict().items()}
    trainer._restore(saved)
    for step in range(3):
        trainer.update(step, noise=step, step=step, rate=1e-3)
    assert len(reruns) == 2
    for name, value in trainer.method.state_dict().items():
        assert torch.equal(value, first[name])


class HostWork(TorchDispatchMode):
    """Notes what cannot be captured: reading a value on the host, and making a tensor of Python's numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(  # type: ignore[no-untyped-def]
        self, function, types, args=(), kwargs=None
    ):
        name = str(function)
        if "_local_scalar_dense" in name or "lift_fresh" in name or "nonzero" in name:
            self.found.append(name)
        return function(*args, **(kwargs or {}))


def point_table(device: str = "cpu") -> PointTable:
    """Five sets of up to nine pixels."""
    points = (torch.arange(5 * 9 * 2, dtype=torch.uint8) % 28).view(5, 9, 2)
    sizes = torch.tensor([1, 9, 4, 7, 0])
    present = torch.arange(9) < sizes.unsqueeze(1)
    return PointTable(points * present.unsqueeze(-1), sizes).to(device)


TABLE = point_table()


def draw_translated(batch_size: int, generator: torch.Generator) -> Batch:
    """Points, some of them translated."""
    return translate_points(0.5, PIXELS)(TABLE.draw(batch_size, generator), generator)


@pytest.mark.parametrize("draw", [draw_polygons, draw_digits, draw_translated])
def test_drawing_leaves_nothing_to_the_host(draw: Callable[[int, torch.Generator], Batch]) -> None:
    scaling = FeatureScaling((0.1, 0.2), (2.0, 3.0))

    def work() -> Tensor:
        return scaling.scale(draw(4, torch.Generator().manual_seed(0)).sets.elements)

    expected = work()  # constants are made in the first call
    with HostWork() as host:
        assert torch.equal(work(), expected)
    # On the CPU, and only there, one_hot looks at the values.
    assert host.found in ([], ["aten._local_scalar_dense.default"] * 2)


@pytest.mark.parametrize("kind", ["set-risk", "dspn", "c-dspn", "tspn"])
def test_losses_of_direct_risk_leave_nothing_to_the_host(kind: Kind) -> None:
    """What the CPU can tell of whether forward and backward can be captured on a GPU."""
    trainer = make_trainer(make_predictor(kind))
    x, y = trainer.update.prepare(next(polygons().batches(0)))
    assert trainer.method.capturable
    with HostWork() as host:
        trainer.update.gradients(x, y, torch.Generator().manual_seed(0))
    assert host.found == []


def test_what_is_drawn_on_another_device_is_drawn_there() -> None:
    assert make_trainer(make_predictor()).update.drawn_from is not None
    assert make_trainer(make_predictor(), source=polygons(device="meta")).update.drawn_from is None


def test_nothing_is_captured_on_the_cpu() -> None:
    assert not make_trainer(make_predictor(engine="auto")).update.captures


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", [None, Given()], ids=["drawn", "given"])
def test_captured_training_ends_where_plain_training_does(kind: Kind, source: BatchSource | None) -> None:
    ends = []
    for engine in ("auto", "eager"):
        callback = Recorder()
        predictor = make_predictor(kind, engine=engine)
        given = {} if source is None else {"source": source}
        trainer = make_trainer(predictor, settings=AVERAGED, accelerator=Accelerator(), callback=callback, **given)
        outcome = trainer.fit()
        assert outcome.engine == ("graph" if engine == "auto" else "eager")
        ends.append((outcome.weights, [numbers["loss"] for numbers in callback.numbers.values()]))
    (captured, losses), (plain, expected) = ends
    assert losses == pytest.approx(expected, rel=1e-3, abs=1e-3)
    for name, value in plain.items():
        torch.testing.assert_close(captured[name], value, rtol=1e-3, atol=1e-3)


def draw_points(generator: torch.Generator) -> Callable[[], Tensor]:
    table, augment = point_table("cuda"), translate_points(0.5, PIXELS)
    return lambda: augment(table.draw(16, generator), generator).x


def draw_items(generator: torch.Generator) -> Callable[[], Tensor]:
    pool, augment = simulated_pool(200, 0.5, "capture").to("cuda"), FeatureNoise(torch.ones(48, device="cuda"))

    def drawn() -> Tensor:
        batch = augment(draw_labelled(16, generator, pool), generator)
        return torch.cat([batch.x, batch.sets.elements], dim=2)

    return drawn


def draw_walkers(generator: torch.Generator) -> Callable[[], Tensor]:
    table = WindowTable(simulated_pedestrians("eth").training, 1.5, 0.1, 3).to("cuda")

    def drawn() -> Tensor:
        batch = table.draw(16, generator)
        return torch.cat([batch.x, batch.sets.elements], dim=2)

    return drawn


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("draw", [draw_points, draw_items, draw_walkers])
def test_batches_are_drawn_inside_a_capture(draw: Callable[[torch.Generator], Callable[[], Tensor]]) -> None:
    generator = torch.Generator(device="cuda")
    drawn, expected = draw(generator), []
    for seed in (3, 4):
        generator.manual_seed(seed)
        expected.append(drawn())
    captured = CapturedCall(drawn, [generator])
    for seed, x in zip((3, 4), expected, strict=True):
        generator.manual_seed(seed)
        assert torch.equal(captured(), x)


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("kind", KINDS)
def test_captured_training_can_be_resumed(tmp_path: Path, kind: Kind) -> None:
    whole = rich_trainer(kind, tmp_path / "whole", accelerator=Accelerator())
    whole.fit()
    source = ActingSource(6, lambda: os.kill(os.getpid(), signal.SIGINT), device="cuda")
    with pytest.raises(TrainingInterrupted, match=f"after step 7 of {RICH.steps}"):
        rich_trainer(kind, tmp_path / "parts", accelerator=Accelerator(), source=source).fit()
    resumed = rich_trainer(kind, tmp_path / "parts", accelerator=Accelerator())
    assert resumed.fit(resume=True).engine == "graph"
    expected = weights_of(whole)
    for name, value in weights_of(resumed).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-4)
