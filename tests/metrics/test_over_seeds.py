"""Means over seeds and their intervals."""

import pytest

from desp.metrics.over_seeds import half_width, over_seeds


@pytest.mark.parametrize(
    ("values", "half"),
    [
        ([1.0], None),
        ([1.0, 3.0], 12.706),  # t of one degree of freedom, times a standard error of 1
        ([1.0, 2.0, 3.0], 4.303 / 3**0.5),
        ([2.0, 2.0], 0.0),
    ],
)
def test_intervals_are_student_s(values: list[float], half: float | None) -> None:
    assert half_width(values) == (None if half is None else pytest.approx(half, rel=1e-3))


def test_a_seed_without_a_number_leaves_nothing() -> None:
    assert over_seeds([1.0, None]) == {"value": None, "std": None, "ci95": None}
    assert over_seeds([1.0, float("nan")]) == {"value": None, "std": None, "ci95": None}
    assert over_seeds([]) == {"value": None, "std": None, "ci95": None}
    assert over_seeds([2.0]) == {"value": 2.0, "std": None, "ci95": None}
