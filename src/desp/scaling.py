"""Features brought near [0, 1], where the paper's noise and step sizes are right, and back."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from desp.constants import constant

# A feature counts as near [0, 1] when it stays within these bounds and spans a fair part of them.
LOWEST, HIGHEST, NARROWEST = -0.05, 1.05, 0.2


@dataclass(frozen=True)
class FeatureScaling:
    """An affine map for each feature: scaled = (value - offset) / span."""

    offset: tuple[float, ...]
    span: tuple[float, ...]

    @classmethod
    def identity(cls, features: int) -> "FeatureScaling":
        """The map that changes nothing."""
        return cls((0.0,) * features, (1.0,) * features)

    @classmethod
    def from_range(cls, low: Sequence[float], high: Sequence[float]) -> "FeatureScaling":
        """Map features that leave [0, 1], or fill little of it, from [low, high] to [0, 1].

        A feature that never changes is moved to 1/2, keeping its unit.
        """
        offset, span = [], []
        for lowest, highest in zip(low, high, strict=True):
            width = highest - lowest
            near = lowest >= LOWEST and highest <= HIGHEST and width >= NARROWEST
            unchanging = width <= 1e-12 * max(abs(lowest), abs(highest), 1.0)
            offset.append(0.0 if near else lowest - 0.5 if unchanging else lowest)
            span.append(1.0 if near or unchanging else width)
        return cls(tuple(offset), tuple(span))

    def scale(self, values: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        """From the user's units to about [0, 1]."""
        offset, span = self._tensors(values)
        return (values - offset) / span

    def unscale(self, values: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        """From about [0, 1] to the user's units."""
        offset, span = self._tensors(values)
        return values * span + offset

    def _tensors(self, like: Tensor) -> tuple[Tensor, Tensor]:
        return constant(self.offset, like.device, like.dtype), constant(self.span, like.device, like.dtype)
