"""Polygons: regular, in the middle, at every angle alike."""

import math

import pytest
import torch
from scipy import stats

from desp.data import draw_polygons
from desp.data.polygons import CENTRE, RADIUS, polygon


def draw(count: int = 2000, seed: int = 0, **options: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    batch = draw_polygons(count, torch.Generator().manual_seed(seed), **options)
    return batch.x, batch.sets.elements, batch.sets.mask


def test_constants_are_those_of_the_paper() -> None:
    assert (CENTRE, RADIUS) == (0.5, 0.35)


def test_shapes_and_one_hot() -> None:
    x, elements, presence = draw()
    assert (x.shape, elements.shape, presence.shape) == ((2000, 5), (2000, 8, 2), (2000, 8))
    assert torch.equal(x.sum(dim=1), torch.ones(2000))
    assert torch.equal(x.argmax(dim=1) + 4, presence.sum(dim=1))


def test_present_corners_come_first_and_the_rest_is_zero() -> None:
    _, elements, presence = draw()
    assert torch.equal(presence, presence.sort(dim=1, descending=True).values)
    assert not elements[~presence].any()
    assert (elements[presence].abs() > 0.1).all()


def test_corners_are_regular() -> None:
    _, elements, presence = draw(500)
    for corners, mask in zip(elements, presence, strict=True):
        points = corners[mask] - CENTRE
        torch.testing.assert_close(points.norm(dim=1), torch.full((len(points),), RADIUS))
        torch.testing.assert_close(points.sum(dim=0), torch.zeros(2), atol=1e-5, rtol=0)
        side = 2 * RADIUS * math.sin(math.pi / len(points))
        sides = (points - points.roll(1, dims=0)).norm(dim=1)
        torch.testing.assert_close(sides, torch.full((len(points),), side), atol=1e-5, rtol=0)


def test_numbers_of_corners_are_uniform() -> None:
    x, _, _ = draw(5000)
    assert stats.chisquare(x.sum(dim=0).numpy()).pvalue > 0.01


@pytest.mark.parametrize("corners", [4, 5, 6, 7, 8])
def test_angles_are_uniform(corners: int) -> None:
    _, elements, presence = draw(5000)
    first = elements[presence.sum(dim=1) == corners, 0] - CENTRE
    angle = torch.atan2(first[:, 1], first[:, 0])
    turn = (angle / (2 * math.pi)) % 1
    assert stats.kstest(turn.numpy(), "uniform").pvalue > 0.01
    within = (turn * corners) % 1
    assert stats.kstest(within.numpy(), "uniform").pvalue > 0.01


def test_seeds_decide() -> None:
    for one, other in zip(draw(50, seed=1), draw(50, seed=1), strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(draw(50, seed=1)[1], draw(50, seed=2)[1])


def test_other_numbers_of_corners() -> None:
    x, elements, presence = draw(200, corners=(3, 12))
    assert x.shape == (200, 2)
    assert elements.shape == (200, 12, 2)
    assert set(presence.sum(dim=1).tolist()) == {3, 12}


def test_polygon_of_a_known_angle() -> None:
    points = polygon(torch.tensor([4, 3]), torch.tensor([0.0, math.pi / 2]), 5)
    expected = torch.tensor([[0.85, 0.5], [0.5, 0.85], [0.15, 0.5], [0.5, 0.15], [0, 0]])
    torch.testing.assert_close(points[0], expected)
    torch.testing.assert_close(points[1, 0], torch.tensor([0.5, 0.85]))
    assert not points[1, 3:].any()
