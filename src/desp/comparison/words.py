"""Comparisons in words. Nothing here loads torch."""

from typing import Literal

# Standard errors of a paired difference, from which on it is clear.
CLEARLY = 2.0

Verdict = Literal["clearly better", "tie", "worse"]


def verdict(difference: float, error: float) -> Verdict:
    """What a paired difference of energy scores says: lower by two standard errors is clearly better."""
    if abs(difference) <= CLEARLY * error:
        return "tie"
    return "clearly better" if difference < 0 else "worse"
