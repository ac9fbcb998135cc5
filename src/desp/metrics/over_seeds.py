"""A number over seeds: its mean, spread, and 95 % interval. Nothing here loads torch."""

import math
import statistics
from collections.abc import Sequence

CONFIDENCE = 0.95


def half_width(values: Sequence[float]) -> float | None:
    """Half the width of the mean's 95 % confidence interval, by Student's t; None for fewer than two values."""
    if len(values) < 2:
        return None
    from scipy.special import stdtrit  # takes a while to load

    quantile = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    return quantile * statistics.stdev(values) / math.sqrt(len(values))


def over_seeds(values: Sequence[float | None]) -> dict[str, float | None]:
    """Mean, standard deviation and half-width of the 95 % confidence interval (`ci95`) over seeds.

    All are None if a seed has no finite number: it failed, and a mean of the others would hide that.
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known or len(known) < len(values):
        return {"value": None, "std": None, "ci95": None}
    spread = statistics.stdev(known) if len(known) > 1 else None
    return {"value": statistics.fmean(known), "std": spread, "ci95": half_width(known)}
