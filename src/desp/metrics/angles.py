"""Do predicted polygons point in all directions?"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from desp.data.polygons import CENTRE
from desp.metrics.base import Metric

KUIPER = Metric(
    "kuiper", 1.0, "lower", "Kuiper's statistic of rotations against uniform ones, for the worst number of corners"
)


def polygon_turn(polygons: Float[Tensor, "b n 2"]) -> Float[Tensor, " b"]:
    """The rotation of polygons with exactly n corners, as a share of the symmetry angle 2 pi / n: in [0, 1).

    n times the angle of every corner is the same direction, so the mean of these directions is taken; single
    corners may be off without tearing the result.
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
