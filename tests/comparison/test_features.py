"""Features as people know them, from what is said of the data."""

import json

from desp.comparison.features import Feature, features_of
from desp.settings import DataDescription


def test_features_without_names_are_numbered() -> None:
    assert features_of(DataDescription(), 2) == [
        Feature("column 0", "", (0, 1)),
        Feature("column 1", "", (1, 2)),
    ]


def test_a_category_is_one_feature_named_by_its_columns() -> None:
    described = DataDescription(
        categories=((0, 2),),
        feature_columns=("kind=apple", "kind=pear", "amount"),
        feature_units=("", "", "kg"),
    )
    kind, amount = features_of(described, 3)
    assert kind == Feature("kind", "", (0, 2), ("apple", "pear"))
    assert amount == Feature("amount", "kg", (2, 3))
    assert (kind.label, amount.label) == ("kind", "amount (kg)")


def test_columns_that_share_no_meaning_name_the_classes() -> None:
    described = DataDescription(categories=((0, 2), (2, 4)), feature_columns=("cat", "dog", "size=s", "big"))
    assert features_of(described, 4) == [
        Feature("category 1", "", (0, 2), ("cat", "dog")),
        Feature("category 2", "", (2, 4), ("size=s", "big")),
    ]


def test_names_of_classes_go_before_those_of_columns() -> None:
    described = DataDescription(categories=((0, 2),), class_names=("red", "blue"), feature_columns=("k=a", "k=b"))
    assert features_of(described, 2) == [Feature("k", "", (0, 2), ("red", "blue"))]
    unnamed = features_of(DataDescription(categories=((1, 4),)), 4)
    assert unnamed[1] == Feature("category", "", (1, 4), ("class 1", "class 2", "class 3"))


def test_features_follow_the_order_of_pictures() -> None:
    described = DataDescription(categories=((0, 2),), position=((3, 5),), feature_columns=tuple("abcde"))
    order = described.columns_to_draw(5)
    assert order == [3, 4, 2, 0, 1]
    found = features_of(described, 5, order)
    assert [(item.name, item.columns) for item in found] == [
        ("d", (0, 1)),
        ("e", (1, 2)),
        ("c", (2, 3)),
        ("category", (3, 5)),
    ]


def test_a_feature_is_the_same_after_it_was_written() -> None:
    feature = Feature("kind", "kg", (1, 3), ("a", "b"))
    assert Feature.from_json(json.loads(json.dumps(feature.as_json()))) == feature
