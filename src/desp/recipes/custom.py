"""A user's own data."""

from desp.recipes.registry import recipe
from desp.settings import ContrastiveSettings, FilesSettings, RunSettings, TrainingSettings
from desp.settings.own_data import own_data_method, own_data_representation, own_data_training


@recipe(table=None, task="files", system="denoising", scored="returned", hardware="depends on the data")
def custom() -> RunSettings:
    """Your own inputs and sets, from JSON lines, CSV, Parquet, Arrow, npz or npy files.

    Command: ``desp train custom --data FILE``. Sizes and scaling are taken from the file and saved. Training ends
    when validation no longer improves, or after `training.minutes`.
    """
    return RunSettings(
        recipe="custom",
        task=FilesSettings(),
        method=own_data_method(),
        representation=own_data_representation(),
        training=own_data_training(),
    )


@recipe(table=None, task="files", system="contrastive", scored="returned", hardware="depends on the data")
def custom_contrastive() -> RunSettings:
    """Your own inputs and sets, by the paper's method: chains in training.

    Command: ``desp train custom-contrastive --data FILE``. Slower than `custom`, and best compared with it by
    ``desp evaluate``.
    """
    return RunSettings(
        recipe="custom-contrastive",
        task=FilesSettings(),
        method=ContrastiveSettings(),
        training=TrainingSettings(learning_rate=2e-4, clip_norm=0.1, validate_every=500),
    )
