"""Axis-aligned boxes: conversions, and intersection over union (IoU)."""

import torch
from jaxtyping import Float
from torch import Tensor

# Normalised boxes may leave their image a little; those that reach farther are in pixels.
FARTHEST_NORMALISED = 1.5


def box_iou(a: Float[Tensor, "*#batch n 4"], b: Float[Tensor, "*#batch m 4"]) -> Float[Tensor, "*all n m"]:
    """Intersection over union of every box of `a` with every box of `b`.

    Boxes are corners x1 y1 x2 y2 of any unit, and their area is (x2 - x1)(y2 - y1): no pixel is added. Dimensions
    in front are broadcast. The IoU is 0 where the union has no area or an infinite one, and where one of both is
    no box: a negative width or height, or NaN. Gradients are finite there if all corners are.
    """
    first, second = a.unsqueeze(-2), b.unsqueeze(-3)
    width, height = (_shared_length(first, second, axis) for axis in (0, 1))
    shared = width * height
    union = _area(first) + _area(second) - shared
    # A box of negative size shares nothing, as the clamp sees to; with NaN the union is NaN, which is not above 0.
    counted = (union > 0) & torch.isfinite(union)
    # Not only the quotient: the gradient of what is left out must be zero, not NaN.
    return torch.where(counted, shared, 0.0) / torch.where(counted, union, 1.0)


def corners_to_centres(boxes: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 4"]:
    """From corners x1 y1 x2 y2 to centre, width and height: cx cy w h."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return torch.cat([(low + high) / 2, high - low], dim=-1)


def centres_to_corners(boxes: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 4"]:
    """From centre, width and height cx cy w h to corners x1 y1 x2 y2."""
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat([centre - half, centre + half], dim=-1)


def _shared_length(first: Tensor, second: Tensor, axis: int) -> Tensor:
    low = torch.maximum(first[..., axis], second[..., axis])
    return (torch.minimum(first[..., axis + 2], second[..., axis + 2]) - low).clamp(min=0)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
