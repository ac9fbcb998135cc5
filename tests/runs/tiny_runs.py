"""Settings of runs that take no time."""

from dataclasses import replace
from typing import Any

from desp.recipes import get_recipe
from desp.settings import ContrastiveSettings, DeepSetsSettings, LangevinSettings, RunSettings, TrainingSettings


def tiny(steps: int = 4, **training: Any) -> RunSettings:
    """Polygons by chains of three steps."""
    recipe = get_recipe("polygons-desp").build()
    chain = LangevinSettings(steps=3, stochastic_steps=3)
    return replace(
        recipe,
        method=ContrastiveSettings(energy=DeepSetsSettings(hidden=8), training_sampler=chain, sampler=chain),
        training=TrainingSettings(steps=steps, batch_size=4, learning_rate=0.1, **training),
        device="cpu",
    )
