"""Protocols that score next to nothing, for tests of what comes around the scores."""

from dataclasses import replace

import pytest

from desp.tasks import Protocol
from desp.tasks.celeba import CelebaTask
from desp.tasks.digits import DigitsTask
from desp.tasks.pedestrians import PedestriansTask
from desp.tasks.polygons import PolygonsTask


def score_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Score few sets of Polygons and CelebA, and fewer of Digits and pedestrians."""
    few = Protocol(
        test_examples=(20,),
        predictions_per_input=10,
        sets_per_collection=6,
        sets_per_collection_hungarian=6,
        calibration_examples=50,
    )
    monkeypatch.setattr(
        PolygonsTask, "protocols", {"full": replace(few, test_examples=(24,)), "quick": few, "demo": few}
    )
    fewer = replace(few, test_examples=(12,), predictions_per_input=4)
    monkeypatch.setattr(DigitsTask, "protocols", {"full": fewer, "quick": fewer})
    sets = replace(few, validation_examples=8)
    monkeypatch.setattr(CelebaTask, "protocols", {"full": sets, "quick": sets})
    windows = replace(few, test_examples=(5,), validation_examples=4)
    monkeypatch.setattr(PedestriansTask, "protocols", {"full": windows, "quick": windows})
