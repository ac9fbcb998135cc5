"""A user's own data."""

from desp.recipes.registry import recipe
from desp.settings import ContrastiveSettings, FilesSettings, RunSettings, TrainingSettings


@recipe(table=None, task="files", system="denoising", scored="returned", hardware="depends on the data")
def custom() -> RunSettings:
    """Your own inputs and sets, from JSON lines, CSV, Parquet, Arrow, npz or npy files.

    Command: ``desp train custom --data FILE``. Sizes and scaling are taken from the file and saved. All settings
    but `training.validate_every` are the library's defaults, which hold up on small sets of few features.
    """
    return RunSettings(recipe="custom", task=FilesSettings(), training=TrainingSettings(validate_every=500))


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
