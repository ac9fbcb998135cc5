"""The score of Polygons against a plain minimum, and rotations against known angles."""

import math
from collections.abc import Callable
from itertools import permutations

import pytest
import torch
from torch import Tensor

from desp.data.polygons import draw_polygons, polygon
from desp.metrics.polygons import kuiper, polygon_score, polygon_turn


def one_polygon(corners: int, angle: float, size: int) -> Tensor:
    return polygon(torch.tensor([corners]), torch.tensor([angle], dtype=torch.float64), size)[0]


def huber(a: Tensor, b: Tensor) -> Tensor:
    difference = (a - b).abs()
    return torch.where(difference < 1, difference.square() / 2, difference - 0.5).mean(dim=-1)


def plain_score(points: Tensor, corners: int) -> float:
    """The definition: 256 rotations, every assignment."""
    size = len(points)
    orders = torch.tensor(list(permutations(range(size))))
    best = math.inf
    for turn in range(256):
        target = one_polygon(corners, 2 * math.pi * turn / 256, size)
        costs = huber(points.unsqueeze(1), target.unsqueeze(0))
        best = min(best, float(costs[torch.arange(size), orders].mean(dim=1).min()))
    return best


def test_score_is_the_minimum_over_rotations_and_assignments() -> None:
    generator = torch.Generator().manual_seed(0)
    counts = [3, 4, 5, 4]
    sets = torch.rand(4, 5, 2, generator=generator, dtype=torch.float64)
    sets[1] = one_polygon(4, 0.3, 5) + 0.02 * torch.randn(5, 2, generator=generator, dtype=torch.float64)
    sets[2] = one_polygon(5, 1.234, 5)
    sets[3, 3:] = 0
    expected = [plain_score(points, count) for points, count in zip(sets, counts, strict=True)]
    assert polygon_score(sets, torch.tensor(counts)).tolist() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("corners", [3, 4, 5, 6, 7, 8])
def test_true_polygons_on_the_grid_score_zero(corners: int) -> None:
    turns = [0, 1, 100, 255]
    sets = torch.stack([one_polygon(corners, 2 * math.pi * turn / 256, 8) for turn in turns])
    scores = polygon_score(sets, torch.full((4,), corners))
    assert float(scores.max()) < 1e-15


def test_a_known_rotation_between_two_grid_points() -> None:
    """Half a grid step away: every corner is off by a chord of the circle."""
    step = 2 * math.pi / 256
    points = one_polygon(8, 3.5 * step, 8).unsqueeze(0)
    chord = 2 * 0.35 * math.sin(step / 4)
    # half the squared distance, shared by two features
    assert float(polygon_score(points, torch.tensor([8]))) == pytest.approx(chord**2 / 4, rel=1e-6)


def test_order_of_elements_does_not_matter(assert_invariant: Callable[..., None]) -> None:
    batch = draw_polygons(8, torch.Generator().manual_seed(1))
    noisy = batch.sets.elements + 0.05 * torch.randn(8, 8, 2, generator=torch.Generator().manual_seed(2))
    assert_invariant(lambda sets: polygon_score(sets, batch.sets.sizes), noisy)


def test_a_missing_corner_costs_its_distance_from_zero() -> None:
    """The padding row is matched to the corner that is missing; a small turn that brings it nearer pays off."""
    square = one_polygon(4, 0.0, 8)
    square[2] = 0.0  # the corner to the left, at angle pi

    def cost(turn: float) -> float:
        chord = 2 * 0.35 * math.sin(turn / 2)
        x, y = 0.5 + 0.35 * math.cos(math.pi + turn), 0.5 + 0.35 * math.sin(math.pi + turn)
        return (3 * chord**2 + x**2 + y**2) / 4 / 8  # half the squares, mean of two features and eight rows

    by_hand = min(cost(2 * math.pi * step / 256) for step in range(-32, 33))
    score = float(polygon_score(square.unsqueeze(0), torch.tensor([4])))
    assert score == pytest.approx(by_hand, rel=1e-6)
    assert score > 1e-3  # a wrong count is a thousand times worse than any rotation between grid points


def test_an_additional_corner_costs_its_distance_from_zero() -> None:
    points = one_polygon(4, 0.0, 8)
    points[5] = torch.tensor([0.1, 0.2], dtype=torch.float64)
    score = float(polygon_score(points.unsqueeze(0), torch.tensor([4])))
    assert score == pytest.approx((0.01 + 0.04) / 4 / 8, rel=1e-6)


def test_real_data_score() -> None:
    """Rotations fall between the 256 candidates, so even real polygons do not score zero."""
    batch = draw_polygons(4000, torch.Generator().manual_seed(0))
    score = float(polygon_score(batch.sets.elements, batch.sets.sizes).mean())
    assert score == pytest.approx(5e-7, rel=0.2)


def test_batches_larger_than_a_part_score_the_same() -> None:
    batch = draw_polygons(450, torch.Generator().manual_seed(0), corners=(4,))
    noisy = batch.sets.elements + 0.01
    together = polygon_score(noisy, batch.sets.sizes)
    one_by_one = torch.cat([polygon_score(noisy[i : i + 1], batch.sets.sizes[i : i + 1]) for i in (0, 199, 449)])
    torch.testing.assert_close(together[[0, 199, 449]], one_by_one)


# -- rotations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("corners", [3, 4, 5, 8])
@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.999])
def test_turn_is_the_share_of_the_symmetry_angle(corners: int, share: float) -> None:
    angle = share * 2 * math.pi / corners
    turn = float(polygon_turn(one_polygon(corners, angle, corners).unsqueeze(0)))
    assert 0 <= turn < 1
    assert min(abs(turn - share), 1 - abs(turn - share)) < 1e-6


def test_turn_is_the_same_after_a_whole_symmetry_angle() -> None:
    polygons = torch.stack([one_polygon(5, 0.4 + 2 * math.pi * turn / 5, 5) for turn in range(-3, 8)])
    turns = polygon_turn(polygons)
    torch.testing.assert_close(turns, turns[:1].expand(len(turns)))


def test_turn_near_the_wrap_around_is_not_torn() -> None:
    """Corners a little before and a little behind the seam average to the seam, not to the opposite."""
    small = 0.01
    before, behind = one_polygon(4, -small, 4), one_polygon(4, small, 4)
    mixed = torch.cat([before[:2], behind[2:]]).unsqueeze(0)
    turn = float(polygon_turn(mixed))
    assert min(turn, 1 - turn) < 1e-6


def test_turn_ignores_the_order_of_corners() -> None:
    points = one_polygon(6, 0.2, 6)
    both = torch.stack([points, points[[3, 1, 5, 0, 2, 4]]])
    turns = polygon_turn(both)
    assert float(turns[0]) == pytest.approx(float(turns[1]), abs=1e-9)


def test_turns_of_real_polygons_are_uniform() -> None:
    batch = draw_polygons(1000, torch.Generator().manual_seed(0), corners=(5,))
    assert kuiper(polygon_turn(batch.sets.elements)) < 2 / math.sqrt(1000)  # the 1 % point is 2.0


# -- Kuiper's statistic --------------------------------------------------------------------------------


def plain_kuiper(values: list[float]) -> float:
    """From the definition of the empirical distribution, just before and at every value."""
    count = len(values)
    above = max(sum(other <= value for other in values) / count - value for value in values)
    below = max(value - sum(other < value for other in values) / count for value in values)
    return above + below


def test_kuiper_against_its_definition() -> None:
    for count in (1, 2, 17, 200):
        values = torch.rand(count, generator=torch.Generator().manual_seed(count), dtype=torch.float64)
        assert kuiper(values) == pytest.approx(plain_kuiper(values.tolist()), abs=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.3, 0.99])
def test_kuiper_of_equal_values_is_one(value: float) -> None:
    assert kuiper(torch.full((100,), value)) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("count", [1, 4, 1000])
@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_kuiper_of_evenly_spaced_values(count: int, offset: float) -> None:
    values = (torch.arange(count, dtype=torch.float64) + offset) / count
    assert kuiper(values) == pytest.approx(1 / count, abs=1e-9)


def test_kuiper_knows_no_beginning() -> None:
    values = torch.rand(50, generator=torch.Generator().manual_seed(1), dtype=torch.float64) ** 2
    expected = kuiper(values)
    for shift in (0.1, 0.37, 0.9):
        assert kuiper((values + shift) % 1.0) == pytest.approx(expected, abs=1e-9)


def test_kuiper_sees_values_in_one_half() -> None:
    values = (torch.arange(1000, dtype=torch.float64) + 0.5) / 2000
    assert kuiper(values) == pytest.approx(0.5, abs=2e-3)
