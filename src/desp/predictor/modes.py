"""K predicted sets grouped into modes: the different answers among them, each with its fraction of K.

Two predictions are near when their distance is at most a threshold, and in one mode when a path of near
neighbours joins them (single linkage). Distances are in the user's units, see `group_modes`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.cluster.hierarchy import linkage
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform
from torch import Tensor

from desp.distances import SET_DISTANCES
from desp.errors import DataError, SettingsError
from desp.sets import SetBatch, as_set
from desp.settings import Distance

Array = np.ndarray[tuple[int, ...], np.dtype[Any]]

# Below one the element distance is half a mean square, and Chamfer adds two directions: times these factors,
# both set distances are means of squares.
SQUARES: dict[Distance, float] = {"chamfer": 1.0, "hungarian": 2.0}
# In units of the spacing of elements: nearer predictions are always joined; farther ones only by a path of others.
ALWAYS_NEAR, NEVER_NEAR = 0.05, 0.5
# Gaps whose logarithms differ by less than this are equal: rounding in a sum must not decide.
SAME_GAP = 1e-9
# Numbers in one batch of pairwise distances: 32 MiB of float64.
NUMBERS_AT_ONCE = 2**22


@dataclass(frozen=True)
class Mode:
    """Predictions that are nearly the same set.

    Attributes:
        set: (n, D), the member of lowest energy; without energies the medoid, nearest to all others on average.
        fraction: members / K.
        energy: of `set`; NaN without energies.
        members: indices into the K predictions, rising.
    """

    set: Tensor
    fraction: float
    energy: float
    members: tuple[int, ...]


@torch.no_grad()
def group_modes(
    sets: Sequence[Tensor],
    energies: Float[Tensor, " k"] | None = None,
    *,
    distance: Distance = "chamfer",
    threshold: float | None = None,
) -> list[Mode]:
    """Group K predicted sets for one input into modes, largest fraction first, then lowest energy.

    The distance of two sets of equal size is the root of the mean squared difference of a coordinate, over
    matched elements and features, in the units of the sets: every coordinate moved by 0.1 is a distance of 0.1,
    or less where another match is nearer. ``chamfer`` matches each element with its nearest in the other
    set, both ways, and cannot see how often an element is repeated; ``hungarian`` matches one to one. Features
    of larger numbers weigh more. Sets of different sizes are never in one mode.

    Without a `threshold` it is chosen so:

    1. The spacing s of a set is the diagonal of the box around its n elements (root mean square over features)
       times n^(-1/D), about the distance of neighbours when elements fill the box. The median is used, over
       sets with two different elements at least. If there are none, the root mean square of all coordinates
       takes its place: one-element sets need a threshold by hand where the origin is far off or means nothing.
    2. Take the merge distances of single linkage that lie strictly between 0.05 s and 0.5 s, from all sizes
       together, and both ends with them. The largest ratio of two neighbours in that sorted list is the gap,
       the upper one of several equal gaps.
    3. The threshold is the geometric mean of the two sides of the gap.

    So predictions within 0.05 s are always joined, and groups more than 0.5 s apart never are. With nothing in
    between, the threshold is 0.16 s.

    Where answers form a continuum, such as polygons at any rotation, modes say how densely it was sampled and
    no more: a ring of predictions is one mode when K is large, as each has a near neighbour, and up to K modes
    when K is small. A chain of predictions between two answers joins them in the same way. The other way round,
    predictions so noisy that hardly two are within about 0.16 s become many modes of one member.

    Args:
        sets: K sets (n_k, D); sizes may differ, a set may be empty.
        energies: (K,), lower is more plausible.
        distance: the set distance that is compared.
        threshold: the largest distance of near neighbours, in the units of the sets.

    Raises:
        DataError: no sets, different features, NaN or infinity, or not one energy for each set.
        SettingsError: an unknown distance, or a negative threshold.
    """
    _check_choices(distance, threshold)
    scores = None if energies is None else _checked_energies(energies, len(sets))
    sets = [as_set(item, f"set {index}") for index, item in enumerate(sets)]
    batch = _padded(sets)
    distances = _distances(batch, distance)
    if threshold is None:
        threshold = _automatic_threshold(_merges(distances), _spacing(batch))
    # Paths of near neighbours are what single linkage joins.
    near = (distances <= threshold) & np.isfinite(distances)
    count, labels = connected_components(near, directed=False)
    modes = [_mode(sets, scores, distances, np.flatnonzero(labels == label)) for label in range(count)]
    return sorted(modes, key=lambda mode: (-mode.fraction, 0.0 if scores is None else mode.energy, mode.members))


def _distances(batch: SetBatch, distance: Distance) -> Array:
    """Distances (K, K) of all sets; infinite between different sizes, so that padding is never compared."""
    sizes = batch.sizes.numpy()
    distances = np.full((len(sizes), len(sizes)), np.inf)
    for size in np.unique(sizes):
        indices = np.flatnonzero(sizes == size)
        values = batch.elements[torch.from_numpy(indices), : int(size)]
        distances[np.ix_(indices, indices)] = squareform(_pair_distances(values, distance))
    return distances


def _merges(distances: Array) -> Array:
    """The distances at which single linkage merges; between different sizes they are too large to matter."""
    if len(distances) < 2:
        return np.zeros(0)
    finite = np.minimum(distances, np.finfo(distances.dtype).max)  # scipy takes no infinity
    return linkage(squareform(finite), method="single")[:, 2]


def _pair_distances(values: Float[Tensor, "m n d"], distance: Distance) -> Array:
    """Root mean square distances of all m(m-1)/2 pairs, in scipy's order."""
    pairs = torch.combinations(torch.arange(len(values)))
    if values[0].numel() == 0:
        return np.zeros(len(pairs))
    # Differences of the scaled numbers stay below one, where the element distance is a square and not linear.
    unit = 2 * float(values.abs().amax()) or 1.0
    scaled, measure = values / unit, SET_DISTANCES[distance]
    at_once = max(1, NUMBERS_AT_ONCE // (values.shape[1] * values[0].numel()))
    squares = [measure(scaled[left], scaled[right]) for left, right in (p.unbind(1) for p in pairs.split(at_once))]
    return unit * (SQUARES[distance] * torch.cat(squares)).sqrt().numpy()


def _spacing(batch: SetBatch) -> float:
    """The median spacing of elements, step 1 of the rule in `group_modes`."""
    sets = batch.to_ragged()
    boxes = [_root_mean_square(item.amax(dim=0) - item.amin(dim=0)) for item in sets if len(item)]
    sizes = [len(item) for item in sets if len(item)]
    spacings = [box * n ** (-1 / batch.features) for box, n in zip(boxes, sizes, strict=True) if box > 0]
    return float(np.median(spacings)) if spacings else _root_mean_square(torch.cat(sets))


def _root_mean_square(values: Tensor) -> float:
    return float(values.square().mean().sqrt()) if values.numel() else 0.0


def _automatic_threshold(merges: Array, spacing: float) -> float:
    """The geometric mean of the two sides of the widest gap, steps 2 and 3 of the rule in `group_modes`."""
    low, high = ALWAYS_NEAR * spacing, NEVER_NEAR * spacing
    if low == 0:
        return 0.0  # every coordinate is zero: equal sizes are equal sets
    between = np.sort(merges[(merges > low) & (merges < high)])
    levels = np.log(np.concatenate([[low], between, [high]]))
    gaps = np.diff(levels)
    below = int(np.flatnonzero(gaps >= gaps.max() - SAME_GAP)[-1])
    return math.exp((levels[below] + levels[below + 1]) / 2)


def _mode(sets: Sequence[Tensor], scores: list[float] | None, distances: Array, indices: Array) -> Mode:
    members = tuple(indices.tolist())
    if scores is None:
        best = members[int(distances[np.ix_(indices, indices)].sum(axis=1).argmin())]
    else:
        best = min(members, key=scores.__getitem__)
    return Mode(sets[best], len(members) / len(sets), math.nan if scores is None else scores[best], members)


def _padded(sets: Sequence[Tensor]) -> SetBatch:
    """All sets as one batch in double precision on the CPU: K is small, and clustering is done there."""
    batch = SetBatch.from_ragged(sets, features=None if any(len(item) for item in sets) else 0)
    return SetBatch(batch.elements.cpu().double(), batch.mask.cpu())


def _checked_energies(energies: Tensor, samples: int) -> list[float]:
    if energies.shape != (samples,):
        raise DataError(f"Expected one energy for each of {samples} sets, got shape {tuple(energies.shape)}.")
    finite = torch.isfinite(energies)
    if not finite.all():
        index = int((~finite).nonzero()[0])
        raise DataError(f"The energy of set {index} is NaN or infinity. Leave that set out.")
    return energies.tolist()


def _check_choices(distance: str, threshold: float | None) -> None:
    if distance not in SET_DISTANCES:
        raise SettingsError(f"distance must be one of {', '.join(SET_DISTANCES)}, got {distance!r}.")
    if threshold is not None and not threshold >= 0:  # NaN is refused as well
        raise SettingsError(f"threshold must be 0 or more, got {threshold}. Leave it out to have one chosen.")
