"""Permutation-invariant poolings (B, N, H) -> (B, H)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from desp.nn.mlp import Pullback
from desp.nn.ranks import rank_weights
from desp.settings import Pooling, require_setting

Cache = tuple[Tensor, ...]
"""Tensors derived from the weights alone, such as a pooling's weight for every rank."""


class Pool(nn.Module, ABC):
    """Turns features of elements into features of the set. An empty set pools to zero."""

    @abstractmethod
    def forward(self, values: Float[Tensor, "b n h"], cache: Cache | None = None) -> Float[Tensor, "b h"]:
        """Pool over elements; `cache`, from `cache(N)`, spares computing it again."""

    def cache(self, size: int) -> Cache:
        """What the pooling of sets of `size` elements derives from its weights alone."""
        del size
        return ()

    def with_pullback(self, values: Float[Tensor, "b n h"], cache: Cache) -> tuple[Float[Tensor, "b h"], Pullback]:
        """The pooled values, and the pullback from gradients (B, H) in them to gradients in `values`."""
        result: tuple[Tensor, Callable[[Tensor], tuple[Tensor]]]
        result = torch.func.vjp(lambda rows: self(rows, cache), values)  # type: ignore[assignment]
        pooled, pull = result
        return pooled, lambda gradient: pull(gradient)[0]


class _SumPool(Pool):
    """The sum over elements, or their mean."""

    def __init__(self, *, mean: bool = False) -> None:
        super().__init__()
        self.mean = mean

    def forward(self, values: Float[Tensor, "b n h"], cache: Cache | None = None) -> Float[Tensor, "b h"]:
        """Sum or mean."""
        del cache
        return values.sum(dim=1) / (max(values.shape[1], 1) if self.mean else 1)


class _SoftmaxPool(Pool):
    """N times a mean whose weights are a softmax of each feature itself, at a learned inverse temperature.

    At temperature zero it is N times the maximum (or minimum, if negative); at an infinite one the sum. Like
    FSPool it weighs large and small values differently, but its gradient is continuous.

    Args:
        features: H.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.inverse_temperature = nn.Parameter(3 * torch.randn(features))

    def forward(self, values: Float[Tensor, "b n h"], cache: Cache | None = None) -> Float[Tensor, "b h"]:
        """Weighted mean, times the number of elements."""
        del cache
        weights = (self.inverse_temperature * values).softmax(dim=1)
        return values.shape[1] * (weights * values).sum(dim=1)


class FSPool(Pool):
    """Featurewise sort pooling (Zhang et al., FSPool, 2020).

    Every feature is ranked over the elements, descending, and summed with weights that are a piecewise-linear
    function of the normalised rank. Ties go by index (a stable sort), so that ranks are a permutation even
    when hundreds of padded rows are identical; without that, a chain started at zero would never separate them.

    Args:
        features: H.
        pieces: linear pieces of the weight function; it has one knot more.
    """

    def __init__(self, features: int, pieces: int = 20) -> None:
        super().__init__()
        self.pieces = pieces
        self.knots = nn.Parameter(torch.randn(features, pieces + 1))

    def forward(self, values: Float[Tensor, "b n h"], cache: Cache | None = None) -> Float[Tensor, "b h"]:
        """Rank each feature and take the weighted sum."""
        if values.shape[1] == 0:
            return values.new_zeros(values.shape[0], values.shape[2])
        return self.with_pullback(values, cache or self.cache(values.shape[1]))[0]

    def masked(self, values: Float[Tensor, "b n h"], presence: Bool[Tensor, "b n"]) -> Float[Tensor, "b h"]:
        """The same over present elements only."""
        hidden = ~presence.unsqueeze(-1)
        # Absent rows sort behind all others; they are zeroed afterwards, as infinity times zero is NaN.
        order = values.masked_fill(hidden, -torch.inf).argsort(dim=1, descending=True, stable=True)
        ordered = values.masked_fill(hidden, 0.0).gather(1, order)
        # Rank over (size - 1) for each set, clamped to 1 behind its end; 0 for a set of one element.
        last = (presence.sum(dim=1, keepdim=True) - 1).clamp(min=1)
        ranks = torch.arange(presence.shape[1], device=presence.device, dtype=torch.float64).unsqueeze(0)
        positions = (ranks / last).clamp(max=1.0).to(values.dtype)
        return (ordered * self._weights_at(positions)).sum(dim=1)

    def cache(self, size: int) -> Cache:
        """The weight (N, H) of every rank of a set of `size` elements: the knots, interpolated once."""
        positions = torch.linspace(0, 1, size, device=self.knots.device, dtype=self.knots.dtype)
        return (self._weights_at(positions),)

    def with_pullback(self, values: Float[Tensor, "b n h"], cache: Cache) -> tuple[Float[Tensor, "b h"], Pullback]:
        """The sum of values times the weights of their ranks, which are its gradient too."""
        weights = rank_weights(values, *cache)
        return (values * weights).sum(dim=1), lambda gradient: weights * gradient.unsqueeze(1)

    def _weights_at(self, positions: Float[Tensor, "*n"]) -> Float[Tensor, "*n h"]:
        scaled = positions * self.pieces
        left = scaled.floor().clamp(0, self.pieces - 1)
        fraction = (scaled - left).unsqueeze(-1)
        index = left.long()
        return self.knots.T[index] * (1 - fraction) + self.knots.T[index + 1] * fraction


def make_pool(kind: Pooling, features: int) -> Pool:
    """Build the pooling named `kind` for `features` features.

    Raises:
        SettingsError: there is none of that name.
    """
    require_setting(kind in get_args(Pooling), "pooling", f"one of {get_args(Pooling)}", kind)
    if kind == "fspool":
        return FSPool(features)
    return _SoftmaxPool(features) if kind == "softmax" else _SumPool(mean=kind == "mean")
