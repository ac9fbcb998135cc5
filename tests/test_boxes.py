"""Boxes: IoU against counting cells of a grid, and conversions there and back."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from desp.boxes import box_iou, centres_to_corners, corners_to_centres


def cells(box: Tensor) -> set[tuple[int, int]]:
    x1, y1, x2, y2 = (int(value) for value in box)
    return {(x, y) for x in range(x1, x2) for y in range(y1, y2)}


def on_a_grid(*shape: int, seed: int = 0) -> Tensor:
    """Boxes with whole corners from 0 to 6; some have negative sizes or no area."""
    return torch.randint(0, 7, (*shape, 4), generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([0, 0, 2, 2], [0, 0, 2, 2], 1),
        ([0, 0, 2, 2], [1, 0, 3, 2], 1 / 3),  # half of each: 2 of 6
        ([0, 0, 4, 4], [1, 1, 3, 3], 1 / 4),  # one within the other
        ([0, 0, 2, 2], [2, 0, 4, 2], 0),  # they touch
        ([0, 0, 2, 2], [5, 5, 6, 6], 0),
        ([-2, -2, 0, 0], [-1, -1, 1, 1], 1 / 7),
        ([0, 0, 1, 1], [0, 0, 1, 2], 1 / 2),  # with a pixel added it would be 2/3
        ([0, 0, 0, 0], [0, 0, 0, 0], 0),  # no area at all
        ([0, 0, 0, 3], [0, 0, 3, 3], 0),
        ([2, 2, 0, 0], [0, 0, 2, 2], 0),  # both sizes negative, so that their product is positive
        ([2, 2, 0, 0], [2, 2, 0, 0], 0),
        ([2, 0, 0, 2], [0, 0, 2, 2], 0),
        ([math.nan, 0, 2, 2], [0, 0, 2, 2], 0),
        ([0, 0, 2, math.nan], [0, 0, 2, 2], 0),
        ([0, 0, math.inf, 2], [0, 0, math.inf, 2], 0),
        ([0, 0, math.inf, 2], [0, 0, 2, 2], 0),
    ],
)
def test_by_hand(a: list[float], b: list[float], expected: float) -> None:
    first, second = torch.tensor([a]).float(), torch.tensor([b]).float()
    assert float(box_iou(first, second)) == pytest.approx(expected)
    assert float(box_iou(second, first)) == pytest.approx(expected)


@given(seed=st.integers(0, 1000))
def test_cells_of_a_grid(seed: int) -> None:
    a, b = on_a_grid(5, seed=seed), on_a_grid(4, seed=seed + 5000)
    for row, first in zip(box_iou(a, b), a, strict=True):
        for value, second in zip(row, b, strict=True):
            union = cells(first) | cells(second)
            expected = len(cells(first) & cells(second)) / len(union) if union else 0.0
            assert float(value) == expected


@given(sizes=st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)))
def test_batches_are_many_single_ones(sizes: tuple[int, int, int]) -> None:
    many, n, m = sizes
    a, b = on_a_grid(many, 2, n), on_a_grid(many, 2, m, seed=1)
    values = box_iou(a, b)
    assert values.shape == (many, 2, n, m)
    for index in range(many):
        for inner in range(2):
            assert torch.equal(values[index, inner], box_iou(a[index, inner], b[index, inner]))


def test_dimensions_in_front_are_broadcast() -> None:
    a, b = on_a_grid(3, 1, 4), on_a_grid(2, 5, seed=1)
    values = box_iou(a, b)
    assert values.shape == (3, 2, 4, 5)
    assert torch.equal(values[2, 1], box_iou(a[2, 0], b[1]))


def test_scale_and_shift_do_not_matter() -> None:
    a, b = on_a_grid(20), on_a_grid(20, seed=1)
    torch.testing.assert_close(box_iou(0.37 * a - 5, 0.37 * b - 5), box_iou(a, b))


def test_gradients_are_finite_where_there_is_no_union() -> None:
    boxes = torch.tensor([[0.0, 0, 0, 0], [0, 0, 2, 2], [2, 2, 0, 0]], requires_grad=True)
    box_iou(boxes, torch.tensor([[0.0, 0, 0, 0], [1, 1, 4, 4]])).sum().backward()
    assert boxes.grad is not None
    assert torch.isfinite(boxes.grad).all()
    assert boxes.grad[1].abs().sum() > 0


def test_conversions_by_hand() -> None:
    corners, centres = torch.tensor([[1.0, 2, 5, 8]]), torch.tensor([[3.0, 5, 4, 6]])
    assert torch.equal(corners_to_centres(corners), centres)
    assert torch.equal(centres_to_corners(centres), corners)


def test_conversions_there_and_back() -> None:
    boxes = torch.randn(3, 2, 4, dtype=torch.float64)
    torch.testing.assert_close(centres_to_corners(corners_to_centres(boxes)), boxes)
    torch.testing.assert_close(corners_to_centres(centres_to_corners(boxes)), boxes)
    assert corners_to_centres(boxes[:0]).shape == (0, 2, 4)
