"""The learning rate as a function of the step."""

import math

from desp.settings import TrainingSettings


def learning_rate(step: int, settings: TrainingSettings) -> float:
    """The learning rate of step `step` (counted from 0): linear warm-up, then constant or a cosine to zero."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    if settings.decay == "constant":
        return settings.learning_rate
    length = max(settings.steps - settings.warmup_steps, 1)
    progress = min((step - settings.warmup_steps) / length, 1.0)
    return settings.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))
