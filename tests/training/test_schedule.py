"""The learning rate as a function of the step."""

import math
from itertools import pairwise

import pytest

from desp.settings import TrainingSettings
from desp.training.schedule import learning_rate

RATE = 0.3


def rates(settings: TrainingSettings) -> list[float]:
    return [learning_rate(step, settings) for step in range(settings.steps)]


def test_constant_without_warm_up() -> None:
    assert (
        rates(TrainingSettings(steps=5, learning_rate=RATE, warmup_steps=0, lr_schedule="constant")) == [RATE] * 5
    )


def test_warm_up_is_linear_and_never_zero() -> None:
    settings = TrainingSettings(steps=7, learning_rate=RATE, warmup_steps=4, lr_schedule="constant")
    assert rates(settings) == pytest.approx([RATE / 4, RATE / 2, RATE * 3 / 4, RATE, RATE, RATE, RATE])


def test_cosine_begins_at_the_peak_and_ends_at_zero() -> None:
    settings = TrainingSettings(steps=12, learning_rate=RATE, warmup_steps=2, lr_schedule="cosine")
    values = rates(settings)
    assert values[1] == values[2] == RATE  # the last of the warm-up, the first of the cosine
    assert values[7] == pytest.approx(RATE / 2)
    assert all(later < earlier for earlier, later in pairwise(values[2:]))
    assert values[11] == pytest.approx(RATE * 0.5 * (1 + math.cos(math.pi * 9 / 10)))
    assert learning_rate(12, settings) == pytest.approx(0, abs=1e-12)
    assert learning_rate(1000, settings) == pytest.approx(0, abs=1e-12)  # and stays there


@pytest.mark.parametrize("lr_schedule", ["constant", "cosine"])
def test_a_warm_up_longer_than_training_never_reaches_the_peak(lr_schedule: str) -> None:
    settings = TrainingSettings(steps=3, learning_rate=RATE, warmup_steps=6, lr_schedule=lr_schedule)
    assert rates(settings) == pytest.approx([RATE / 6, RATE / 3, RATE / 2])
