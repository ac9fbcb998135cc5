"""Distances between sets: pure functions (B, N, D), (B, M, D) -> (B,)."""

from collections.abc import Callable
from functools import partial

from torch import Tensor

from desp.distances.box_matching import match_boxes
from desp.distances.chamfer import chamfer, chamfer_of_equal_sizes
from desp.distances.hungarian import assign, hungarian, hungarian_of_sets, nearest_hungarian
from desp.distances.pairwise import aligned_distance, huber_pairs
from desp.settings import Distance

SET_DISTANCES: dict[Distance, Callable[[Tensor, Tensor], Tensor]] = {
    "chamfer": chamfer,
    "hungarian": hungarian,
}

SET_LOSSES: dict[Distance, Callable[[Tensor, Tensor], Tensor]] = {
    "chamfer": chamfer,
    "hungarian": partial(hungarian, nan_is_error=False),
}
"""The same as losses: of NaN they are NaN, which training notices, and says where."""

__all__ = [
    "SET_DISTANCES",
    "SET_LOSSES",
    "aligned_distance",
    "assign",
    "chamfer",
    "chamfer_of_equal_sizes",
    "huber_pairs",
    "hungarian",
    "hungarian_of_sets",
    "match_boxes",
    "nearest_hungarian",
]
