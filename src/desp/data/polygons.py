"""Polygons: regular polygons at random rotations (paper, section 5.2)."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from desp.constants import constant
from desp.data.base import Batch
from desp.sets import SetBatch, prefix_mask

CENTRE = 0.5
RADIUS = 0.35


def polygon(corners: Int[Tensor, " b"], angle: Float[Tensor, " b"], max_size: int) -> Float[Tensor, "b n 2"]:
    """Regular polygons with the given numbers of corners, turned by `angle` (radians), zero-padded."""
    index = torch.arange(max_size, device=angle.device)
    count = corners.unsqueeze(1)
    direction = angle.unsqueeze(1) + 2 * math.pi * index / count
    points = CENTRE + RADIUS * torch.stack([direction.cos(), direction.sin()], dim=-1)
    return points * (index < count).unsqueeze(-1)


def draw_polygons(batch_size: int, generator: torch.Generator, corners: Sequence[int] = (4, 5, 6, 7, 8)) -> Batch:
    """Draw polygons: the number of corners uniformly, the rotation uniformly; x is the number, one-hot."""
    device = generator.device
    kind = torch.randint(len(corners), (batch_size,), generator=generator, device=device)
    turn = torch.rand(batch_size, generator=generator, device=device)
    sizes = constant(tuple(corners), device, torch.int64)[kind]
    points = polygon(sizes, 2 * math.pi * turn, max(corners))
    presence = prefix_mask(sizes, max(corners))
    return Batch(F.one_hot(kind, len(corners)).float(), SetBatch(points, presence))
