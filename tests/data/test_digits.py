"""Digits: points in their regions, in the right orientation."""

import math

import pytest
import torch
from scipy import stats

from desp.data import draw_digits
from desp.data.digits import DIGITS, ONE, POINTS, SEVEN, _Digit, _draw_region, _Region, draw_styles

SLACK = 1e-5

# What the protocol says of each part: rectangle (x, y), turn in degrees, shift, points.
BAR = ((0.48, 0.52), (0.25, 0.75))
PARTS = {
    "one": [(*BAR, 0, (0, 0), 42), ((0.3, 0.5), (0, 0.04), 45, (0.125, 0.37), 22)],
    "seven": [
        (*BAR, -18, (-0.1, 0.1), 32),
        ((0.4, 0.57), (0.61, 0.67), 0, (0, 0), 16),
        ((0.415, 0.595), (0.42, 0.48), 0, (0, 0), 16),
    ],
}


def upright(points: torch.Tensor, degrees: float, shift: tuple[float, float]) -> tuple[torch.Tensor, torch.Tensor]:
    """(row, column) points as (x, y) before they were turned and shifted."""
    x, y = points[..., 1] - shift[0], 1 - points[..., 0] - shift[1]
    cosine, sine = math.cos(math.radians(-degrees)), math.sin(math.radians(-degrees))
    return cosine * x - sine * y, sine * x + cosine * y


@pytest.mark.parametrize("digit", DIGITS, ids=lambda digit: digit.name)
def test_points_lie_in_their_regions_and_fill_them(digit: _Digit, generator: torch.Generator) -> None:
    _, full = draw_styles(digit, 300, generator)
    begin = 0
    for x_range, y_range, degrees, shift, points in PARTS[digit.name]:
        x, y = upright(full[:, begin : begin + points], degrees, shift)
        for values, (low, high) in ((x, x_range), (y, y_range)):
            unit = (values - low) / (high - low)
            assert unit.min() > -1e-3
            assert unit.max() < 1 + 1e-3
            assert stats.kstest(unit.flatten().numpy(), "uniform").pvalue > 0.001
        begin += points
    assert begin == POINTS


def test_bar_of_the_one_is_upright(generator: torch.Generator) -> None:
    bar = draw_styles(ONE, 50, generator)[0, :, :42]
    row, column = bar[..., 0], bar[..., 1]
    assert row.min() >= 0.25 - SLACK
    assert row.max() <= 0.75 + SLACK
    assert row.max() - row.min() > 0.45
    assert column.min() >= 0.48 - SLACK
    assert column.max() <= 0.52 + SLACK


def test_top_of_the_seven_is_above_its_bar(generator: torch.Generator) -> None:
    full = draw_styles(SEVEN, 50, generator)[1]
    bar, top, cross = full[:, :32], full[:, 32:48], full[:, 48:]
    assert top[..., 0].mean() < cross[..., 0].mean() < bar[..., 0].max()
    assert top[..., 0].max() <= 1 - 0.61 + SLACK  # rows grow downwards
    assert stats.pearsonr(bar[..., 0].flatten(), bar[..., 1].flatten()).statistic < -0.9  # leans to the right


def test_hook_of_the_one_hangs_at_the_left_of_its_top(generator: torch.Generator) -> None:
    hook = draw_styles(ONE, 50, generator)[1, :, 42:]
    assert hook[..., 1].max() < 0.5
    assert hook[..., 0].min() > 0.2
    assert hook[..., 0].max() < 0.5


def test_styles_have_their_sizes(generator: torch.Generator) -> None:
    for digit, size in ((ONE, 42), (SEVEN, 48)):
        plain, full = draw_styles(digit, 20, generator)
        assert plain.shape == full.shape == (20, POINTS, 2)
        assert plain[:, :size].all()
        assert not plain[:, size:].any()
        assert full.all()


def test_batches_are_one_hot_and_padded_with_zeros(generator: torch.Generator) -> None:
    batch = draw_digits(400, generator)
    assert batch.sets.elements.shape == (400, 64, 2)
    assert torch.equal(batch.x.sum(dim=1), torch.ones(400))
    assert not batch.sets.elements[~batch.sets.mask].any()
    assert batch.sets.elements[batch.sets.mask].all()
    sizes = batch.sets.sizes
    assert set(sizes[batch.x[:, 0] == 1].tolist()) == {42, 64}
    assert set(sizes[batch.x[:, 1] == 1].tolist()) == {48, 64}


def test_digits_and_styles_are_drawn_alike(generator: torch.Generator) -> None:
    batch = draw_digits(4000, generator)
    digit, full = batch.x.argmax(dim=1), (batch.sets.sizes == 64).long()
    counts = torch.bincount(2 * digit + full, minlength=4)
    assert stats.chisquare(counts.numpy()).pvalue > 0.01


def test_seeds_decide() -> None:
    draws = [draw_digits(20, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(draws[0].sets.elements, draws[1].sets.elements)
    assert torch.equal(draws[0].x, draws[1].x)
    assert not torch.equal(draws[0].sets.elements, draws[2].sets.elements)


def test_a_region_is_turned_counterclockwise_about_the_origin(generator: torch.Generator) -> None:
    point = _Region((1.0, 1.0), (0.0, 0.0), points=1, degrees=90, shift=(0.25, 0.5))
    drawn = _draw_region(point, 1, generator)[0, 0]
    torch.testing.assert_close(drawn, torch.tensor([1 - 1.5, 0.25]))  # (x, y) = (0, 1) + shift
