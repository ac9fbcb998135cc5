"""Numbers are short, and do not claim digits they do not have."""

import pytest

from desp.report.numbers import DASH, MINUS, duration, is_number, readable, short_number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, DASH),
        (True, "yes"),
        (0, "0"),
        (4000, "4000"),
        (10_000, "10 000"),
        (331009, "331 009"),
        (-331009, f"{MINUS}331 009"),
        (0.0, "0"),
        (0.1 + 0.2, "0.3"),
        (1234.567, "1235"),
        (99999.9, "100000"),
        (8.8e-5, f"8.8e{MINUS}5"),
        (-1.23456e-7, f"{MINUS}1.235e{MINUS}7"),
        (float("nan"), "nan"),
        ([1, 0.5, None], f"1, 0.5, {DASH}"),
        ("text", "text"),
    ],
)
def test_readable(value: object, text: str) -> None:
    assert readable(value) == text


def test_short_number_keeps_its_digits() -> None:
    assert [short_number(value) for value in (-0.21, 12.0, 8.8e-5)] == [
        f"{MINUS}0.210",
        "12.0",
        f"8.80e{MINUS}5",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.0, "59.0 s"), (92.4, "1 min 32 s"), (7300.0, "2 h 1 min")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_is_number() -> None:
    assert [is_number(value) for value in (1, 1.0, True, None, "1", float("inf"))] == [True, True] + [False] * 4
