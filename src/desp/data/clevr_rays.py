"""Rays against the objects of CLEVR-like scenes, in closed form.

In its own coordinates an object lies in the cube [-1, 1]³, and is the part of it inside a quadric: a sphere, an
endless cylinder, or for a cube a sphere around it, which changes nothing. One formula therefore serves all shapes,
and no work depends on which they are. Objects are taken one after the other, each in all scenes of the batch:
what is kept for a ray stays small, in the caches of a CPU and in the memory of a GPU. No matrix products are used:
their precision on a GPU may be set lower than geometry needs.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from desp.constants import constant
from desp.data.clevr_scenes import Scenes

Numbers = Float[Tensor, "b p"]
Vectors = Float[Tensor, "b 3 p"]
Triple = tuple[Tensor, Tensor, Tensor]

# For each shape x² + y² + k z² <= s: k, and s.
QUADRIC_Z = (1.0, 1.0, 0.0)
QUADRIC_SIZE = (3.01, 1.0, 1.0)
FAR = 1e4
"""The distance to what is not there."""
TINY = 1e-6
"""Added to coordinates, so that rays are not exactly parallel to faces of objects that stand straight."""


@dataclass(frozen=True)
class Solid:
    """One object in each of B scenes, as what rays need of it.

    Attributes:
        centre: of the object; far below the ground where a scene does not have it.
        scale: one divided by half its extent, see `Scenes.extents`.
        cosine, sine: of its rotation, times `scale`.
        quadric_z, quadric_size: its quadric.
    """

    centre: Float[Tensor, "b 3 1"]
    scale: Float[Tensor, "b 1"]
    cosine: Float[Tensor, "b 1"]
    sine: Float[Tensor, "b 1"]
    quadric_z: Float[Tensor, "b 1"]
    quadric_size: Float[Tensor, "b 1"]

    def turn(self, vectors: Vectors) -> Triple:
        """Directions in the object's coordinates."""
        x, y, z = vectors.unbind(1)
        along = torch.addcmul(x * self.cosine, y, self.sine)
        return along, torch.addcmul(y * self.cosine, x, self.sine, value=-1), z * self.scale

    def locate(self, points: Vectors) -> Triple:
        """Points in the object's coordinates."""
        return self.turn(points - self.centre)


def solids_of(scenes: Scenes) -> tuple[Solid, ...]:
    """The N objects of scenes."""
    scale = 1 / scenes.extents()
    quadric = [constant(each, scenes.device, torch.float32)[scenes.shapes] for each in (QUADRIC_Z, QUADRIC_SIZE)]
    numbers = [scale, scale * scenes.rotations.cos(), scale * scenes.rotations.sin(), *quadric]
    centres = torch.where(scenes.mask.unsqueeze(-1), scenes.positions, -FAR)
    columns = [each.unsqueeze(-1).unbind(1) for each in (centres, *numbers)]
    return tuple(Solid(*column) for column in zip(*columns, strict=True))


@dataclass(frozen=True)
class Crossing:
    """Where rays cross an object, as multiples of the ray's direction.

    Where a ray is exactly parallel to a face, numbers may be NaN: comparisons are false, and nothing is met.

    Attributes:
        enter, leave: the ray is inside between them; nowhere if `leave` < `enter`.
        quadric: the square of half the way inside the quadric; negative where the ray misses it.
        length: squared length of the direction in the object's coordinates.
    """

    enter: Numbers
    leave: Numbers
    quadric: Numbers
    length: Numbers


def cross(solid: Solid, start: Triple, step: Triple) -> Crossing:
    """Where rays cross an object; starts and steps are in its coordinates, and may be one for all rays, (B, 1)."""
    (from_x, from_y, from_z), (x, y, z) = start, step
    before, leave = _slab(from_x, x)
    for from_side, side in ((from_y, y), (from_z, z)):
        before_side, leave_side = _slab(from_side, side)
        before, leave = torch.minimum(before, before_side), torch.minimum(leave, leave_side)
    upright = z * z
    level = torch.addcmul(x * x, y, y)
    along = torch.addcmul(torch.addcmul((solid.quadric_z * from_z) * z, from_x, x), from_y, y)
    outside = from_x * from_x + from_y * from_y + solid.quadric_z * from_z * from_z - solid.quadric_size
    inverse = torch.addcmul(level, solid.quadric_z, upright).reciprocal()
    middle = along * inverse
    quadric = torch.addcmul(middle * middle, outside, inverse, value=-1)
    half = quadric.clamp(min=0).sqrt()
    enter = -torch.minimum(before, middle + half)
    return Crossing(enter, torch.minimum(leave, half - middle), quadric, level + upright)


def _slab(start: Float[Tensor, "b q"], step: Numbers) -> tuple[Numbers, Numbers]:
    """Where rays are between -1 and 1 in one coordinate: from minus the first number to the second."""
    inverse = step.reciprocal()
    middle, half = start * inverse, inverse.abs()
    return half + middle, half - middle


def entry(solid: Solid, start: Triple, step: Triple) -> Numbers:
    """Where rays meet an object from outside, as multiples of the ray's direction; `FAR` where they do not."""
    crossing = cross(solid, start, step)
    met = (crossing.leave > crossing.enter) & (crossing.enter > 0) & (crossing.quadric > 0)
    return torch.where(met, crossing.enter, FAR)


@dataclass(frozen=True)
class Hits:
    """What rays meet first.

    Attributes:
        index: the object's row; N is the ground.
        distance: as a multiple of the ray's direction; `FAR` for rays that go up and meet nothing.
    """

    index: Int[Tensor, "b p"]
    distance: Numbers


def first_hits(solids: tuple[Solid, ...], origins: Float[Tensor, "b 3 q"], directions: Vectors) -> Hits:
    """The first object, or else the ground, that rays meet; Q is 1 if all rays of a scene have one origin."""
    fall = directions[:, 2]
    nearest = torch.where(fall < 0, -origins[:, 2] / fall, FAR).clamp(max=FAR)
    index = torch.full_like(fall, len(solids), dtype=torch.int64)
    directions = directions + TINY
    for row, solid in enumerate(solids):
        distance = entry(solid, solid.locate(origins), solid.turn(directions))
        index.masked_fill_(distance < nearest, row)
        nearest = torch.minimum(nearest, distance)
    return Hits(index, nearest)


def exposure(
    solids: tuple[Solid, ...],
    lights: Float[Tensor, "b l 3"],
    radius: float,
    points: Vectors,
    index: Int[Tensor, "b p"],
) -> Float[Tensor, "b k p"]:
    """The share of each light that is visible from points on the objects `index`, and last of the open sky.

    Lights are spheres of some radius. How deep the ray from a light's middle goes into an object, against the
    light's width as it is seen through it, tells how much is covered. Rays that miss an object have negative
    depth. Objects are convex, and never cover a light where their own surface faces it. Of the sky, each covers as
    much as a sphere in its place covers above level ground.

    Returns: K = L + 1 shares a point.
    """
    visible = [torch.ones_like(points[:, 0]) for _ in range(lights.shape[1] + 1)]
    for row, solid in enumerate(solids):
        places, starts = solid.locate(points), solid.locate(lights.transpose(1, 2))
        other = index != row
        for light in range(lights.shape[1]):
            x, y, z = (each[:, light : light + 1] - TINY for each in starts)
            crossing = cross(solid, (x, y, z), (places[0] - x, places[1] - y, places[2] - z))
            visible[light] = visible[light] * (
                1 - _covered(crossing, radius * solid.scale) * (other & (crossing.enter < 1))
            )
        squared = torch.addcmul(torch.addcmul(places[0] * places[0], places[1], places[1]), places[2], places[2])
        visible[-1] = visible[-1] * (1 - squared.clamp(min=1).pow(-1.5) * other)
    return torch.stack(visible, dim=1)


def _covered(crossing: Crossing, radius: Float[Tensor, "b 1"]) -> Numbers:
    """The share of lights, each at the start of its ray, that an object covers from the ray's point at 1."""
    length = crossing.length.sqrt()
    depth = torch.minimum((crossing.leave - crossing.enter) * length, crossing.quadric * crossing.length)
    width = (4 * radius * (1 - crossing.enter)).clamp(min=1e-3)
    return (0.5 + depth / width).clamp(0, 1).nan_to_num(0.0)
