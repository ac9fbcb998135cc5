"""Recall within several samples, and calibration of confidence, by hand-worked cases."""

import math

import pytest
import torch

from desp.metrics.box_samples import confidence_calibration, recall_within

FRONT, BEHIND, FAR = (0.1, 0.1, 0.5, 0.5), (0.15, 0.1, 0.55, 0.5), (0.7, 0.7, 0.9, 0.9)
NOTHING = (0.0, 0.0, 0.0, 0.0)


def recall(samples: list[list[tuple[float, ...]]], wanted: list[bool]) -> list[float]:
    """Within samples of one image with three true boxes, of which the first two overlap by .78."""
    rows = max(map(len, samples))
    padded = [[*sample, *[NOTHING] * (rows - len(sample))] for sample in samples]
    mask = torch.tensor([[True] * len(sample) + [False] * (rows - len(sample)) for sample in samples])
    truth = torch.tensor([[FRONT, BEHIND, FAR]])
    there = torch.ones(1, 3, dtype=torch.bool)
    return recall_within(torch.tensor([padded]), mask[None], truth, torch.tensor([wanted]), there)


def test_an_object_is_found_by_any_of_the_samples() -> None:
    assert recall([[FRONT], [FRONT, FAR], [FRONT, BEHIND]], [False, True, True]) == [0.0, 0.5, 1.0]
    assert recall([[FRONT, BEHIND, FAR]], [True, True, True]) == [1.0]


def test_a_box_in_front_is_not_one_behind() -> None:
    assert recall([[FRONT]], [False, True, False]) == [0.0]
    assert recall([[FRONT]], [True, False, False]) == [1.0]


def test_absent_rows_find_nothing() -> None:
    boxes = torch.tensor([[[FRONT, BEHIND]]])
    mask = torch.tensor([[[True, False]]])
    truth = torch.tensor([[FRONT, BEHIND]])
    there = torch.tensor([[True, True]])
    assert recall_within(boxes, mask, truth, there, there) == [0.5]
    only_front = torch.tensor([[True, False]])
    assert recall_within(boxes, mask, truth, there, only_front) == [1.0]  # what is not there is not counted


def test_nothing_wanted_has_no_recall() -> None:
    assert math.isnan(recall([[FRONT]], [False, False, False])[0])


def test_confidence_that_is_precision_has_no_error() -> None:
    confidence = torch.tensor([0.5] * 4 + [1.0] * 3)
    correct = torch.tensor([True, True, False, False, True, True, True])
    error, rows = confidence_calibration(confidence, correct)
    assert error == pytest.approx(0)
    assert rows == [
        {"confidence": 0.5, "precision": 0.5, "detections": 4},
        {"confidence": 1.0, "precision": 1.0, "detections": 3},
    ]


def test_the_error_is_weighted_by_detections() -> None:
    confidence = torch.tensor([0.9, 0.9, 0.9, 0.2])
    correct = torch.tensor([True, True, False, True])
    error, _ = confidence_calibration(confidence, correct)
    assert error == pytest.approx(3 / 4 * (0.9 - 2 / 3) + 1 / 4 * 0.8)


def test_no_detections_have_no_error() -> None:
    error, rows = confidence_calibration(torch.zeros(0), torch.zeros(0, dtype=torch.bool))
    assert math.isnan(error)
    assert rows == []
