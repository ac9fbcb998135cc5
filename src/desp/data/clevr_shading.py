"""How the surfaces of CLEVR-like scenes look: light that falls on them, and what they send to the camera.

Colours are linear until `encode`. The numbers are calibrated on pictures that Blender rendered of such scenes.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from desp.constants import Numbers, constant
from desp.data.clevr_boxes import SHAPES
from desp.data.clevr_rays import NO_HIT_DISTANCE, Scalars, Solids, Vectors, first_hits, solids_of
from desp.data.clevr_scenes import LIGHTS, Scenes

ALBEDO = (
    (0.21, 0.21, 0.21),
    (0.46, 0.082, 0.082),
    (0.10, 0.19, 0.58),
    (0.064, 0.26, 0.040),
    (0.33, 0.18, 0.053),
    (0.34, 0.090, 0.52),
    (0.10, 0.54, 0.54),
    (0.69, 0.64, 0.12),
)
"""Share of light that objects return, in the order of `COLOURS`."""
GROUND = (0.523, 0.520, 0.535)
"""Share of light that the ground returns."""
POWER = ((10.6, 9.8, 8.4), (2.2, 2.4, 3.0), (5.0, 5.0, 4.8))
"""Of the key, fill and back light."""
LIGHT_RADIUS = 0.5
SKY, BOUNCE = (0.255, 0.256, 0.251), (0.24, 0.23, 0.24)
"""Light from everywhere above, and from the ground."""
OCCLUSION = 0.32
"""How much of the light from everywhere is taken away by objects that cover the sky."""
RUBBER, METAL = 0.93, 0.08
"""Diffuse reflectance of rubber and of metal, as a factor on the albedo."""
MIRROR, NEAR = 1.15, 0.06
"""Specular reflectance of metal, as a factor on the albedo, and the distance of a reflected point at which its
reflection is faded to half: what is nearer lies in the object's own shadow."""
HORIZON, FADE = (0.10, 0.10, 0.095), 1.5
"""What metal mirrors where there is neither the ground nor an object, and how that fades upwards."""
GLINT, SHARPNESS = (5.0, 1.5, 4.1, 6.0), 80.0
"""Strengths of specular highlights in metal, of the three lights and of the sun, and their exponent, as in Phong's
model."""
SUN = (0.412, -0.206, 0.888)
"""Direction of the sun. What it adds to other surfaces is part of `SKY`."""
BEVEL = 0.18
"""How far from an edge normals begin to turn, as a share of half the extent."""


@dataclass(frozen=True)
class World:
    """Scenes, prepared for rays.

    Attributes:
        scenes: the scenes.
        solids: their objects.
        table: for each of the N objects, and at the end the ground, what `meet` needs.
    """

    scenes: Scenes
    solids: Solids
    table: Float[Tensor, "b 11 m"]

    @classmethod
    def of(cls, scenes: Scenes) -> "World":
        """Prepare scenes."""
        solids = solids_of(scenes)
        solid = solids.together
        place = torch.cat([solid.x, solid.y, solid.z, solid.scale, solid.cosine, solid.sine], dim=-1)
        kind = torch.stack([scenes.shapes, scenes.materials], dim=1).float()
        albedo = _numbers(ALBEDO, scenes.device)[scenes.colours].transpose(1, 2)
        rows = torch.cat([place.transpose(1, 2), kind, albedo], dim=1)
        ground = F.pad(_numbers(GROUND, scenes.device), (8, 0))
        return cls(scenes, solids, torch.cat([rows, ground.view(1, -1, 1).expand(len(scenes), -1, -1)], dim=-1))


@dataclass(frozen=True)
class Surface:
    """What rays meet first.

    Attributes:
        points: where.
        normals: outward.
        albedo: colours.
        metal: 1 where it is metal, else 0.
        index: the object's row; N is the ground.
        away: rays that meet nothing.
    """

    points: Vectors
    normals: Vectors
    albedo: Vectors
    metal: Scalars
    index: Int[Tensor, "b p"]
    away: Bool[Tensor, "b p"]


def meet(world: World, origins: Float[Tensor, "b 3 q"], directions: Vectors) -> Surface:
    """What rays meet first; Q is 1 if all rays of a scene have one origin."""
    hits = first_hits(world.solids, origins, directions)
    points = torch.addcmul(origins, hits.distance.unsqueeze(1), directions)
    row = hits.index.unsqueeze(1).expand(-1, world.table.shape[1], -1)
    found = torch.gather(world.table, 2, row)
    ground = hits.index == len(world.solids)
    normals = _normals(points - found[:, :3], found[:, 3:7], ground)
    return Surface(points, normals, found[:, 8:], found[:, 7], hits.index, hits.distance >= NO_HIT_DISTANCE)


def _normals(offsets: Vectors, solid: Float[Tensor, "b 4 p"], ground: Bool[Tensor, "b p"]) -> Vectors:
    """Normals of objects at offsets from their centres, turned a little near edges, as if edges were round."""
    scale, cosine, sine, shape = solid.unbind(1)
    x, y, z = offsets.unbind(1)
    x, y, z = x * cosine + y * sine, y * cosine - x * sine, z * scale
    radius = (x * x + y * y).sqrt()
    outer = F.relu(radius - (1 - BEVEL)) / radius.clamp(min=1e-6)
    sphere, cylinder = shape == SHAPES.index("sphere"), shape == SHAPES.index("cylinder")
    x, y, z = (
        torch.where(sphere, each, torch.where(cylinder, round_, F.softshrink(each, 1 - BEVEL)))
        for each, round_ in ((x, x * outer), (y, y * outer), (z, F.softshrink(z, 1 - BEVEL)))
    )
    x, y, z = x * cosine - y * sine, x * sine + y * cosine, z * scale
    normals = torch.stack(
        [x.masked_fill(ground, 0.0), y.masked_fill(ground, 0.0), z.masked_fill(ground, 1.0)], dim=1
    )
    return unit(normals)


def unit(vectors: Vectors) -> Vectors:
    """Vectors of length 1."""
    return vectors * (dot(vectors, vectors) + 1e-12).rsqrt().unsqueeze(1)


def dot(a: Vectors, b: Float[Tensor, "c 3 q"]) -> Scalars:
    """Products of vectors."""
    # Faster than a reduction, as each coordinate is contiguous.
    return torch.addcmul(torch.addcmul(a[:, 0] * b[:, 0], a[:, 1], b[:, 1]), a[:, 2], b[:, 2])


def reflected(directions: Vectors, normals: Vectors) -> Vectors:
    """Directions after a mirror with these normals."""
    return torch.addcmul(directions, 2 * dot(directions, normals).unsqueeze(1), normals, value=-1)


def irradiance(world: World, surface: Surface, visible: Float[Tensor, "b k p"] | None = None) -> Vectors:
    """Light that falls on a surface; all of the lights and of the sky is visible if nothing else is said."""
    power, facing = _numbers(POWER, surface.points.device), _facing(surface.points.device)
    up = surface.normals[:, 2:]
    open_sky = 1.0 if visible is None else 1 - OCCLUSION * (1 - visible[:, -1:])
    total = _column(SKY, up.device) * ((0.5 + 0.5 * up) * open_sky) + _column(BOUNCE, up.device) * (0.5 - 0.5 * up)
    for row in range(len(POWER)):
        towards = world.scenes.lights[:, row].unsqueeze(-1) - surface.points
        inverse = dot(towards, towards).rsqrt()
        cosines = F.relu(dot(towards, surface.normals)) * F.relu(-dot(towards, facing[row].view(1, 3, 1)))
        share = cosines * inverse.square().square()
        share = share if visible is None else share * visible[:, row]
        total = torch.addcmul(total, power[row].view(1, 3, 1), share.unsqueeze(1))
    return total


def glints(world: World, points: Vectors, mirrored: Vectors, visible: Float[Tensor, "b k p"]) -> Vectors:
    """The lights themselves, as metal at these points mirrors them, in directions of length 1."""
    power, facing = _numbers(POWER, mirrored.device), _facing(mirrored.device)
    total = _glint(dot(mirrored, _column(SUN, mirrored.device)), GLINT[-1]).unsqueeze(1).expand_as(mirrored)
    for row, strength in enumerate(GLINT[:-1]):
        towards = unit(world.scenes.lights[:, row].unsqueeze(-1) - points)
        shine = F.relu(-dot(towards, facing[row].view(1, 3, 1))) * visible[:, row]
        glint = _glint(dot(towards, mirrored), strength) * shine
        total = torch.addcmul(total, power[row].view(1, 3, 1) / power[row].amax(), glint.unsqueeze(1))
    return total


def _glint(cosine: Scalars, strength: float) -> Scalars:
    """The brightness of a light at an angle from the mirrored direction."""
    # Not below 0.5, whose powers are still normal numbers: others are slow.
    return strength * cosine.clamp(min=0.5).pow(SHARPNESS)


def radiance(world: World, surface: Surface, directions: Vectors, visible: Float[Tensor, "b k p"]) -> Vectors:
    """What a surface sends against the directions that it was seen in; metal mirrors the world around it once."""
    ground = surface.index == len(world.solids)
    share = (RUBBER + (METAL - RUBBER) * surface.metal).masked_fill(ground, 1.0).unsqueeze(1)
    light = share * irradiance(world, surface, visible)
    return surface.albedo * (light + _mirrored(world, surface, directions, visible))


def _mirrored(world: World, surface: Surface, directions: Vectors, visible: Float[Tensor, "b k p"]) -> Vectors:
    """What metal mirrors; zero elsewhere.

    At most a quarter of the points is metal, nearly always, and no more are followed: others mirror nothing.
    """
    metal = surface.metal > 0.5
    most = metal.shape[1] // 4
    slot = metal.cumsum(1) - 1
    slot = torch.where(metal & (slot < most), slot, most)
    source = torch.arange(metal.shape[1], device=metal.device).expand_as(slot)
    chosen = torch.zeros_like(slot[:, : most + 1]).scatter_(1, slot, source)[:, None, :most]
    points, normals, incoming, seen = (
        torch.gather(each, 2, chosen.expand(-1, each.shape[1], -1))
        for each in (surface.points, surface.normals, directions, visible)
    )
    mirrored = unit(reflected(incoming, normals))
    colours = MIRROR * _around(world, points + 1e-3 * normals, mirrored) + glints(world, points, mirrored, seen)
    return torch.gather(F.pad(colours, (0, 1)), 2, slot.unsqueeze(1).expand(-1, 3, -1))


def _around(world: World, origins: Vectors, directions: Vectors) -> Vectors:
    """What is seen from metal in mirrored directions of length 1: objects, the ground or the sky."""
    seen = meet(world, origins, directions)
    way = seen.points - origins
    distance = dot(way, way).sqrt().unsqueeze(1)
    sky = _column(HORIZON, way.device) * (1 - directions[:, 2:]).clamp(1e-3, 1).pow(FADE)
    return torch.where(
        seen.away.unsqueeze(1), sky, seen.albedo * irradiance(world, seen) * (distance / (distance + NEAR))
    )


def encode(colours: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b 3 h w"]:
    """From linear colours to those of image files, both from 0 to 1."""
    return colours.clamp(1e-6, 1).pow(1 / 2.2)


def _facing(device: torch.device) -> Float[Tensor, "l 3"]:
    """Where lights shine: from their middle positions to the middle of the ground, wherever they are moved."""
    return F.normalize(-_numbers(LIGHTS, device), dim=-1)


def _numbers(numbers: Numbers, device: torch.device) -> Float[Tensor, "..."]:
    return constant(numbers, device, torch.float32)


def _column(colour: tuple[float, float, float], device: torch.device) -> Float[Tensor, "1 3 1"]:
    return _numbers(colour, device).view(1, 3, 1)
