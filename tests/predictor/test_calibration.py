"""p(n | x) is calibrated once, when training ends, on examples that were not trained on."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_predictors import VARIANTS, Pairs
from torch import Tensor

from desp.predictor import SetPredictor
from desp.predictor.saving import load_predictor
from desp.settings import TrainingSettings
from desp.settings.own_data import own_data_training

pytestmark = pytest.mark.usefixtures("unchecked")
LAST = ("cardinality.logits.layers.4.weight", "cardinality.logits.layers.4.bias")
TRAINING = TrainingSettings(steps=60, learning_rate=3e-2, batch_size=16, lr_schedule="constant", warmup_steps=0)
CALIBRATED = replace(TRAINING, calibrate_cardinality=True)


def noisy_pairs(count: int, seed: int) -> Pairs:
    """Cardinalities that no input tells, so that whatever is learned of them is overfitted."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 5, (count,), generator=generator).tolist()
    sizes[0] = 4
    return [(torch.randn(3, generator=generator), torch.rand(n, 2, generator=generator)) for n in sizes]


PAIRS, HELD_OUT = noisy_pairs(16, 0), noisy_pairs(40, 1)


def new(variant: str = "default") -> SetPredictor:
    return VARIANTS[variant].predictor(device="cpu")


def surprise(predictor: SetPredictor) -> float:
    """Mean -log p(n | x) of examples that were not trained on."""
    code = predictor.encode(torch.stack([x for x, _ in HELD_OUT]))
    sizes = torch.tensor([len(y) for _, y in HELD_OUT])
    return float(predictor.method.cardinality.loss(code, sizes).detach())


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_the_cardinality_is_calibrated_at_the_end() -> None:
    plain, calibrated = new(), new()
    before = plain.fit(PAIRS, TRAINING, validation_data=HELD_OUT)
    after = calibrated.fit(PAIRS, CALIBRATED, validation_data=HELD_OUT)
    assert before.cardinality_temperature is None
    temperature = after.cardinality_temperature
    assert temperature is not None
    assert temperature > 1.2
    assert before.score == after.score
    for name, value in before.weights.items():
        torch.testing.assert_close(after.weights[name], value / temperature if name in LAST else value)
    assert same(after.weights, calibrated.method.state_dict())
    assert surprise(calibrated) < surprise(plain) - 0.02
    assert not calibrated.method.training


def test_without_examples_nothing_is_calibrated() -> None:
    plain, asked = new(), new()
    plain.fit(PAIRS, TRAINING)
    outcome = asked.fit(PAIRS, CALIBRATED)
    assert outcome.cardinality_temperature is None
    assert same(asked.method.state_dict(), plain.method.state_dict())


@pytest.mark.parametrize("variant", ["denoising-deep-sets", "contrastive-deep-sets"])
def test_without_a_predicted_cardinality_nothing_is_calibrated(variant: str) -> None:
    plain, asked = new(variant), new(variant)
    plain.fit(PAIRS, replace(TRAINING, steps=2), validation_data=HELD_OUT)
    outcome = asked.fit(PAIRS, replace(CALIBRATED, steps=2), validation_data=HELD_OUT)
    assert outcome.cardinality_temperature is None
    assert same(asked.method.state_dict(), plain.method.state_dict())


def test_a_resumed_run_is_calibrated_once(tmp_path: Path) -> None:
    whole, parts = new(), new()
    expected = whole.fit(PAIRS, CALIBRATED, validation_data=HELD_OUT, folder=tmp_path / "whole")
    every = replace(CALIBRATED, validate_every=6)
    parts.fit(PAIRS, replace(every, steps=30), validation_data=HELD_OUT, folder=tmp_path / "parts")
    for _ in range(2):  # the second finds it at its end
        resumed = new()
        found = resumed.fit(PAIRS, every, validation_data=HELD_OUT, folder=tmp_path / "parts", resume=True)
        assert found.cardinality_temperature == expected.cardinality_temperature
        assert same(resumed.method.state_dict(), whole.method.state_dict())
    saved = load_predictor(SetPredictor, tmp_path / "parts" / "model", device="cpu")
    assert same(saved.method.state_dict(), whole.method.state_dict())
    summary = json.loads((tmp_path / "parts" / "summary.json").read_text())
    assert summary["cardinality_temperature"] == expected.cardinality_temperature


def test_own_data_are_calibrated_and_nothing_else_by_default() -> None:
    assert own_data_training().calibrate_cardinality
    assert not TrainingSettings().calibrate_cardinality
