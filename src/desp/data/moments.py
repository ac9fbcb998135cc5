"""Mean and standard deviation of rows that are read part by part."""

import torch
from jaxtyping import Float
from torch import Tensor

LOST = 1e-8
"""Below this fraction of the squared mean, sums of squares in float64 hardly resolve a variance."""


class Moments:
    """Sums of rows and of their squares.

    The sums cancel where a column is large and hardly varies: a constant 1e9 would seem to have a standard
    deviation of about ten. There the sums of differences from the first row are used.
    """

    def __init__(self) -> None:
        self.count = 0
        self._first = self._total = self._squares = self._differences = self._squared_differences = torch.zeros(())

    def add(self, rows: Float[Tensor, "b *shape"]) -> None:
        """Add rows in float64; there may be none."""
        if not self.count and len(rows):
            self._first = rows[0].clone()
        self.count += len(rows)
        self._total, self._squares = self._total + rows.sum(dim=0), self._squares + rows.square().sum(dim=0)
        apart = rows - self._first
        self._differences = self._differences + apart.sum(dim=0)
        self._squared_differences = self._squared_differences + apart.square().sum(dim=0)

    def mean(self) -> Float[Tensor, "*shape"]:
        """The mean of each column."""
        return self._total / max(self.count, 1)

    def deviation(self) -> Float[Tensor, "*shape"]:
        """The standard deviation of each column."""
        count, mean = max(self.count, 1), self.mean()
        variance = self._squares / count - mean.square()
        exact = self._squared_differences / count - (self._differences / count).square()
        return torch.where(variance < LOST * mean.square(), exact, variance).clamp(min=0).sqrt()
