"""Predictors on a GPU: fitted there, run as graphs, and taken to the CPU."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_predictors import Pairs, Parts

from desp.predictor import SetPredictor
from desp.randomness import make_generator
from desp.settings import LangevinSettings, TrainingSettings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DEVICE = "cuda"


def test_what_was_fitted_on_a_gpu_predicts_the_same_on_the_cpu(
    variant: Parts, pairs: Pairs, short: TrainingSettings, tmp_path: Path
) -> None:
    fitted = variant.predictor(device=DEVICE)
    fitted.fit(pairs, short)
    assert fitted.device.type == DEVICE
    fitted.save_pretrained(tmp_path)
    loaded = SetPredictor.from_pretrained(tmp_path, device="cpu")
    x = torch.stack([x for x, _ in pairs])
    sampler = variant.method.prediction_sampler
    if isinstance(sampler, LangevinSettings):
        quiet = replace(sampler, stochastic_steps=0)  # noise differs between devices
        there, _ = fitted.sample(fitted.encode(x.to(DEVICE)), make_generator(0, device=DEVICE), sampler=quiet)
        here, _ = loaded.sample(loaded.encode(x), make_generator(0), sampler=quiet)
        torch.testing.assert_close(there.cpu(), here, rtol=1e-3, atol=1e-3)
    if fitted.method_settings.has_energy:
        sets = [y for _, y in pairs]
        torch.testing.assert_close(fitted.energy(x, sets), loaded.energy(x, sets), rtol=1e-3, atol=1e-3)
    predictions = fitted.predict(x, samples=2, seed=1)
    again = fitted.predict(x, samples=2, seed=1)
    for first, second in zip(predictions, again, strict=True):
        assert all(item.device.type == "cpu" for item in first.sets)
        assert all(map(torch.equal, first.sets, second.sets))


def test_predictions_by_graphs_are_those_step_by_step(
    variant: Parts, pairs: Pairs, short: TrainingSettings, tmp_path: Path
) -> None:
    fitted = variant.predictor(device=DEVICE)
    fitted.fit(pairs, short)
    fitted.save_pretrained(tmp_path)
    x = torch.stack([x for x, _ in pairs]).to(DEVICE)
    sets = []
    for engine in ("eager", "graph"):
        predictor = SetPredictor.from_pretrained(tmp_path, device=DEVICE, engine=engine)
        code, generator = predictor.encode(x), make_generator(5, device=DEVICE)
        sets.append(torch.cat([predictor.sample(code, generator)[0] for _ in range(2)]))
    # A rank may flip between values that are nearly equal.
    near = ((sets[0] - sets[1]).abs() < 1e-3).double().mean()
    assert near > 0.95
