"""Outliers: values so far from all others that a scaling by the whole range would squeeze the others together."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

FAR_WIDTHS = 100.0
"""A value is an outlier if its distance from the inner values is more than this many times their range."""
MIN_VALUES = 10
"""Among fewer values there are no outliers."""
TRIMMED = 2
"""This many values at each end, or a hundredth of all if that is more, are not inner values."""
MAX_OUTLIERS = 32
"""More than this in a feature, or than max(2, n / 1000), belong to the distribution and are no outliers."""
WINSORISED_PER_MILLE = 5
"""Per mille of all values, at each end, that are clamped before the standard deviation is taken."""
SAMPLED_NUMBERS = 2**22
NAMED = 3


@dataclass(frozen=True)
class Outlier:
    """A value far from the others.

    Attributes:
        example: number of its example.
        feature: its column.
        value: the outlier.
        low, high: smallest and largest of the other values.
    """

    example: int
    feature: int
    value: float
    low: float
    high: float


class Ranges:
    """The smallest and the largest value of each feature, gathered part by part.

    Args:
        features: columns.

    Attributes:
        low, high: the ends of each feature; infinite while there are no values.
        more_than_two_values: whether a feature is not binary.
    """

    def __init__(self, features: int) -> None:
        self.low = torch.full((features,), torch.inf, dtype=torch.float64)
        self.high = -self.low
        self.more_than_two_values = torch.zeros(features, dtype=torch.bool)

    def add(self, values: Float[Tensor, "n d"]) -> None:
        """Add rows, at least one."""
        known = torch.stack([self.low, self.high])  # if finite, these are values themselves
        values = torch.cat([values, known]) if bool(torch.isfinite(known).all()) else values
        self.low, self.high = values.amin(dim=0), values.amax(dim=0)
        self.more_than_two_values |= ((values > self.low) & (values < self.high)).any(dim=0)


class Extremes:
    """The largest and smallest values of each feature, exact, and a sample of all values, gathered part by part.

    Args:
        features: columns.
    """

    def __init__(self, features: int) -> None:
        self.sample = torch.empty(0, features, dtype=torch.float64)
        self.count, self.every = 0, 1
        self.most_sampled = max(1000, SAMPLED_NUMBERS // max(features, 1))
        self.highest, self.lowest = _Ends(features, 1.0), _Ends(features, -1.0)

    def add(self, values: Float[Tensor, "n d"], examples: Int[Tensor, " n"]) -> None:
        """Add rows, each with the number of its example."""
        self.highest.add(values, examples)
        self.lowest.add(values, examples)
        self.sample = torch.cat([self.sample, values[-self.count % self.every :: self.every]])
        self.count += len(values)
        while len(self.sample) > self.most_sampled:
            self.sample, self.every = self.sample[::2], 2 * self.every

    def fences(self) -> tuple[Float[Tensor, " d"], Float[Tensor, " d"]]:
        """Bounds beyond which values are outliers; infinite where there are too few values or no width."""
        ordered = self.sample.sort(dim=0).values
        trimmed = max(TRIMMED, len(ordered) // 100)
        if len(ordered) < MIN_VALUES:
            endless = torch.full(self.sample.shape[1:], torch.inf, dtype=torch.float64)
            return -endless, endless
        low, high = ordered[trimmed], ordered[-1 - trimmed]
        # A feature that hardly ever changes, such as a one-hot column, has no range to compare with.
        reach = torch.where(high > low, FAR_WIDTHS * (high - low), torch.inf)
        return low - reach, high + reach

    def constant(self) -> dict[int, float]:
        """The features of which all values are equal, with that value; none if there are no values."""
        if not self.count:
            return {}
        low, high = self.lowest.largest(), self.highest.largest()
        return {feature: float(high[feature]) for feature in (low == high).nonzero()[:, 0].tolist()}

    def winsorised_moments(self) -> tuple[Float[Tensor, " d"], Float[Tensor, " d"]]:
        """Mean and standard deviation of the winsorised sample: outliers and the outermost 0.5 % at each end are
        clamped to the ends of the rest, as long tails would dominate a standard deviation."""
        sample = self.sample.clamp(*self._near_ends(self.outliers()))
        ordered = sample.sort(dim=0).values
        clamped = len(ordered) * WINSORISED_PER_MILLE // 1000
        near = sample.clamp(ordered[clamped], ordered[-1 - clamped])
        return near.mean(dim=0), near.std(dim=0, correction=0)

    def outliers(self) -> list[Outlier]:
        """Values beyond the fences, unless there are many of them."""
        lowest, highest = self.fences()
        allowed = min(MAX_OUTLIERS, max(2, self.count // 1000))
        found: list[Outlier] = []
        for feature in range(self.sample.shape[1]):
            above = self.highest.beyond(feature, float(highest[feature]))
            below = self.lowest.beyond(feature, float(lowest[feature]))
            if 0 < len(above) + len(below) <= allowed:
                low, high = self.lowest.after(feature, len(below)), self.highest.after(feature, len(above))
                found += [Outlier(example, feature, value, low, high) for value, example in (*below, *above)]
        return found

    def moments_without(self, far: list[Outlier]) -> tuple[Float[Tensor, " d"], Float[Tensor, " d"]]:
        """Mean and standard deviation of the sample without the outliers `far`."""
        low, high = self._near_ends(far)
        near = self.sample.masked_fill((self.sample < low) | (self.sample > high), torch.nan)
        mean = near.nanmean(dim=0)
        return mean, (near - mean).square().nanmean(dim=0).sqrt()

    def _near_ends(self, far: list[Outlier]) -> tuple[Float[Tensor, " d"], Float[Tensor, " d"]]:
        """The smallest and largest value of each feature without the outliers; infinite where it has none."""
        low, high = (
            torch.full(self.sample.shape[1:], end, dtype=torch.float64) for end in (-torch.inf, torch.inf)
        )
        for item in far:
            low[item.feature], high[item.feature] = item.low, item.high
        return low, high


def outlier_findings(far: list[Outlier], what: str, name_of: Callable[[int], str]) -> list[str]:
    """A sentence or two for each of the first outliers, and how many more there are.

    Args:
        far: the outliers.
        what: text with a place for the column, such as ``column {} of an element``.
        name_of: names an example by its number.
    """
    found = [
        f"{name_of(item.example)}: {what.format(item.feature)} is {item.value:g}, far from all others, which go "
        f"from {item.low:g} to {item.high:g}. The other values are scaled as if this one were missing. Repair or "
        "remove it."
        for item in far[:NAMED]
    ]
    return [*found, f"{len(far) - NAMED} more values are as far from all others."] if len(far) > NAMED else found


class _Ends:
    """The largest values of each feature, in descending order, with their examples; with sign -1 the smallest."""

    def __init__(self, features: int, sign: float) -> None:
        self.sign = sign
        self.values = torch.empty(0, features, dtype=torch.float64)
        self.examples = torch.empty(0, features, dtype=torch.int64)

    def add(self, values: Tensor, examples: Tensor) -> None:
        joined = torch.cat([self.values, self.sign * values])
        owners = torch.cat([self.examples, examples.unsqueeze(1).expand(values.shape)])
        top = joined.topk(min(MAX_OUTLIERS + 1, len(joined)), dim=0)
        self.values, self.examples = top.values, owners.gather(0, top.indices)

    def largest(self) -> Tensor:
        """The largest value of each feature (D,), for sign -1 the smallest."""
        return self.sign * self.values[0]

    def beyond(self, feature: int, fence: float) -> list[tuple[float, int]]:
        far = self.values[:, feature] > self.sign * fence
        return list(
            zip(
                (self.sign * self.values[far, feature]).tolist(), self.examples[far, feature].tolist(), strict=True
            )
        )

    def after(self, feature: int, count: int) -> float:
        """The largest value behind the first `count`."""
        return self.sign * float(self.values[count, feature])
