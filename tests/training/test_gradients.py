"""From a batch to gradients."""

import pytest
import torch
from tiny_problem import KINDS, Kind, make_predictor, make_trainer, polygons
from torch import Tensor

from desp.training import Trainer


def gradients_of(trainer: Trainer, batch: int = 8, step: int = 0) -> dict[str, Tensor]:
    """Loss, statistics and gradients of one batch of the stream."""
    device = trainer.accelerator.device
    x, y = trainer.update.prepare(next(polygons(batch=batch).batches(step)))
    loss, statistics = trainer.update.gradients(x, y, torch.Generator(device).manual_seed(step))
    weights = trainer.method.named_parameters()
    return {
        "loss": loss.clone(),
        **{name: value.clone() for name, value in statistics.items()},
        **{f"gradient/{name}": value.grad.clone() for name, value in weights},
    }


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
    """Through the wrapper or not: backward of the method's own loss."""
    trainer = make_trainer(make_predictor(kind))
    found = gradients_of(trainer)
    x, y = trainer.update.prepare(next(polygons().batches(0)))
    loss, _ = trainer.method(x, y, torch.Generator().manual_seed(0))
    parameters = dict(trainer.method.named_parameters())
    expected = torch.autograd.grad(loss, list(parameters.values()))
    assert torch.equal(found["loss"], loss.detach())
    for name, value in zip(parameters, expected, strict=True):
        torch.testing.assert_close(found[f"gradient/{name}"], value)
