"""The distance between sets, in standardised units, by which systems are compared."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from desp.distances import chamfer, hungarian
from desp.predictor.energy_score import aligned_padded_distance, distances_among
from desp.sets import SetBatch
from desp.settings import Columns, DataDescription

# Larger sets are compared by Chamfer's distance: assignments of 500 elements take too long.
MOST_ASSIGNED = 64
# The most elements for medians and deciles; torch's quantile takes at most 2**24.
MOST_MEASURED = 1_000_000
# Numbers in pairs of elements that are held at the same time.
VALUES_AT_ONCE = 2**22
# The first and the last decile of a normal distribution are this many standard deviations apart.
DECILES_APART = 2.563


@dataclass(frozen=True)
class StandardisedDistance:
    """The distance between sets, in standardised units.

    Attributes:
        offset, scale: (D,) of each feature.
        size: N, to which all sets are padded.
        aligned: whether elements i of two sets are compared.
        categories: one-hot columns.
    """

    offset: Float[Tensor, " d"]
    scale: Float[Tensor, " d"]
    size: int
    aligned: bool
    categories: Columns = ()

    @classmethod
    def of(cls, sets: SetBatch, description: DataDescription, size: int) -> "StandardisedDistance":
        """Standardise by medians and deciles of the elements that systems are trained on: heavy tails and outliers
        would make a standard deviation so large that all else looks the same. One-hot columns stay as they are."""
        elements = sets.elements[sets.mask].double()
        if len(elements) == 0:
            elements = elements.new_zeros(1, sets.features)
        elements = elements[:: -(-len(elements) // MOST_MEASURED)]
        low, middle, high = elements.quantile(torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64), dim=0)
        scale = (high - low) / DECILES_APART
        scale = torch.where(scale > 0, scale, elements.std(dim=0, correction=0))
        scale = torch.where(scale > 0, scale, 1.0)
        for first, end in description.categories:
            middle[first:end], scale[first:end] = 0.0, 1.0
        return cls(middle.float(), scale.float(), size, description.aligned, description.categories)

    @property
    def distance_name(self) -> str:
        """The name of the distance."""
        return "aligned" if self.aligned else "hungarian" if self.size <= MOST_ASSIGNED else "chamfer"

    def pad(self, sets: SetBatch) -> Float[Tensor, "b n c"]:
        """Sets as one tensor in standardised units, presence last; absent rows are zero."""
        packed = sets if self.aligned else sets.packed()
        values = SetBatch((packed.elements - self.offset) / self.scale, packed.mask).with_presence()
        return F.pad(values, (0, 0, 0, self.size - values.shape[1]))

    def between(self, a: Float[Tensor, "b n c"], b: Float[Tensor, "b n c"]) -> Float[Tensor, " b"]:
        """Distances between padded sets, padding included."""
        distance = _DISTANCES[self.distance_name]
        parts = max(1, VALUES_AT_ONCE // max(1, a.shape[1] ** 2 * a.shape[2]))
        return torch.cat([distance(*pair) for pair in zip(a.split(parts), b.split(parts), strict=True)])

    def pairwise(self, groups: Float[Tensor, "t m n c"]) -> Float[Tensor, "t m m"]:
        """Distances among the M sets of each group."""
        return distances_among(groups, self.between)

    def medoids(self, groups: Float[Tensor, "t m n c"]) -> Int[Tensor, " t"]:
        """Which set of each group is nearest to all others on average."""
        return self.pairwise(groups).sqrt().sum(dim=2).argmin(dim=1)


_DISTANCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "aligned": aligned_padded_distance,
    "hungarian": hungarian,
    "chamfer": chamfer,
}
