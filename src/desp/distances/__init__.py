"""Distances between sets: pure functions (B, N, D), (B, M, D) -> (B,)."""

from collections.abc import Callable

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

__all__ = [
    "SET_DISTANCES",
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
