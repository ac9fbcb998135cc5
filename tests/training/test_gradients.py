"""From a batch to gradients: plainly, and as one CUDA graph."""

import os
import signal
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from tiny_problem import (
    KINDS,
    RICH,
    ActingSource,
    Kind,
    Recorder,
    make_predictor,
    make_trainer,
    polygons,
    rich_trainer,
    weights_of,
)
from torch import Tensor

from desp.errors import TrainingInterrupted
from desp.settings import Engine
from desp.training import Trainer

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def gradients_of(trainer: Trainer, batch: int = 8, step: int = 0) -> dict[str, Tensor]:
    """Loss, statistics and gradients of one batch of the stream."""
    device = trainer.accelerator.device
    x, y = trainer.prepare(next(polygons(batch=batch).batches(step)))
    loss, statistics = trainer.gradients(x, y, torch.Generator(device).manual_seed(step))
    weights = trainer.estimator.named_parameters()
    return {
        "loss": loss.clone(),
        **{name: value.clone() for name, value in statistics.items()},
        **{f"gradient/{name}": value.grad.clone() for name, value in weights},
    }


def trainer_on_gpu(kind: Kind, engine: Engine) -> Trainer:
    return make_trainer(make_predictor(kind, engine=engine), accelerator=Accelerator())


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_replaced_not_added(kind: Kind) -> None:
    trainer = make_trainer(make_predictor(kind))
    first = gradients_of(trainer)
    gradients_of(trainer, step=1)
    again = gradients_of(trainer)
    assert [name for name in first if not torch.equal(first[name], again[name])] == []
    assert all(value.abs().sum() > 0 for name, value in first.items() if name.startswith("gradient/"))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_loss(kind: Kind) -> None:
    """Through the wrapper or not: backward of the estimator's own loss."""
    trainer = make_trainer(make_predictor(kind))
    found = gradients_of(trainer)
    x, y = trainer.prepare(next(polygons().batches(0)))
    loss, _ = trainer.estimator(x, y, torch.Generator().manual_seed(0))
    parameters = dict(trainer.estimator.named_parameters())
    expected = torch.autograd.grad(loss, list(parameters.values()))
    assert torch.equal(found["loss"], loss.detach())
    for name, value in zip(parameters, expected, strict=True):
        torch.testing.assert_close(found[f"gradient/{name}"], value)


def test_nothing_is_captured_on_the_cpu() -> None:
    assert not make_trainer(make_predictor(engine="auto")).gradients.captures


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("kind", KINDS)
def test_captured_steps_are_those_of_plain_ones(kind: Kind) -> None:
    """Also for another batch size in between, which is captured anew, and for weights that have changed."""
    captured, plain = trainer_on_gpu(kind, "auto"), trainer_on_gpu(kind, "eager")
    assert captured.gradients.captures
    assert not plain.gradients.captures
    for step, batch in enumerate([8, 8, 5, 5, 8]):
        found, expected = gradients_of(captured, batch, step), gradients_of(plain, batch, step)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-4, msg=f"step {step}: {name}")
        for trainer in (captured, plain):
            with torch.no_grad():
                for weight in trainer.gradients.parameters:
                    weight.mul_(0.95)


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("kind", KINDS)
def test_captured_training_ends_where_plain_training_does(kind: Kind) -> None:
    ends = []
    for engine in ("auto", "eager"):
        listener = Recorder()
        predictor = make_predictor(kind, engine=engine)
        trainer = make_trainer(predictor, accelerator=Accelerator(), listener=listener)
        outcome = trainer.fit()
        assert outcome.engine == ("graph" if engine == "auto" else "eager")
        ends.append((outcome.weights, [numbers["loss"] for numbers in listener.numbers.values()]))
    (captured, losses), (plain, expected) = ends
    assert losses == pytest.approx(expected, rel=1e-3, abs=1e-3)
    for name, value in plain.items():
        torch.testing.assert_close(captured[name], value, rtol=1e-3, atol=1e-3)


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("kind", KINDS)
def test_captured_training_can_be_resumed(tmp_path: Path, kind: Kind) -> None:
    whole = rich_trainer(kind, tmp_path / "whole", accelerator=Accelerator())
    whole.fit()
    source = ActingSource(6, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(TrainingInterrupted, match=f"after step 7 of {RICH.steps}"):
        rich_trainer(kind, tmp_path / "parts", accelerator=Accelerator(), source=source).fit()
    resumed = rich_trainer(kind, tmp_path / "parts", accelerator=Accelerator())
    assert resumed.fit(resume=True).engine == "graph"
    expected = weights_of(whole)
    for name, value in weights_of(resumed).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-4)
