"""How the surfaces of CLEVR-like scenes look: light that falls on them, and what they send to the camera.

Colours are linear until `encode`. The numbers are calibrated on pictures that Blender rendered of such scenes.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from desp.constants import constant
from desp.data.clevr_rays import FAR, Hits, Numbers, Solid, Vectors, exposure, first_hits, solids_of
from desp.data.clevr_scenes import LIGHTS, SHAPES, Scenes

# Share of light that is returned, of objects in the order of `COLOURS`, and of the ground at the end.
ALBEDO = (
    (0.34, 0.34, 0.34),
    (0.68, 0.14, 0.14),
    (0.16, 0.29, 0.84),
    (0.11, 0.41, 0.08),
    (0.51, 0.29, 0.10),
    (0.51, 0.15, 0.75),
    (0.16, 0.82, 0.82),
    (1.00, 0.93, 0.20),
)
GROUND = (0.5, 0.5, 0.5)
POWER = ((9.0, 8.4, 7.6), (3.6, 3.8, 4.2), (6.0, 6.0, 6.0))
"""Of the key, fill and back light."""
LIGHT_RADIUS = 0.5
SKY, BOUNCE = (0.28, 0.28, 0.28), (0.15, 0.15, 0.15)
"""Light from everywhere above, and what the ground returns of it from below."""
MIRRORED_SKY = (0.05, 0.05, 0.05)
"""What metal shows where it mirrors neither the ground nor an object."""
GLOSS, SHARPNESS = (0.02, 0.6), (12.0, 60.0)
"""Strength and exponent of highlights, of rubber and of metal."""
DIFFUSE = (1.0, 0.1)
"""Share of colour that is scattered, of rubber and of metal."""
MIRROR = 0.9
"""Share of colour that metal mirrors."""
OCCLUSION = 0.7
"""How much of the light from everywhere a nearby object takes away."""
BEVEL = 0.12
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
    solids: tuple[Solid, ...]
    table: Float[Tensor, "b 12 m"]

    @classmethod
    def of(cls, scenes: Scenes) -> "World":
        """Prepare scenes."""
        solids = solids_of(scenes)
        columns = [torch.cat([solid.centre[..., 0], solid.scale, solid.cosine, solid.sine], 1) for solid in solids]
        kind = torch.stack([scenes.shapes, scenes.materials], dim=1).float()
        albedo = _numbers(ALBEDO, scenes.device)[scenes.colours].transpose(1, 2)
        rows = torch.cat([torch.stack(columns, dim=-1), kind, albedo], dim=1)
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
    metal: Numbers
    index: Int[Tensor, "b p"]
    away: Bool[Tensor, "b p"]


def meet(world: World, origins: Float[Tensor, "b 3 q"], directions: Vectors) -> Surface:
    """What rays meet first; `origins` are one for all rays (Q = 1), or one for each."""
    hits = first_hits(world.solids, origins, directions)
    points = torch.addcmul(origins, hits.distance.unsqueeze(1), directions)
    row = hits.index.unsqueeze(1).expand(-1, world.table.shape[1], -1)
    found = torch.gather(world.table, 2, row)
    ground = hits.index == len(world.solids)
    normals = _normals(points - found[:, :3], found[:, 3:7], ground)
    return Surface(points, normals, found[:, 8:], found[:, 7], hits.index, hits.distance >= FAR)


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
    normals = torch.stack([x.masked_fill(ground, 0.0), y.masked_fill(ground, 0.0), z.masked_fill(ground, 1.0)], dim=1)
    return F.normalize(normals, dim=1)


def reflected(directions: Vectors, normals: Vectors) -> Vectors:
    """Directions after a mirror with these normals."""
    return torch.addcmul(directions, 2 * (directions * normals).sum(1, keepdim=True), normals, value=-1)


def irradiance(
    world: World, surface: Surface, visible: Float[Tensor, "b k p"] | None, mirrored: Vectors | None
) -> tuple[Vectors, Vectors]:
    """Light that falls on a surface, and highlights that the lights make in mirrored directions."""
    power, lights = _numbers(POWER, surface.points.device), world.scenes.lights
    facing = F.normalize(-_numbers(LIGHTS, surface.points.device), dim=-1)
    up = surface.normals[:, 2:]
    open_sky = 1.0 if visible is None else 1 - OCCLUSION * (1 - visible[:, -1:])
    total = _column(SKY, up.device) * ((0.5 + 0.5 * up) * open_sky) + _column(BOUNCE, up.device) * (0.5 - 0.5 * up)
    highlight = torch.zeros_like(total)
    exponent = SHARPNESS[0] + (SHARPNESS[1] - SHARPNESS[0]) * surface.metal
    for row in range(lights.shape[1]):
        towards = lights[:, row].unsqueeze(-1) - surface.points
        inverse = (towards * towards).sum(1).rsqrt()
        shine = F.relu(-(towards * facing[row].view(1, 3, 1)).sum(1)) * inverse
        shine = shine if visible is None else shine * visible[:, row]
        colour = power[row].view(1, 3, 1)
        cosine = F.relu((towards * surface.normals).sum(1)) * inverse
        total = total + colour * (shine * cosine * inverse * inverse).unsqueeze(1)
        if mirrored is not None:
            lobe = (F.relu((towards * mirrored).sum(1)) * inverse + 1e-6).pow(exponent)
            highlight = highlight + colour * (shine * lobe).unsqueeze(1)
    return total, highlight


def radiance(world: World, surface: Surface, directions: Vectors, visible: Float[Tensor, "b k p"]) -> Vectors:
    """What a surface sends against the directions that it was seen in; metal mirrors the world around it once."""
    mirrored = F.normalize(reflected(directions, surface.normals), dim=1)
    light, highlight = irradiance(world, surface, visible, mirrored)
    metal = surface.metal.unsqueeze(1)
    ground = (surface.index == len(world.solids)).unsqueeze(1)
    scattered = surface.albedo * light * (DIFFUSE[0] + (DIFFUSE[1] - DIFFUSE[0]) * metal)
    tint = 1 + (surface.albedo - 1) * metal
    gloss = (GLOSS[0] + (GLOSS[1] - GLOSS[0]) * metal).masked_fill(ground, 0.0)
    mirror = metal * MIRROR * tint * _around(world, surface, mirrored)
    return scattered + gloss * tint * highlight + mirror


def _around(world: World, surface: Surface, mirrored: Vectors) -> Vectors:
    """What metal mirrors. Rays start from at most a quarter of the points, as few are metal; others see the sky."""
    metal = surface.metal > 0.5
    most = metal.shape[1] // 4
    slot = metal.cumsum(1) - 1
    slot = torch.where(metal & (slot < most), slot, most)
    source = torch.arange(metal.shape[1], device=metal.device).expand_as(slot)
    chosen = torch.zeros_like(slot[:, : most + 1]).scatter_(1, slot, source)[:, None, :most].expand(-1, 3, -1)
    origins = torch.gather(surface.points + 1e-3 * surface.normals, 2, chosen)
    seen = meet(world, origins, torch.gather(mirrored, 2, chosen))
    light, _ = irradiance(world, seen, None, None)
    sky = _column(MIRRORED_SKY, metal.device)
    colours = torch.where(seen.away.unsqueeze(1), sky, seen.albedo * light)
    colours = torch.cat([colours, sky.expand(len(colours), -1, 1)], dim=2)
    return torch.gather(colours, 2, slot.unsqueeze(1).expand(-1, 3, -1))


def encode(colours: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b 3 h w"]:
    """From linear colours to those of image files, both from 0 to 1."""
    return colours.clamp(1e-6, 1).pow(1 / 2.2)


def _numbers(numbers: Any, device: torch.device) -> Float[Tensor, "..."]:
    return constant(numbers, device, torch.float32)


def _column(colour: tuple[float, float, float], device: torch.device) -> Float[Tensor, "1 3 1"]:
    return _numbers(colour, device).view(1, 3, 1)
