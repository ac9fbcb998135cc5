"""The score of Polygons."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from desp.data.polygons import polygon
from desp.distances import nearest_hungarian
from desp.metrics.base import Metric

ROTATIONS = 256
# (sets at once) x ROTATIONS x 8 x 8 pair distances stay within some 30 MB.
SETS_AT_ONCE = 200

POLYGON_SCORE = Metric("score", 1e-5, "lower", "Hungarian distance to the nearest true polygon")
POLYGON_MEDIAN = Metric("score_median", 1e-5, "lower", "median of that distance")


def polygon_score(sets: Float[Tensor, "b n 2"], corners: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
    """The smallest Hungarian distance to 256 true polygons, rotated evenly over the full circle.

    Args:
        sets: zero-padded predictions.
        corners: the number of corners each should have.
    """
    turns = torch.arange(ROTATIONS, device=sets.device, dtype=sets.dtype) * (2 * math.pi / ROTATIONS)
    scores = torch.empty(len(sets), dtype=sets.dtype, device=sets.device)
    for count in corners.unique().tolist():
        candidates = polygon(torch.full((ROTATIONS,), count, device=sets.device), turns, sets.shape[1])
        for rows in (corners == count).nonzero().squeeze(1).split(SETS_AT_ONCE):
            scores[rows] = nearest_hungarian(sets[rows], candidates)
    return scores
