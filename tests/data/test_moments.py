"""Mean and standard deviation of rows that are read part by part."""

import torch

from desp.data.moments import Moments
from desp.randomness import make_generator


def test_parts_have_the_moments_of_the_whole() -> None:
    rows = 3 + 2 * torch.randn(50, 4, 2, dtype=torch.float64, generator=make_generator(0))
    moments = Moments()
    for part in (rows[:0], *rows.split(7)):
        moments.add(part)
    assert moments.count == 50
    torch.testing.assert_close(moments.mean(), rows.mean(dim=0))
    torch.testing.assert_close(moments.deviation(), rows.std(dim=0, correction=0))


def test_a_large_column_has_the_deviation_that_it_has() -> None:
    """Down to a relative 1e-12; none where it is constant."""
    small = torch.randn(1000, dtype=torch.float64, generator=make_generator(1))
    rows = torch.stack([1e9 + 1e-3 * small, torch.full_like(small, 1e9 + 0.1), 1e5 + small], dim=1)
    moments = Moments()
    for part in rows.split(100):
        moments.add(part)
    assert float(moments.deviation()[1]) == 0
    expected = (rows - rows[0]).std(dim=0, correction=0)  # which is exact: of rows themselves it is not
    torch.testing.assert_close(moments.deviation(), expected, rtol=1e-6, atol=1e-12)


def test_without_rows_there_is_no_deviation() -> None:
    assert (float(Moments().mean()), float(Moments().deviation())) == (0, 0)
