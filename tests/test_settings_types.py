"""Values of the wrong type are refused when settings are made, in every class of settings."""

import dataclasses
import typing
from typing import Any

import numpy as np
import pytest

from desp.errors import SettingsError
from desp.features.settings import FeatureSettings
from desp.settings import (
    ContrastiveSettings,
    DataDescription,
    DeepSetsSettings,
    EDMSettings,
    EnergyDenoisingSettings,
    FilesSettings,
    InMemorySettings,
    LangevinSettings,
    PolygonsSettings,
    RepresentationSettings,
    RunSettings,
    TrainingSettings,
)
from desp.settings.types import Checked

pytestmark = pytest.mark.usefixtures("unchecked")

CLASSES = (
    DataDescription,
    DeepSetsSettings,
    EDMSettings,
    FeatureSettings,
    FilesSettings,
    InMemorySettings,
    LangevinSettings,
    RepresentationSettings,
    TrainingSettings,
    EnergyDenoisingSettings,
)
NUMBERS = [
    (cls, item.name)
    for cls in CLASSES
    for item in dataclasses.fields(cls)
    if typing.get_type_hints(cls)[item.name] in (int, float)
]


@pytest.mark.parametrize(("cls", "name"), NUMBERS)
@pytest.mark.parametrize("wrong", ["1", True, None, [1], 1j])
def test_a_field_for_a_number_takes_nothing_else(cls: Any, name: str, wrong: Any) -> None:
    with pytest.raises(SettingsError, match=f"^{name} must be of type"):
        cls(**{name: wrong})


def test_a_float_is_no_whole_number() -> None:
    with pytest.raises(SettingsError, match=r"hidden must be of type int, got 1\.5 of type float\.$"):
        DeepSetsSettings(hidden=1.5)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"must be of type int, got 1000\.0 of type float\. Write 1000\."):
        TrainingSettings(steps=1e3)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_are_finite(value: float) -> None:
    with pytest.raises(SettingsError, match="p_mean must be a finite number"):
        EnergyDenoisingSettings(p_mean=value)


@pytest.mark.parametrize("wrong", [1, "yes", None, 0.0])
def test_a_switch_is_true_or_false(wrong: Any) -> None:
    with pytest.raises(SettingsError, match="tensorboard must be of type bool"):
        TrainingSettings(tensorboard=wrong)


def test_only_allowed_words_are_taken() -> None:
    with pytest.raises(
        SettingsError, match=r"input_kind must be one of \('vector', 'set', 'image'\), got 'images'"
    ):
        DataDescription(input_kind="images")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"order must be one of \(1, 2\), got 2\.0"):
        EDMSettings(order=2.0)  # type: ignore[arg-type]


def test_parts_are_settings_of_their_family() -> None:
    with pytest.raises(SettingsError, match="energy must be EnergySettings, got 'deep-sets' of type str"):
        ContrastiveSettings(energy="deep-sets")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="task must be TaskSettings, got None"):
        RunSettings("custom", None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("corners", "text"),
    [(4, "corners must be a tuple"), ((4, 5.5), "each of corners must be of type int"), ("45", "must be a tuple")],
)
def test_tuples_are_checked_inside(corners: Any, text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        PolygonsSettings(corners=corners)


def test_numbers_of_numpy_and_lists_become_plain_values() -> None:
    settings = TrainingSettings(steps=np.int64(7), learning_rate=np.float32(0.5), betas=[0, np.float64(0.5)])  # type: ignore[arg-type]
    assert [type(value) for value in (settings.steps, settings.learning_rate, *settings.betas)] == [
        int,
        float,
        float,
        float,
    ]
    assert settings == TrainingSettings(steps=7, learning_rate=0.5, betas=(0.0, 0.5))
    assert DataDescription(categories=[[1, 3]]).categories == ((1, 3),)  # type: ignore[arg-type, list-item]
    assert TrainingSettings(tensorboard=np.bool_(True)).tensorboard is True  # type: ignore[arg-type]


def test_settings_of_a_package_outside_are_checked_too() -> None:
    @dataclasses.dataclass(frozen=True)
    class Wider(DeepSetsSettings):
        factor: float = 2.0

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.factor > 10:
                raise SettingsError("too wide")

    assert Wider(factor=3).factor == 3.0
    for wrong, text in (("3", "factor must be of type float"), (11.0, "too wide")):
        with pytest.raises(SettingsError, match=text):
            Wider(factor=wrong)  # type: ignore[arg-type]


def test_classes_of_others_may_have_unions_and_fields_that_they_set_themselves() -> None:
    @dataclasses.dataclass(frozen=True)
    class Own(Checked):
        either: int | str = 3
        made: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "made", 5)

    assert (Own("x").either, Own().made) == ("x", 5)


def test_numbers_beyond_floats_are_refused() -> None:
    @dataclasses.dataclass(frozen=True)
    class Own(Checked):
        rate: float = 0.1

    with pytest.raises(SettingsError, match="rate must be a finite number"):
        Own(10**400)
