"""Features to about [0, 1] and back."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from desp.boxes import centres_to_corners
from desp.scaling import MAX_RANGE_IN_UNITS, FeatureScaling, box_centres

numbers = st.floats(-1e6, 1e6, allow_subnormal=False)
shares = st.floats(0, 1, allow_subnormal=False)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-0.04, 1.04), (0.3, 0.6), (0.0, 0.2), (0.15, 0.85)])
def test_features_near_the_unit_interval_stay(low: float, high: float) -> None:
    scaling = FeatureScaling.from_range([low], [high])
    assert scaling == FeatureScaling.identity(1)
    values = torch.rand(5, 1)
    assert torch.equal(scaling.scale(values), values)
    assert torch.equal(scaling.unscale(values), values)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0.0, 2.0),
        (-0.1, 1.0),
        (-5.0, -3.0),
        (-100.0, 300.0),
        (0.0, 0.1),
        (0.45, 0.55),
        (0.5, 0.500001),
        (0.5, 0.5 + 1e-9),
        (0.0, 0.19),
        (-0.051, 1.0),
        (0.0, 1.051),
        (1e6, 2e6),
        (1.6e-19, 8e-19),
    ],
)
def test_other_features_fill_the_unit_interval(low: float, high: float) -> None:
    scaling = FeatureScaling.from_range([low], [high])
    assert scaling != FeatureScaling.identity(1)
    values = torch.tensor([[low], [high], [(low + high) / 2]], dtype=torch.float64)
    expected = torch.tensor([[0.0], [1.0], [0.5]], dtype=torch.float64)
    torch.testing.assert_close(scaling.scale(values), expected)


@pytest.mark.parametrize("value", [0.0, 0.5, 7.0, -1e9, 1e-20])
def test_constant_features_go_to_the_middle_in_their_unit(value: float) -> None:
    scaling = FeatureScaling.from_range([value], [value])
    values = torch.tensor([[value], [value + 2]], dtype=torch.float64)
    torch.testing.assert_close(scaling.scale(values), torch.tensor([[0.5], [2.5]], dtype=torch.float64))


@given(rows=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6))
def test_scaling_comes_back(rows: list[tuple[float, float]]) -> None:
    values = torch.tensor(rows, dtype=torch.float64)
    low, high = values.amin(dim=0).tolist(), values.amax(dim=0).tolist()
    scaling = FeatureScaling.from_range(low, high)
    scaled = scaling.scale(values)
    assert (scaled >= -0.0501).all()
    assert (scaled <= 1.0501).all()
    torch.testing.assert_close(scaling.unscale(scaled), values, rtol=1e-9, atol=1e-6)


@given(rows=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6))
def test_single_precision_comes_back(rows: list[tuple[float, float]]) -> None:
    values = torch.tensor(rows, dtype=torch.float32)
    scaling = FeatureScaling.from_range(values.amin(dim=0).tolist(), values.amax(dim=0).tolist())
    largest = max(1.0, values.abs().max().item())
    back = scaling.unscale(scaling.scale(values))
    assert back.dtype == torch.float32
    torch.testing.assert_close(back, values, rtol=0, atol=1e-6 * largest)


def test_each_feature_has_its_own_map() -> None:
    scaling = FeatureScaling.from_range([0.0, -10.0, 3.0], [1.0, 10.0, 3.0])
    scaled = scaling.scale(torch.tensor([[[0.25, 0.0, 3.0]]]))
    assert scaled.tolist() == [[[0.25, 0.5, 0.5]]]
    assert (scaling.offset, scaling.span) == ((0.0, -10.0, 2.5), (1.0, 20.0, 1.0))


def test_identity() -> None:
    scaling = FeatureScaling.identity(3)
    values = torch.randn(2, 4, 3)
    assert torch.equal(scaling.unscale(scaling.scale(values)), values)


def test_ranges_of_different_lengths() -> None:
    with pytest.raises(ValueError, match="zip"):
        FeatureScaling.from_range([0.0], [1.0, 2.0])


def test_large_numbers_that_hardly_differ_are_the_same() -> None:
    """The tolerance is relative: a span of rounding errors would blow them up to the whole unit interval."""
    assert FeatureScaling.from_range([1e6], [math.nextafter(1e6, 2e6)]) == FeatureScaling((999999.5,), (1.0,))
    assert FeatureScaling.from_range([1e6], [1e6 + 1.0]).span == (1.0,)
    assert FeatureScaling.from_range([1e-6], [2e-6]).span == pytest.approx((1e-6,))


# -- boxes -------------------------------------------------------------------------------------------------

BOXES = ((1, 5),)
# A weight, the centre, width and height of a box, a height above ground.
LOW, HIGH = [0.0, 0.1, 0.2, 0.05, 0.02, -3.0], [1.0, 0.9, 0.6, 0.25, 0.42, 5.0]
OF_BOXES = FeatureScaling.from_range(LOW, HIGH, BOXES)


def with_box(first: float, box: list[float], last: float) -> torch.Tensor:
    """An element with the corners of a box between two other features."""
    corners = centres_to_corners(torch.tensor(box, dtype=torch.float64))
    return torch.cat([torch.tensor([first]).double(), corners, torch.tensor([last]).double()])


def test_boxes_are_scaled_as_centre_width_and_height() -> None:
    """Ranges are those of centres and sizes; other features keep their own."""
    ends = torch.stack([with_box(LOW[0], LOW[1:5], LOW[5]), with_box(HIGH[0], HIGH[1:5], HIGH[5])])
    expected = torch.tensor([[0.0] * 6, [1.0] * 6], dtype=torch.float64)
    torch.testing.assert_close(OF_BOXES.scale(ends), expected)
    torch.testing.assert_close(OF_BOXES.unscale(expected), ends)
    torch.testing.assert_close(box_centres(ends, BOXES), torch.tensor([LOW, HIGH], dtype=torch.float64))
    assert torch.equal(box_centres(ends, ()), ends)


def test_boxes_are_scaled_although_they_fill_the_unit_interval() -> None:
    low, high = [0.0, 0.0, 0.05, 0.1], [1.0, 1.0, 0.85, 0.9]
    assert FeatureScaling.from_range(low, high) == FeatureScaling.identity(4)
    scaling = FeatureScaling.from_range(low, high, ((0, 4),))
    assert scaling.offset == tuple(low)
    assert scaling.span == pytest.approx((1.0, 1.0, 0.8, 0.8))


def test_boxes_of_one_size_go_to_the_middle() -> None:
    scaling = FeatureScaling.from_range([0.1, 0.1, 0.2, 0.2], [0.9, 0.9, 0.2, 0.2], ((0, 4),))
    corners = centres_to_corners(torch.tensor([[0.5, 0.1, 0.2, 0.2]], dtype=torch.float64))
    expected = torch.tensor([[0.5, 0.0, 0.5, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(scaling.scale(corners), expected)


@given(rows=st.lists(st.tuples(*[shares] * 6), min_size=0, max_size=5))
def test_boxes_come_back(rows: list[tuple[float, ...]]) -> None:
    """Also those that are none: a negative width is scaled like any other."""
    values = torch.tensor(rows, dtype=torch.float64).reshape(-1, 6)
    torch.testing.assert_close(OF_BOXES.unscale(OF_BOXES.scale(values)), values, rtol=0, atol=1e-12)
    torch.testing.assert_close(OF_BOXES.scale(OF_BOXES.unscale(values)), values, rtol=0, atol=1e-12)


def test_two_boxes_of_one_element_are_scaled_each() -> None:
    both = FeatureScaling((0.0,) * 8, (2.0,) * 8, boxes=((0, 4), (4, 8)))
    single = FeatureScaling((0.0,) * 4, (2.0,) * 4, boxes=((0, 4),))
    values = torch.rand(3, 8)
    assert torch.equal(
        both.scale(values), torch.cat([single.scale(values[:, :4]), single.scale(values[:, 4:])], 1)
    )


def test_volumes_change_by_the_spans_alone() -> None:
    """From corners to centre, width and height volumes stay, so that densities need no factor but the spans."""
    jacobian = torch.autograd.functional.jacobian(OF_BOXES.scale, torch.rand(6, dtype=torch.float64))
    assert float(jacobian.det()) == pytest.approx(1 / math.prod(OF_BOXES.span))
    plain = torch.autograd.functional.jacobian(lambda row: box_centres(row, BOXES), torch.rand(6).double())
    assert float(plain.det()) == pytest.approx(1.0)


def test_features_by_their_moments() -> None:
    """Mean 1/2 and standard deviation 1/4; what is no column of these, or never changes, stays as it was."""
    ranges = FeatureScaling.from_range([0.0, -8.0, 0.0, 3.0], [1.0, 8.0, 1e6, 3.0])
    scaling = FeatureScaling.from_moments([0.5, 1.0, 10.0, 3.0], [0.1, 2.0, 5.0, 0.0], ranges, [1, 2, 3])
    assert (scaling.offset[0], scaling.span[0]) == (0.0, 1.0)
    assert scaling.scale(torch.tensor([[0.0, 1.0, 10.0, 3.0]]))[0].tolist() == [0.0, 0.5, 0.5, 0.5]
    assert float(scaling.scale(torch.tensor([[0.0, 3.0, 0.0, 0.0]]))[0, 1]) == 0.75
    assert scaling.span[2] == 1e6 / MAX_RANGE_IN_UNITS  # and not 20, which would make 50,000 of the largest value
    values = torch.tensor([[0.3, -7.0, 4e5, 3.0]])
    torch.testing.assert_close(scaling.unscale(scaling.scale(values)), values)
