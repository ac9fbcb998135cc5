"""Are predicted sets distributed as real ones are? Scores of whole collections of sets.

A score of single predictions is best when all of them are the same good set. The scores here are not: they
compare collections, through matrices of the set distance of every pair, see `pairwise_distances`.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from desp.distances import SET_DISTANCES
from desp.errors import DataError
from desp.metrics.base import Metric
from desp.sets import SetBatch
from desp.settings import Distance, require_setting

# Element differences held at once: 16 MB in single precision, a few times over inside a distance. Four times as
# many no longer fit the caches of a CPU and take nearly twice as long.
VALUES_AT_ONCE = 2**22

DISTRIBUTION_METRICS = (
    Metric("nearest_neighbour_accuracy", 1.0, "near 0.5", "1-NN accuracy, real against predicted; 0.5 is perfect"),
    Metric("coverage", 1.0, "higher", "fraction of real sets that are the nearest real set of a prediction"),
    Metric("minimum_matching_distance", 1e-5, "lower", "distance of real sets to the nearest prediction"),
)


@torch.no_grad()
def pairwise_distances(first: SetBatch, second: SetBatch, distance: Distance) -> Float[Tensor, "a b"]:
    """The set distance of every set of `first` (A, N, D) to every set of `second` (B, M, D).

    Sets are compared as tasks score them: absent elements are zero vectors that take part, so a wrong size costs
    something and an empty set can be compared like any other. Both batches are padded to the larger of N and M.
    The distance depends on that size a little: matrices that are to be compared need batches of the same one.
    A batch against itself costs half, as the distances are symmetric.

    Args:
        first, second: on the same device.
        distance: chamfer or hungarian.

    Raises:
        DataError: an empty batch, different features or devices, NaN.
        SettingsError: an unknown distance.
    """
    _check_batches(first, second)
    require_setting(distance in SET_DISTANCES, "distance", f"one of {', '.join(SET_DISTANCES)}", distance)
    a, b = (sets.elements for sets in _same_size(first, second))
    at_once = max(1, VALUES_AT_ONCE // max(1, a[0].numel() * b.shape[1]))
    found = torch.zeros(len(a) * len(b), dtype=a.dtype, device=a.device)
    for start in range(0, len(found), at_once):
        pairs = torch.arange(start, min(start + at_once, len(found)), device=a.device)
        if first is second:
            pairs = pairs[pairs // len(b) < pairs % len(b)]
        found[pairs] = SET_DISTANCES[distance](a[pairs // len(b)], b[pairs % len(b)])
    matrix = found.view(len(a), len(b))
    return matrix + matrix.T if first is second else matrix


def coverage(distances: Float[Tensor, "real predicted"]) -> float:
    """The fraction of real sets that are the nearest real one of some predicted set (Achlioptas et al. 2018).

    Low where modes are missing; poor predictions do not lower it. Real sets that are equally near to a prediction,
    such as exact copies of each other, are all covered by it. Two samples of the same distribution do not reach 1:
    compare with the coverage of other real sets.
    """
    nearest = distances == distances.amin(dim=0)
    return float(nearest.any(dim=1).double().mean())


def minimum_matching_distance(distances: Float[Tensor, "real predicted"]) -> float:
    """The distance of a real set to its nearest predicted set, mean over real sets (Achlioptas et al. 2018)."""
    return float(distances.amin(dim=1).double().mean())


def nearest_neighbour_accuracy(
    real_real: Float[Tensor, "real real"],
    predicted_predicted: Float[Tensor, "predicted predicted"],
    real_predicted: Float[Tensor, "real predicted"],
) -> float:
    """How often the nearest other set tells whether a set is real or predicted (Lopez-Paz and Oquab 2017).

    The leave-one-out accuracy of a 1-nearest-neighbour classifier over all sets, as in Yang et al. 2019. For equal
    numbers of real and predicted sets, 0.5 is perfect and 1 is the worst; well below 0.5, predictions are copies
    of the real sets themselves.

    Where several other sets are equally near, the share of them with the right label counts: one real and one
    predicted neighbour count one half. This is the mean over random choices among them, so for n real and n
    predicted sets of the same distribution the expected value is (n - 1) / (2 n - 1), with or without copies.

    Args:
        real_real, predicted_predicted: distances within; their diagonals are ignored.
        real_predicted: distances between.
    """
    right = torch.cat([_same_label(real_real, real_predicted), _same_label(predicted_predicted, real_predicted.T)])
    return float(right.mean())


def _same_label(within: Float[Tensor, "n n"], between: Float[Tensor, "n m"]) -> Float[Tensor, " n"]:
    """The share of each set's nearest others that have its own label."""
    itself = torch.eye(len(within), dtype=torch.bool, device=within.device)
    within = within.masked_fill(itself, torch.inf)
    nearest = torch.minimum(within.amin(dim=1), between.amin(dim=1)).unsqueeze(1)
    same, other = (within == nearest).sum(dim=1), (between == nearest).sum(dim=1)
    return same.double() / (same + other)


def compare_distributions(real: SetBatch, predicted: SetBatch, distance: Distance) -> dict[str, float]:
    """Score predicted sets (B, M, D) against real ones (A, N, D) by all `DISTRIBUTION_METRICS`.

    Use equal numbers of both, drawn independently. `pairwise_distances` says how sets of different sizes compare.

    Raises:
        DataError: an empty batch, different features or devices, NaN.
        SettingsError: an unknown distance.
    """
    # Padded here, so that distances within and between see the same number of zero vectors.
    real, predicted = _same_size(real, predicted)
    between = pairwise_distances(real, predicted, distance)
    real_real = pairwise_distances(real, real, distance)
    predicted_predicted = pairwise_distances(predicted, predicted, distance)
    return {
        "coverage": coverage(between),
        "minimum_matching_distance": minimum_matching_distance(between),
        "nearest_neighbour_accuracy": nearest_neighbour_accuracy(real_real, predicted_predicted, between),
    }


def _same_size(first: SetBatch, second: SetBatch) -> tuple[SetBatch, SetBatch]:
    """Both batches packed, with absent rows zero, and padded to the larger size and the wider type."""
    size = max(first.max_size, second.max_size)
    dtype = torch.promote_types(first.elements.dtype, second.elements.dtype)
    return _padded(first, size, dtype), _padded(second, size, dtype)


def _padded(sets: SetBatch, size: int, dtype: torch.dtype) -> SetBatch:
    packed, extra = sets.packed(), size - sets.max_size
    return SetBatch(F.pad(packed.elements.to(dtype), (0, 0, 0, extra)), F.pad(packed.mask, (0, extra)))


def _check_batches(first: SetBatch, second: SetBatch) -> None:
    if len(first) == 0 or len(second) == 0:
        raise DataError(f"Expected at least one set on both sides, got {len(first)} and {len(second)}.")
    if first.features != second.features:
        raise DataError(
            f"Elements of both batches must have the same features, got {first.features} and {second.features}. "
            "Leave out those that only one of them has."
        )
    if first.elements.device != second.elements.device:
        raise DataError(
            f"Both batches must be on one device, got {first.elements.device} and {second.elements.device}. "
            "Move one of them with .to(device)."
        )
    for name, sets in (("first", first), ("second", second)):
        broken = (~torch.isfinite(sets.elements)).any(dim=-1) & sets.mask
        if bool(broken.any()):
            index = int(broken.any(dim=1).nonzero()[0])
            raise DataError(f"set {index} of the {name} batch holds NaN or infinity. Remove or repair it.")
