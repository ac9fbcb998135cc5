"""A user's own data."""

from desp.recipes.registry import recipe
from desp.settings import (
    ContrastiveSettings,
    DeepSetsSettings,
    FilesSettings,
    LangevinSettings,
    PaddingSettings,
    PredictorSettings,
    RunSettings,
    TrainingSettings,
)


@recipe(table=None, task="files", system="desp", protocol="ours", hardware="depends on the data")
def custom() -> RunSettings:
    """Your own inputs and sets, from JSON lines or npz.

    Command: ``desp train custom --data FILE``. Sizes and scaling are taken from the file and saved. The settings
    are the ones that hold up on small sets of few features: presence padding, clipping, weight average.
    """
    return RunSettings(
        recipe="custom",
        task=FilesSettings(),
        predictor=PredictorSettings(
            energy=DeepSetsSettings(hidden=128),
            estimator=ContrastiveSettings(
                chain=LangevinSettings(steps=60, stochastic_steps=60, noise_scale=0.015), data_noise=0.02
            ),
            sampler=LangevinSettings(steps=60, stochastic_steps=48, noise_scale=0.015),
            padding=PaddingSettings(kind="presence", threshold=0.5),
        ),
        training=TrainingSettings(
            steps=4000,
            batch_size=64,
            learning_rate=5e-4,
            warmup_steps=100,
            decay="cosine",
            clip_norm=0.1,
            ema_decay=0.995,
            validate_every=500,
            on_nonfinite="rollback",
        ),
    )
