"""A user's own data."""

from desp.recipes.registry import recipe
from desp.settings import FilesSettings, PredictorSettings, RunSettings, TrainingSettings


@recipe(table=None, task="files", system="desp", protocol="ours", hardware="depends on the data")
def custom() -> RunSettings:
    """Your own inputs and sets, from JSON lines or npz.

    Command: ``desp train custom --data FILE``. Sizes and scaling are taken from the file and saved. All settings
    are the library's defaults, which hold up on small sets of few features.
    """
    return RunSettings(
        recipe="custom",
        task=FilesSettings(),
        predictor=PredictorSettings(),
        training=TrainingSettings(validate_every=500),
    )
