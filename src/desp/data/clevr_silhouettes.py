"""Where the objects of CLEVR-like scenes appear in the image, and how much of them is visible."""

from dataclasses import dataclass
from itertools import product

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from desp.constants import constant
from desp.data.clevr_boxes import HEIGHT, SHAPES, WIDTH
from desp.data.clevr_rays import NO_HIT_DISTANCE, Vectors, entry, solids_of
from desp.data.clevr_scenes import FOCAL_LENGTH, Scenes, camera_axes, project

MIN_PIXELS = 200
"""Visible pixels that every object needs, in an image of 480 x 320."""


def view_directions(scenes: Scenes, places: Float[Tensor, "b p 2"]) -> Vectors:
    """Directions from the camera through places of the image, which go from (0, 0) to (1, 1)."""
    right, up, forward = camera_axes(scenes.camera).unsqueeze(-1).unbind(1)
    across = (places[..., 0] - 0.5) / FOCAL_LENGTH
    down = (places[..., 1] - 0.5) * (HEIGHT / WIDTH / FOCAL_LENGTH)
    return forward + across.unsqueeze(1) * right - down.unsqueeze(1) * up


def whole_boxes(scenes: Scenes) -> Float[Tensor, "b n 4"]:
    """Boxes x1 y1 x2 y2 of whole objects in the image, from 0 to 1, hidden parts included; zeros for no object."""
    radii = scenes.half_extents()
    height = F.pad(radii.unsqueeze(-1), (2, 0))
    low, high = scenes.positions - height, scenes.positions + height
    circles = torch.stack([_extremes(scenes, each, radii, flat=True) for each in (low, high)])
    cylinder = torch.cat([circles[..., :2].amin(0), circles[..., 2:].amax(0)], dim=-1)
    sphere = _extremes(scenes, scenes.positions, radii, flat=False)
    shape = scenes.shapes.unsqueeze(-1)
    boxes = torch.where(shape == SHAPES.index("sphere"), sphere, cylinder)
    boxes = torch.where(shape == SHAPES.index("cube"), _cube_boxes(scenes), boxes)
    return boxes.clamp(0, 1) * scenes.mask.unsqueeze(-1)


_CORNERS = tuple(product((-1.0, 1.0), repeat=3))


def _cube_boxes(scenes: Scenes) -> Float[Tensor, "b n 4"]:
    """Boxes of cubes: those of their corners."""
    corners = constant(_CORNERS, scenes.device, torch.float32)
    cosine, sine = scenes.rotations.cos().unsqueeze(-1), scenes.rotations.sin().unsqueeze(-1)
    x, y, z = corners.unbind(-1)
    offsets = torch.stack([cosine * x - sine * y, sine * x + cosine * y, z.expand_as(cosine * x)], dim=-1)
    points = scenes.positions.unsqueeze(2) + scenes.half_extents()[..., None, None] * offsets
    seen = project(points.flatten(1, 2), scenes.camera).unflatten(1, points.shape[1:3])
    return torch.cat([seen.amin(2), seen.amax(2)], dim=-1)


def _extremes(
    scenes: Scenes, centres: Float[Tensor, "b n 3"], radii: Float[Tensor, "b n"], flat: bool
) -> Float[Tensor, "b n 4"]:
    """Boxes of spheres, or of level circles if `flat`.

    A column u of the image is a plane through the camera with the normal f · axis - u · forward. At the ends of a
    box that plane touches: the squared product of its normal and the centre is the squared radius times the
    squared length of the normal, or of its level part for a circle. This is quadratic in u; so it is with rows.
    """
    axes = camera_axes(scenes.camera)
    offset = (centres - scenes.camera.unsqueeze(1)).unsqueeze(2) * axes.unsqueeze(1)
    depth, squared = offset[:, :, 2].sum(-1), radii * radii
    part = axes[..., :2] if flat else axes
    forward = part[:, 2]
    ends = []
    for axis, focal in ((0, FOCAL_LENGTH), (1, FOCAL_LENGTH * WIDTH / HEIGHT)):
        of_axis, both, of_forward = (
            (a * b).sum(-1, keepdim=True)
            for a, b in ((part[:, axis], part[:, axis]), (part[:, axis], forward), (forward, forward))
        )
        place = offset[:, :, axis].sum(-1)
        quadratic = depth * depth - squared * of_forward
        linear = place * depth - squared * both
        constant_term = place * place - squared * of_axis
        root = (linear * linear - quadratic * constant_term).clamp(min=0).sqrt()
        ends.append((focal * (linear - root) / quadratic, focal * (linear + root) / quadratic))
    (left, right), (bottom, top) = ends
    return torch.stack([0.5 + left, 0.5 - top, 0.5 + right, 0.5 - bottom], dim=-1)


@dataclass(frozen=True)
class Visibility:
    """What is visible of objects.

    Attributes:
        boxes: of the whole object, clipped to the image.
        share: visible area divided by the area that it would cover alone.
        pixels: visible area, in pixels of an image of 480 x 320.
    """

    boxes: Float[Tensor, "b n 4"]
    share: Float[Tensor, "b n"]
    pixels: Float[Tensor, "b n"]


def visibility(scenes: Scenes, grid: int) -> Visibility:
    """See what is visible, by `grid` x `grid` rays into the box of each object."""
    boxes = whole_boxes(scenes)
    count = boxes.shape[1]
    marks = (torch.arange(grid, device=scenes.device) + 0.5) / grid
    cells = torch.stack(torch.meshgrid(marks, marks, indexing="xy"), dim=-1).view(-1, 2)
    size = boxes[..., 2:] - boxes[..., :2]
    places = boxes[..., None, :2] + cells * size.unsqueeze(2)
    directions, solids = view_directions(scenes, places.flatten(1, 2)), solids_of(scenes)
    starts = solids.starts(scenes.camera.unsqueeze(-1))
    pairs = zip(solids.each, starts, strict=True)
    distance = torch.stack([entry(solid, start, directions) for solid, start in pairs], dim=1)
    distance = distance.unflatten(2, (count, grid * grid))
    own = distance.diagonal(dim1=1, dim2=2).transpose(1, 2)
    alone = own < NO_HIT_DISTANCE
    visible = alone & (own <= distance.amin(1))
    share = visible.sum(-1) / alone.sum(-1).clamp(min=1)
    pixels = visible.float().mean(-1) * size.prod(-1) * (WIDTH * HEIGHT)
    return Visibility(boxes, share, pixels)


def keep_visible(scenes: Scenes, grid: int) -> Scenes:
    """The scenes without objects that have fewer than `MIN_PIXELS` visible pixels."""
    return scenes.keep(scenes.mask & (visibility(scenes, grid).pixels >= MIN_PIXELS))
