"""The detector's head: targets by a reference, and boxes found again from a perfect heat map."""

import math

import pytest
import torch

from desp.nn.centre_head import BOX_WEIGHT, CentreHead, focal_loss
from desp.nn.pyramid import level_shapes

SHAPES = level_shapes(32, 48)  # a heat map of 8 x 12
PLACES = sum(rows * columns for rows, columns in SHAPES)


class Maps(CentreHead):
    """A head whose maps are given."""

    def __init__(self, heat: torch.Tensor, geometry: torch.Tensor) -> None:
        super().__init__(2, 4, SHAPES)
        self.given = heat, geometry

    def _maps(self, code: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        del code
        return self.given


BOXES = torch.tensor([[[0.26, 0.3, 0.2, 0.3], [0.71, 0.62, 0.4, 0.2], [0.5, 0.5, 0.1, 0.1]]], dtype=torch.float64)
MASK = torch.tensor([[True, True, False]])


def perfect_maps() -> tuple[torch.Tensor, torch.Tensor]:
    """Peaks at the two centres, written by hand: columns 12 x = 3.12 and 8.52, rows 8 y = 2.4 and 4.96."""
    heat = torch.full((1, 96), -20.0, dtype=torch.float64)
    geometry = torch.zeros(1, 96, 4, dtype=torch.float64)
    for (column, row), logit, centre, size in (
        ((3, 2), 20.0, (3.12, 2.4), (2.4, 2.4)),
        ((8, 4), 18.0, (8.52, 4.96), (4.8, 1.6)),
    ):
        heat[0, row * 12 + column] = logit
        for x in (column - 1, column, column + 1):
            for y in (row - 1, row, row + 1):
                numbers = (centre[0] - x - 0.5, centre[1] - y - 0.5, math.log(size[0]), math.log(size[1]))
                geometry[0, y * 12 + x] = torch.tensor(numbers, dtype=torch.float64)
    return heat, geometry


def test_boxes_are_found_at_peaks_the_highest_first() -> None:
    boxes, scores = Maps(*perfect_maps()).peaks(torch.zeros(1, PLACES, 2), 3)
    torch.testing.assert_close(boxes[:, :2], BOXES[:, :2])
    assert scores[0, 0] > scores[0, 1] > 0.99
    assert scores[0, 2] < 1e-6


def test_a_perfect_head_has_no_loss() -> None:
    focal, error = Maps(*perfect_maps()).loss(torch.zeros(1, PLACES, 2), BOXES, MASK)
    assert float(focal) == pytest.approx(0.0, abs=1e-6)
    assert float(error) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("place", [2 * 12 + 3, 3 * 12 + 4])  # the centre's own, and one around it
@pytest.mark.parametrize(("number", "wanted"), [(0, 0.5 * 2 / 2.4), (1, 0.5 * 2 / 2.4), (2, 0.5), (3, 0.5)])
def test_the_error_of_boxes_is_the_mean_over_places_around_centres(place: int, number: int, wanted: float) -> None:
    heat, geometry = perfect_maps()
    geometry[0, place, number] += 0.5
    _, error = Maps(heat, geometry).loss(torch.zeros(1, PLACES, 2), BOXES, MASK)
    assert float(error) == pytest.approx(BOX_WEIGHT * wanted / 18)


def test_places_between_two_centres_learn_the_nearer_box() -> None:
    """Centres in columns 3 and 5 of one row: both have column 4 around them, which is nearer to the larger box."""
    numbers = [[[3.5 / 12, 2.5 / 8, 1 / 12, 1 / 8], [5.5 / 12, 2.5 / 8, 7.2 / 12, 7.2 / 8]]]
    boxes = torch.tensor(numbers, dtype=torch.float64)
    geometry = torch.zeros(1, 96, 4, dtype=torch.float64)
    for column in (2, 3, 4, 5, 6):
        for row in (1, 2, 3):
            first = column < 4
            centre, size = (3.5, 1.0) if first else (5.5, 7.2)
            box = (centre - column - 0.5, 2.5 - row - 0.5, math.log(size), math.log(size))
            geometry[0, row * 12 + column] = torch.tensor(box, dtype=torch.float64)
    heads = Maps(torch.full((1, 96), -20.0, dtype=torch.float64), geometry)
    _, error = heads.loss(torch.zeros(1, PLACES, 2), boxes, torch.tensor([[True, True]]))
    assert float(error) == pytest.approx(0, abs=1e-9)


def test_neighbours_of_a_higher_place_are_no_peaks() -> None:
    heat, geometry = perfect_maps()
    heat[0, 2 * 12 + 4] = 19.0  # beside the first, higher than the second
    boxes, _ = Maps(heat, geometry).peaks(torch.zeros(1, PLACES, 2), 2)
    torch.testing.assert_close(boxes, BOXES[:, :2])


def test_background_counts_less_near_a_centre() -> None:
    logits = torch.zeros(1, 3, dtype=torch.float64)
    centre = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    target = torch.tensor([[1.0, 0.5, 0.0]], dtype=torch.float64)
    # A logit of 0 is one half: (1/2)^2 log 2 for the centre and far away, (1/2)^4 of that where `target` is 1/2.
    wanted = 0.25 * math.log(2) * (1 + 0.5**4 + 1)
    assert float(focal_loss(logits, centre, target)) == pytest.approx(wanted)


def test_a_box_outside_the_image_is_taken_to_its_border() -> None:
    head = CentreHead(2, 4, SHAPES).double()
    outside = torch.tensor([[[1.3, -0.2, 0.2, 0.2]]], dtype=torch.float64)
    losses = head.loss(torch.randn(1, PLACES, 2, dtype=torch.float64), outside, torch.tensor([[True]]))
    assert all(torch.isfinite(item) for item in losses)


def test_a_centre_on_the_border_is_found_again() -> None:
    """It belongs to the last place, whose middle lies half a cell before it."""
    heat = torch.full((1, 96), -20.0, dtype=torch.float64)
    geometry = torch.zeros(1, 96, 4, dtype=torch.float64)
    heat[0, 95] = 20.0
    for row, column in ((6, 10), (6, 11), (7, 10), (7, 11)):
        numbers = (12 - column - 0.5, 8 - row - 0.5, math.log(2.4), math.log(1.6))
        geometry[0, row * 12 + column] = torch.tensor(numbers, dtype=torch.float64)
    box = torch.tensor([[[1.0, 1.0, 0.2, 0.2]]], dtype=torch.float64)
    maps, code = Maps(heat, geometry), torch.zeros(1, PLACES, 2)
    torch.testing.assert_close(maps.peaks(code, 1)[0], box)
    assert float(maps.loss(code, box, torch.tensor([[True]]))[1]) == pytest.approx(0, abs=1e-9)


def test_places_that_are_sure_alike_are_one_peak() -> None:
    heat, geometry = perfect_maps()
    heat[0, 2 * 12 + 3], heat[0, 2 * 12 + 4] = 60.0, 50.0  # both have a sigmoid of 1
    boxes, scores = Maps(heat, geometry).peaks(torch.zeros(1, PLACES, 2), 3)
    torch.testing.assert_close(boxes[:, :2], BOXES[:, :2])
    assert scores[0, 2] < 1e-6


def test_images_without_boxes_have_a_loss_of_background_alone() -> None:
    head = CentreHead(2, 4, SHAPES).double()
    focal, error = head.loss(
        torch.randn(1, PLACES, 2, dtype=torch.float64), BOXES, torch.zeros(1, 3, dtype=torch.bool)
    )
    assert float(focal.detach()) > 0
    assert float(error.detach()) == 0
