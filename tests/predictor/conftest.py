"""Every kind of predictor as fixtures; and lets tests here import `small_predictors`."""

import sys
from copy import deepcopy
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from small_predictors import PLAINEST, SHORT, VARIANTS, Pairs, Parts, fitted_once, ragged_pairs

from desp.predictor import SetPredictor
from desp.settings import RepresentationSettings, TrainingSettings


@pytest.fixture(params=VARIANTS)
def variant_name(request: pytest.FixtureRequest) -> str:
    """The name of every kind of predictor in turn."""
    return str(request.param)


@pytest.fixture
def variant(variant_name: str) -> Parts:
    """Settings of every kind of predictor in turn."""
    return VARIANTS[variant_name]


@pytest.fixture
def fitted_variant(variant_name: str) -> SetPredictor:
    """Every kind of predictor in turn, fitted to `pairs`."""
    return deepcopy(fitted_once(variant_name))


@pytest.fixture
def settings() -> Parts:
    """Settings of the plainest predictor."""
    return VARIANTS[PLAINEST]


@pytest.fixture
def contrastive(settings: Parts) -> SetPredictor:
    """A contrastive predictor that is not fitted yet."""
    return settings.predictor(device="cpu")


@pytest.fixture
def fitted() -> SetPredictor:
    """A contrastive predictor, fitted to `pairs`."""
    return deepcopy(fitted_once(PLAINEST))


@pytest.fixture
def short() -> TrainingSettings:
    """Enough training to move every weight."""
    return SHORT


@pytest.fixture
def pairs() -> Pairs:
    """Ragged sets of one to four points in the unit square for inputs of three numbers."""
    return ragged_pairs()


@pytest.fixture
def with_presence(settings: Parts) -> Parts:
    """The same with a presence column whose threshold about half of the rows pass after a noisy chain."""
    return Parts(settings.method, RepresentationSettings(padding="presence", threshold=0.0))
