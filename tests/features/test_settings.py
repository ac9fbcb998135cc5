"""Settings of features."""

from dataclasses import asdict
from typing import Any

import pytest

from desp.errors import SettingsError
from desp.features.settings import FeatureSettings, unusual_features


def test_what_is_plain_is_the_default() -> None:
    settings = FeatureSettings()
    assert (settings.features, settings.folds, settings.views, settings.epochs) == ("pooled", 1, 4, 45)


def test_what_is_not_the_default_has_a_name() -> None:
    assert unusual_features(asdict(FeatureSettings())) == []
    assert unusual_features(asdict(FeatureSettings(features="logits", folds=5, seed=2))) == [
        "logits",
        "folds 5",
        "seed 2",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs must be positive, got 0"),
        ({"folds": 0}, "folds must be positive, got 0"),
        ({"views": -1}, "views must be positive, got -1"),
        ({"batch_size": 1}, "batch_size must be at least 2, as batch norm needs, got 1"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"weight_decay": -1.0}, "weight_decay must be at least 0"),
        ({"momentum": 1.0}, r"momentum must be in \[0, 1\), got 1.0"),
        ({"label_smoothing": 0.5}, r"label_smoothing must be in \[0, .5\), got 0.5"),
        ({"folds": 2}, "features must be 'logits' where folds is above 1, got 'pooled'"),
    ],
)
def test_values_that_cannot_work(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        FeatureSettings(**changes)


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_kind_of_features() -> None:
    with pytest.raises(SettingsError, match=r"features must be one of \('pooled', 'logits'\), got 'pixels'"):
        FeatureSettings(features="pixels")  # type: ignore[arg-type]
