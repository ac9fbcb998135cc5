"""What `custom` and `SetPredictor` set for own data, chosen on the problems of ``desp bench own-data``."""

from dataclasses import replace

from desp.settings.base import require_setting
from desp.settings.diffusion import EnergyDenoisingSettings
from desp.settings.methods import MethodSettings
from desp.settings.representation import RepresentationSettings
from desp.settings.samplers import EDMSettings
from desp.settings.training import TrainingSettings

MINUTES = 5.0
ANSWERS = ("one", "several")


def own_data_method(answers: str = "several") -> MethodSettings:
    """A density over sets, by denoising with an energy, so that any number of answers can be right; where one is,
    of the most probable cardinality.

    Raises:
        SettingsError: `answers` is neither one nor several.
    """
    require_setting(answers in ANSWERS, "answers", " or ".join(ANSWERS), answers)
    several = EnergyDenoisingSettings(standardise_codes=True, training_rows=128)
    return replace(several, sampler=EDMSettings(cardinality="mode")) if answers == "one" else several


def default_representation(method: MethodSettings) -> RepresentationSettings:
    """How sets are written if nothing is said of it: as in `custom` for its method, else the defaults."""
    return own_data_representation() if is_own_data_method(method) else RepresentationSettings()


def is_own_data_method(method: MethodSettings) -> bool:
    """Whether it is `own_data_method`, with any sampler; the other settings were chosen for it."""
    return (
        isinstance(method, EnergyDenoisingSettings) and replace(method, sampler=EDMSettings()) == own_data_method()
    )


def own_data_representation() -> RepresentationSettings:
    """Features by their standard deviation, as ranges say little where tails are long."""
    return RepresentationSettings(scaling="standard")


def own_data_training() -> TrainingSettings:
    """Until validation no longer improves, within a few minutes."""
    return TrainingSettings(
        steps=None,
        minutes=MINUTES,
        learning_rate=3e-3,
        lr_schedule="wsd",
        validate_every=400,
        keep="last",
        calibrate_cardinality=True,
        elements_per_batch=2048,
    )
