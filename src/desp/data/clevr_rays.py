"""Rays against the objects of CLEVR-like scenes, in closed form.

In its own coordinates an object lies in the cube [-1, 1]³, and is the part of it inside a quadric: a sphere, an
endless cylinder, or for a cube a sphere around it, which changes nothing. One formula therefore serves all shapes,
and no work depends on which they are. Objects are taken one after the other, each in all scenes of the batch:
what is kept for a ray stays small, in the caches of a CPU and in the memory of a GPU. No matrix products are used:
their precision on a GPU may be set lower than geometry needs.
"""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Float, Int
from torch import Tensor

from desp.constants import constant
from desp.data.clevr_scenes import Scenes

Scalars = Float[Tensor, "b p"]
Vectors = Float[Tensor, "b 3 p"]
Triple = tuple[Tensor, Tensor, Tensor]

# The quadric of each shape is x² + y² + k z² <= s: these are k and s.
QUADRIC_Z = (1.0, 1.0, 0.0)
QUADRIC_SIZE = (3.01, 1.0, 1.0)
NO_HIT_DISTANCE = 1e4
"""Distance where a ray meets nothing."""
TINY = 1e-6
"""Added to coordinates, so that rays are not exactly parallel to the faces of unrotated cubes."""


@dataclass(frozen=True)
class Start:
    """Where rays start, in the coordinates of an object.

    Attributes:
        x, y, z: the coordinates.
        weighted_z: z times the number k of the quadric.
        outside: how far outside of the quadric this is: x² + y² + k z² - s.
    """

    x: Float[Tensor, "*b q"]
    y: Float[Tensor, "*b q"]
    z: Float[Tensor, "*b q"]
    weighted_z: Float[Tensor, "*b q"]
    outside: Float[Tensor, "*b q"]


@dataclass(frozen=True)
class Solid:
    """One object in each of B scenes, or all objects of all scenes, as numbers for ray casting.

    Attributes:
        x, y, z: the centre; far below the ground where a scene does not have the object.
        scale: one divided by half the extent, see `Scenes.half_extents`.
        cosine, sine: of the rotation, times `scale`.
        quadric_z, quadric_size: k and s of the quadric.
    """

    x: Float[Tensor, "*b 1"]
    y: Float[Tensor, "*b 1"]
    z: Float[Tensor, "*b 1"]
    scale: Float[Tensor, "*b 1"]
    cosine: Float[Tensor, "*b 1"]
    sine: Float[Tensor, "*b 1"]
    quadric_z: Float[Tensor, "*b 1"]
    quadric_size: Float[Tensor, "*b 1"]

    def turn(self, x: Tensor, y: Tensor, z: Tensor) -> Triple:
        """Directions in the object's coordinates."""
        along = torch.addcmul(x * self.cosine, y, self.sine)
        return along, torch.addcmul(y * self.cosine, x, self.sine, value=-1), z * self.scale

    def locate(self, x: Tensor, y: Tensor, z: Tensor) -> Triple:
        """Points in the object's coordinates."""
        return self.turn(x - self.x, y - self.y, z - self.z)

    def start(self, x: Tensor, y: Tensor, z: Tensor) -> Start:
        """Rays that start at these points."""
        x, y, z = self.locate(x, y, z)
        weighted_z = self.quadric_z * z
        outside = torch.addcmul(torch.addcmul(torch.addcmul(-self.quadric_size, x, x), y, y), weighted_z, z)
        return Start(x, y, z, weighted_z, outside)


@dataclass(frozen=True)
class Solids:
    """The N objects of scenes: together, (B, N, 1) numbers, and one by one, (B, 1) numbers."""

    together: Solid
    each: tuple[Solid, ...]

    def __len__(self) -> int:
        return len(self.each)

    def starts(self, origins: Float[Tensor, "b 3 q"]) -> list[Start]:
        """Rays that start at these points, in the coordinates of each object."""
        x, y, z = origins.unsqueeze(2).unbind(1)
        start = self.together.start(x, y, z)
        columns = zip(*(getattr(start, field.name).unbind(1) for field in fields(start)), strict=True)
        return [Start(*column) for column in columns]


def solids_of(scenes: Scenes) -> Solids:
    """The objects of scenes."""
    scale = 1 / scenes.half_extents()
    quadric = [constant(each, scenes.device, torch.float32)[scenes.shapes] for each in (QUADRIC_Z, QUADRIC_SIZE)]
    centres = torch.where(scenes.mask.unsqueeze(-1), scenes.positions, -NO_HIT_DISTANCE).unbind(-1)
    numbers = (*centres, scale, scale * scenes.rotations.cos(), scale * scenes.rotations.sin(), *quadric)
    columns = [each.unsqueeze(-1) for each in numbers]
    rows = zip(*(each.unbind(1) for each in columns), strict=True)
    return Solids(Solid(*columns), tuple(Solid(*row) for row in rows))


@dataclass(frozen=True)
class Crossing:
    """Where rays cross an object, as multiples of the ray's direction.

    Where a ray is exactly parallel to a face, numbers may be NaN: comparisons are false, and nothing is met.

    Attributes:
        enter, leave: the ray is inside between them; nowhere if `leave` < `enter`.
        discriminant: of the ray against the quadric, the square of half the way inside; negative where it misses.
        squared_length: of the direction, in the object's coordinates.
    """

    enter: Scalars
    leave: Scalars
    discriminant: Scalars
    squared_length: Scalars


def cross(solid: Solid, start: Start, x: Scalars, y: Scalars, z: Scalars) -> Crossing:
    """Where rays cross an object; x, y and z are their directions in its coordinates. Starts may be (B, 1)."""
    before, leave = _slab(start.x, x)
    for from_side, side in ((start.y, y), (start.z, z)):
        before_side, leave_side = _slab(from_side, side)
        before, leave = torch.minimum(before, before_side), torch.minimum(leave, leave_side)
    z_squared = z * z
    level = torch.addcmul(x * x, y, y)
    along = torch.addcmul(torch.addcmul(start.weighted_z * z, start.x, x), start.y, y)
    inverse = torch.addcmul(level, solid.quadric_z, z_squared).reciprocal_()
    middle = along * inverse
    discriminant = torch.addcmul(middle * middle, start.outside, inverse, value=-1)
    half = discriminant.clamp(min=0).sqrt_()
    enter = torch.minimum(before, middle + half).neg_()
    return Crossing(enter, torch.minimum(leave, half - middle), discriminant, level + z_squared)


def _slab(start: Float[Tensor, "b q"], step: Scalars) -> tuple[Scalars, Scalars]:
    """Where rays are between -1 and 1 in one coordinate: from minus the first number to the second."""
    inverse = step.reciprocal()
    middle, half = start * inverse, inverse.abs_()
    return half + middle, half - middle


def entry(solid: Solid, start: Start, directions: Vectors) -> Scalars:
    """Where rays meet an object from outside, as multiples of the ray's direction; else `NO_HIT_DISTANCE`."""
    crossing = cross(solid, start, *solid.turn(*directions.unbind(1)))
    met = (crossing.leave > crossing.enter) & (crossing.enter > 0) & (crossing.discriminant > 0)
    return torch.where(met, crossing.enter, NO_HIT_DISTANCE)


@dataclass(frozen=True)
class Hits:
    """What rays meet first.

    Attributes:
        index: the object's row; N is the ground.
        distance: as a multiple of the ray's direction; `NO_HIT_DISTANCE` for rays that go up and meet nothing.
    """

    index: Int[Tensor, "b p"]
    distance: Scalars


def first_hits(solids: Solids, origins: Float[Tensor, "b 3 q"], directions: Vectors) -> Hits:
    """The first object, or else the ground, that rays meet; Q is 1 if all rays of a scene have one origin."""
    fall = directions[:, 2]
    nearest = torch.where(fall < 0, -origins[:, 2] / fall, NO_HIT_DISTANCE).clamp(max=NO_HIT_DISTANCE)
    index = torch.full_like(fall, len(solids), dtype=torch.int64)
    directions = directions + TINY
    for row, (solid, start) in enumerate(zip(solids.each, solids.starts(origins), strict=True)):
        distance = entry(solid, start, directions)
        index.masked_fill_(distance < nearest, row)
        nearest = torch.minimum(nearest, distance)
    return Hits(index, nearest)


def exposure(
    solids: Solids,
    lights: Float[Tensor, "b l 3"],
    radius: float,
    points: Vectors,
    index: Int[Tensor, "b p"],
) -> Float[Tensor, "b k p"]:
    """The share of each light that is visible from points on the objects `index`, and last of the open sky.

    Lights are spheres of some radius. Penumbra: the depth of the ray below the object's surface, relative to
    the width of the light's cone there, tells which share of the light is covered. Rays that miss an object have
    negative depth. Objects are convex, and never cover a light where their own surface faces it. Of the sky, each
    covers as much as a sphere in its place covers above level ground.

    Returns:
        K = L + 1 shares for each point.
    """
    visible = [torch.ones_like(points[:, 0]) for _ in range(lights.shape[1] + 1)]
    starts = [solids.starts(light.unsqueeze(-1) - TINY) for light in lights.unbind(1)]
    for row, solid in enumerate(solids.each):
        x, y, z = solid.locate(*points.unbind(1))
        other = index != row
        inverse_width = 1 / (4 * radius * solid.scale)
        for light in range(lights.shape[1]):
            start = starts[light][row]
            crossing = cross(solid, start, x - start.x, y - start.y, z - start.z)
            share = torch.where(other & (crossing.enter < 1), _uncovered(crossing, inverse_width), 1.0)
            visible[light] = visible[light] * share
        squared = torch.addcmul(torch.addcmul(x * x, y, y), z, z)
        visible[-1] = visible[-1] * (1 - squared.clamp(min=1).pow(-1.5) * other)
    return torch.stack(visible, dim=1)


def _uncovered(crossing: Crossing, inverse_width: Float[Tensor, "b 1"]) -> Scalars:
    """The share of lights, each at the start of its ray, that an object leaves visible from the ray's point at 1.

    Args:
        crossing: of the ray.
        inverse_width: one divided by twice the light's diameter, in the object's coordinates.
    """
    chord = (crossing.leave - crossing.enter).mul_(crossing.squared_length.sqrt())
    depth = torch.minimum(chord, crossing.discriminant * crossing.squared_length)
    return depth.mul_(-inverse_width).div_(1 - crossing.enter).add_(0.5).clamp_(0, 1)
