"""Images of CLEVR-like scenes, rendered by a ray caster on any device."""

from dataclasses import dataclass, fields
from typing import TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

from desp.data.clevr_boxes import MAX_OBJECTS
from desp.data.clevr_rays import exposure
from desp.data.clevr_scenes import Scenes, draw_alternatives, fullest
from desp.data.clevr_shading import LIGHT_RADIUS, World, encode, meet, radiance
from desp.data.clevr_silhouettes import Visibility, keep_visible, view_directions, visibility

CHOICE_GRID, BOX_GRID = 12, 24
"""Rays along each side of an object's box that measure its visibility: to choose scenes, and for the result."""
SOFTNESS = 0.12
"""Share of a pixel that goes to each neighbour in a row, and to each in a column."""
NOISE = 0.002
"""Standard deviation of the noise of images, whose colours go from 0 to 1."""
RAYS_AT_ONCE = {"cpu": 30_000}
"""By type of device: few enough for a CPU's caches; elsewhere `MOST_RAYS`, for the memory."""
MOST_RAYS = 2**23

Part = TypeVar("Part", Scenes, Visibility)


@dataclass(frozen=True)
class Rendering:
    """Images of B scenes, and what is visible in them.

    Attributes:
        images: bytes, red, green and blue.
        visible: for each object, the area that is visible divided by the area that it would cover alone.
        boxes: x1 y1 x2 y2 of whole objects, hidden parts included, clipped to the image; from 0 to 1.
    """

    images: UInt8[Tensor, "b 3 h w"]
    visible: Float[Tensor, "b n"]
    boxes: Float[Tensor, "b n 4"]


def generate(count: int, generator: torch.Generator, size: int = 128) -> tuple[Scenes, Rendering]:
    """Draw scenes by all rules of CLEVR, and render them.

    Of each scene some alternatives are drawn, and the first is taken in which all objects found a place and are
    visible. Where none is complete, objects that break a rule are left out of the best one: of 3,000 scenes, one
    object each in 15 of those with ten objects and in 1 of those with nine, that is 0.08 % of all objects.
    """
    drawn = draw_alternatives(count, generator)
    alternatives = [keep_visible(some, CHOICE_GRID) for some in _parts(drawn, MAX_OBJECTS * CHOICE_GRID**2)]
    scenes = fullest(_joined(alternatives))
    return scenes, render(scenes, generator, size)


@torch.no_grad()
def render(scenes: Scenes, generator: torch.Generator, size: int = 128) -> Rendering:
    """Render scenes as square images, in which 480 x 320 is squeezed to `size` x `size`."""
    images = torch.cat([_picture(some, generator, size) for some in _parts(scenes, 2 * size * size)])
    seen = _joined([visibility(some, BOX_GRID) for some in _parts(scenes, MAX_OBJECTS * BOX_GRID**2)])
    return Rendering(images, seen.share, seen.boxes)


def _parts(scenes: Scenes, rays: int) -> list[Scenes]:
    """The scenes, as many at once as suits the device, when each needs so many rays."""
    step = max(1, RAYS_AT_ONCE.get(scenes.device.type, MOST_RAYS) // rays)
    return [scenes.scenes(rows) for rows in torch.arange(len(scenes), device=scenes.device).split(step)]


def _joined(parts: list[Part]) -> Part:
    """Batches of tensors as one."""
    kind = type(parts[0])
    return kind(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(kind)))


def _picture(scenes: Scenes, generator: torch.Generator, size: int) -> UInt8[Tensor, "b 3 h w"]:
    """Images as bytes, with a little noise."""
    colours = encode(trace(scenes, size))
    noise = torch.randn(colours.shape, generator=generator, device=generator.device)
    return ((colours + NOISE * noise).clamp(0, 1) * 255).round().to(torch.uint8)


def trace(scenes: Scenes, size: int) -> Float[Tensor, "b 3 h w"]:
    """Linear colours, anti-aliased: rays through the centres and the corners of pixels are averaged.

    Shadows are soft, and are traced in the centres alone.
    """
    world = World.of(scenes)
    directions = view_directions(scenes, _places(size, scenes.device).expand(len(scenes), -1, -1))
    surface = meet(world, scenes.camera.unsqueeze(-1), directions)
    middles = size * size
    points, index = surface.points[..., :middles].contiguous(), surface.index[:, :middles]
    visible = exposure(world.solids, scenes.lights, LIGHT_RADIUS, points, index).unflatten(-1, (size, size))
    corners = _means(F.pad(visible, (1, 1, 1, 1), mode="replicate"))
    visible = torch.cat([visible.flatten(2), corners.flatten(2)], dim=-1)
    colours = radiance(world, surface, directions, visible).clamp(0, 1)
    middle = colours[..., :middles].unflatten(-1, (size, size))
    corner = colours[..., middles:].unflatten(-1, (size + 1, size + 1))
    return _soften(0.5 * middle + 0.5 * _means(corner))


def _means(corners: Float[Tensor, "b c h1 w1"]) -> Float[Tensor, "b c h w"]:
    """Means of the four corners of each pixel."""
    rows = corners[..., 1:, :] + corners[..., :-1, :]
    return 0.25 * (rows[..., 1:] + rows[..., :-1])


def _soften(colours: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b 3 h w"]:
    """Share colours with neighbours, as a camera's filter does."""
    padded = F.pad(colours, (1, 1, 1, 1), mode="replicate")
    rows = torch.lerp(padded[..., 1:-1, :], 0.5 * (padded[..., 2:, :] + padded[..., :-2, :]), 2 * SOFTNESS)
    return torch.lerp(rows[..., 1:-1], 0.5 * (rows[..., 2:] + rows[..., :-2]), 2 * SOFTNESS)


def _places(size: int, device: torch.device) -> Float[Tensor, "p 2"]:
    """Middles and corners of the pixels of an image, in rows."""
    middles = (torch.arange(size, device=device) + 0.5) / size
    corners = torch.arange(size + 1, device=device) / size
    grids = [torch.meshgrid(marks, marks, indexing="xy") for marks in (middles, corners)]
    return torch.cat([torch.stack(grid, dim=-1).view(-1, 2) for grid in grids])
