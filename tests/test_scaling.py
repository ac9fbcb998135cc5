"""Features to about [0, 1] and back."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from desp.scaling import FeatureScaling

numbers = st.floats(-1e6, 1e6, allow_subnormal=False)


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
