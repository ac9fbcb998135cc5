"""The score of Polygons, and whether predicted polygons point in all directions."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from desp.data.polygons import CENTRE, polygon
from desp.distances import nearest_hungarian
from desp.metrics.base import Metric

ROTATIONS = 256
# (sets at once) x ROTATIONS x 8 x 8 pair distances stay within some 30 MB.
SETS_AT_ONCE = 200

_SCORE = "Hungarian distance to the nearest true polygon"
POLYGON_SCORE = Metric("score", 1e-5, "lower", _SCORE)
POLYGON_MEDIAN = Metric("score_median", 1e-5, "lower", f"median over predictions of the {_SCORE}")
KUIPER = Metric(
    "kuiper", 1.0, "lower", "Kuiper's statistic of rotations against uniform ones, for the worst number of corners"
)


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


def polygon_rotation(polygons: Float[Tensor, "b n 2"]) -> Float[Tensor, " b"]:
    """The rotation of polygons with exactly n corners, as a share of the symmetry angle 2 pi / n: in [0, 1).

    n times the angle of every corner is the same direction, so the mean of these directions is taken; single
    bad corners then change it little.
    """
    corners = polygons.shape[1]
    offset = polygons - CENTRE
    angle = torch.atan2(offset[..., 1], offset[..., 0]) * corners
    mean = torch.atan2(angle.sin().mean(dim=1), angle.cos().mean(dim=1))
    return (mean / (2 * math.pi)) % 1.0


def kuiper(values: Float[Tensor, " b"]) -> float:
    """Kuiper's statistic of values in [0, 1) against the uniform distribution, which has no start or end.

    The largest excess of the empirical over the uniform distribution plus the largest shortfall. About
    1.2 / sqrt(B) for values that are uniform, 1 for values that are all the same.
    """
    ordered = values.double().sort().values
    count = len(ordered)
    ranks = torch.arange(count, device=values.device, dtype=torch.float64)
    above = ((ranks + 1) / count - ordered).max()
    below = (ordered - ranks / count).max()
    return float(above + below)
