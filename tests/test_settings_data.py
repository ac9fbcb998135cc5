"""What settings say of data: columns that are not shared, and commands to fetch them."""

from typing import Any

import pytest

from desp.errors import SettingsError
from desp.settings import DataDescription, MnistSettings


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        ({"position": ((0, 2), (2, 4))}, "position must be one range"),
        (
            {"position": ((0, 2),), "categories": ((1, 3),)},
            "categories, boxes and position must not share columns",
        ),
        ({"position": ((0, 2),), "boxes": ((1, 5),)}, "categories, boxes and position must not share columns"),
    ],
)
def test_a_position_is_one_and_nothing_else(columns: dict[str, Any], name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        DataDescription(**columns)


def test_class_names_are_as_many_as_the_columns_of_the_first_categories() -> None:
    DataDescription(categories=((0, 2), (2, 5)), class_names=("cat", "dog"))
    for columns in ((), ((0, 3),)):
        with pytest.raises(SettingsError, match="class_names must be a name for each column of the first"):
            DataDescription(categories=columns, class_names=("cat", "dog"))


@pytest.mark.parametrize("columns", [{"position": ((2, 4),)}, {"categories": ((1, 4),)}, {"boxes": ((0, 4),)}])
def test_columns_lie_within_an_element(columns: dict[str, Any]) -> None:
    DataDescription(**columns).check_features(4)
    with pytest.raises(SettingsError, match=f"{next(iter(columns))} must be within the 3 features"):
        DataDescription(**columns).check_features(3)


@pytest.mark.parametrize("words", [{"feature_columns": ("x", "y")}, {"feature_units": ("m", "")}])
def test_there_is_a_name_and_a_unit_for_each_feature(words: dict[str, Any]) -> None:
    DataDescription(**words).check_features(2)
    with pytest.raises(SettingsError, match=f"{next(iter(words))} must be as many as an element has features, 3"):
        DataDescription(**words).check_features(3)


@pytest.mark.parametrize("name", ["input_columns", "feature_columns"])
@pytest.mark.parametrize("names", [("x", "x"), ("x", "")])
def test_names_of_columns_are_told_apart(name: str, names: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match=f"{name} must be names that are not empty, each once"):
        DataDescription(**{name: names})  # type: ignore[arg-type]


def test_the_command_that_fetches_data_can_be_pasted() -> None:
    assert MnistSettings().fetch_command("/my data") == "desp data mnist --data-dir '/my data'"


def test_names_of_columns_are_different_and_as_many_as_features() -> None:
    described = DataDescription(input_columns=("age", "colour=red"), feature_columns=("x", "y"))
    described.check_features(2)
    with pytest.raises(SettingsError, match="feature_columns must be as many as an element has features, 3"):
        described.check_features(3)
    for names in (("a", "a"), ("a", "")):
        with pytest.raises(SettingsError, match="names that are not empty, each once"):
            DataDescription(input_columns=names)
