"""Scenes of a few objects on a table, drawn by the published rules of CLEVR (Johnson et al., 2017).

Everything is a batch of tensors with fixed shapes, on the device of the generator. Rejection works by a surplus:
more is drawn than needed, and what keeps the rules is chosen by index. Nothing on the host depends on values, so
drawing can be a part of a captured CUDA graph.
"""

import math
from dataclasses import dataclass, fields, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from desp.constants import constant
from desp.data.clevr_boxes import COLOURS, HEIGHT, MATERIALS, MAX_OBJECTS, SHAPES, SIZES, WIDTH
from desp.sets import prefix_mask

RADII = (0.35, 0.7)
"""Radii of small and large objects of any shape, in the placement rules; also the height of their centres."""
HALF_EXTENTS = (0.965, 1.0, 0.985)
"""Half the extents of cubes, spheres and cylinders, as a share of their radii: our objects have sharp edges, and
look as large as CLEVR's, which have round ones."""
MIN_OBJECTS = 3
REACH = 3.0
"""Centres lie within this distance of the middle, in x and in y."""
MIN_DISTANCE = 0.25
"""The least distance of two centres minus both radii."""
MARGIN = 0.4
"""The least distance of two centres along each of the camera's horizontal directions."""
TRIES = 64
"""Places that are tried for each object, all of which keep the margins."""
ALTERNATIVES = 6
"""Scenes that are drawn for each scene that is returned."""

CAMERA = (7.48113, -6.50764, 5.34367)
CAMERA_JITTER = 0.5
TARGET = (0.00886, -0.00746, 0.00596)
"""The camera looks here."""
FOCAL_LENGTH = 1.09375
"""In widths of the image."""
LIGHTS = ((6.44671, -2.90517, 4.2584), (-4.67112, -4.0136, 3.01122), (-1.1685, 2.64602, 5.81574))
"""Key, fill and back light."""
LIGHT_JITTER = 1.0


@dataclass(frozen=True)
class Scenes:
    """A batch of B scenes with up to N = 10 objects each; L = 3 lights.

    Attributes:
        positions: centres of the objects; z is up, the table is at z = 0.
        rotations: of the objects about the vertical, in radians.
        shapes, materials, colours, size_indices: indices into `SHAPES`, `MATERIALS`, `COLOURS`, `SIZES`.
        mask: which rows are objects; they come first.
        camera: positions of the cameras; all look at `TARGET`.
        lights: positions of the key, fill and back light.
    """

    positions: Float[Tensor, "b n 3"]
    rotations: Float[Tensor, "b n"]
    shapes: Int[Tensor, "b n"]
    materials: Int[Tensor, "b n"]
    colours: Int[Tensor, "b n"]
    size_indices: Int[Tensor, "b n"]
    mask: Bool[Tensor, "b n"]
    camera: Float[Tensor, "b 3"]
    lights: Float[Tensor, "b l 3"]

    def __len__(self) -> int:
        return len(self.mask)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.mask.device

    def radii(self) -> Float[Tensor, "b n"]:
        """Radii of the objects, in the rules for places."""
        return constant(RADII, self.device, torch.float32)[self.size_indices]

    def half_extents(self) -> Float[Tensor, "b n"]:
        """Half the extents of the objects, along each of their axes."""
        return constant(HALF_EXTENTS, self.device, torch.float32)[self.shapes] * self.radii()

    def right(self) -> Float[Tensor, "b 2"]:
        """The horizontal direction to the right of the image, as (x, y)."""
        return camera_axes(self.camera)[:, 0, :2]

    def pixel_coords(self) -> Float[Tensor, "b n 2"]:
        """Projected centres of the objects, as (x, y) in pixels of an image of 480 x 320."""
        return project(self.positions, self.camera) * constant((WIDTH, HEIGHT), self.device, torch.float32)

    def scenes(self, rows: Int[Tensor, " c"]) -> "Scenes":
        """The scenes with these indices."""
        return Scenes(*(getattr(self, field.name)[rows] for field in fields(self)))

    def keep(self, mask: Bool[Tensor, "b n"]) -> "Scenes":
        """The same scenes with these objects alone, moved to the front."""
        order = (~mask).to(torch.uint8).sort(dim=1, stable=True).indices
        names = ("rotations", "shapes", "materials", "colours", "size_indices")
        rows = {name: torch.take_along_dim(getattr(self, name), order, 1) for name in names}
        positions = torch.take_along_dim(self.positions, order.unsqueeze(-1), 1)
        return replace(self, positions=positions, mask=torch.take_along_dim(mask, order, 1), **rows)


def camera_axes(camera: Float[Tensor, "b 3"]) -> Float[Tensor, "b 3 3"]:
    """The camera's axes as rows: to the right, up, and forward."""
    forward = constant(TARGET, camera.device, torch.float32) - camera
    forward = forward / forward.norm(dim=-1, keepdim=True)
    x, y, z = forward.unbind(-1)
    level = (x * x + y * y).sqrt()
    right = torch.stack([y, -x, torch.zeros_like(x)], dim=-1) / level.unsqueeze(-1)
    up = torch.stack([-x * z, -y * z, level * level], dim=-1) / level.unsqueeze(-1)
    return torch.stack([right, up, forward], dim=1)


def project(points: Float[Tensor, "b n 3"], camera: Float[Tensor, "b 3"]) -> Float[Tensor, "b n 2"]:
    """Where points appear in the image, as (x, y) from (0, 0), its upper left corner, to (1, 1)."""
    # No matrix product: on a GPU its precision may be set lower than coordinates need.
    seen = ((points - camera.unsqueeze(1)).unsqueeze(2) * camera_axes(camera).unsqueeze(1)).sum(-1)
    x, y, depth = seen.unbind(-1)
    scale = FOCAL_LENGTH / depth
    return torch.stack([0.5 + scale * x, 0.5 - scale * y * (WIDTH / HEIGHT)], dim=-1)


def draw_alternatives(count: int, generator: torch.Generator) -> Scenes:
    """Draw groups of scenes, each group with one number of objects, one camera and the same lights.

    Objects for which no place is found are left out, so that some scenes of a group lack objects.

    Returns:
        `count` times `ALTERNATIVES` scenes; the scenes of a group follow each other.
    """
    size = torch.randint(MIN_OBJECTS, MAX_OBJECTS + 1, (count,), generator=generator, device=generator.device)
    camera = _jitter((CAMERA,), CAMERA_JITTER, count, generator)[:, 0]
    lights = _jitter(LIGHTS, LIGHT_JITTER, count, generator)
    size, camera, lights = (each.repeat_interleave(ALTERNATIVES, 0) for each in (size, camera, lights))
    return _draw_objects(size, camera, lights, generator)


def fullest(scenes: Scenes) -> Scenes:
    """Of each group of alternatives, the first of those that have the most objects."""
    lacking = (MAX_OBJECTS - scenes.mask.sum(1)).view(-1, ALTERNATIVES)
    index = torch.arange(ALTERNATIVES, device=scenes.device)
    first = torch.arange(len(lacking), device=scenes.device) * ALTERNATIVES
    return scenes.scenes(first + (lacking * ALTERNATIVES + index).argmin(dim=1))


def _jitter(
    middle: tuple[tuple[float, float, float], ...], width: float, count: int, generator: torch.Generator
) -> Float[Tensor, "b k 3"]:
    """Points in cubes around these middles."""
    unit = torch.rand(count, len(middle), 3, generator=generator, device=generator.device)
    return constant(middle, generator.device, torch.float32) + width * (2 * unit - 1)


def _draw_objects(
    size: Int[Tensor, " b"],
    camera: Float[Tensor, "b 3"],
    lights: Float[Tensor, "b l 3"],
    generator: torch.Generator,
) -> Scenes:
    """Draw objects of all kinds with their places; those that find no place are left out."""
    device, count = generator.device, len(size)

    def choose(options: tuple[str, ...]) -> Int[Tensor, "b n"]:
        return torch.randint(len(options), (count, MAX_OBJECTS), generator=generator, device=device)

    shapes, materials, colours, sizes = (choose(names) for names in (SHAPES, MATERIALS, COLOURS, SIZES))
    rotations = 2 * math.pi * torch.rand(count, MAX_OBJECTS, generator=generator, device=device)
    wanted = prefix_mask(size, MAX_OBJECTS)
    radii = constant(RADII, device, torch.float32)[sizes]
    places, placed = _place(radii, camera, generator)
    positions = torch.cat([places, radii.unsqueeze(-1)], dim=-1)
    scenes = Scenes(positions, rotations, shapes, materials, colours, sizes, wanted, camera, lights)
    return scenes.keep(wanted & placed)


def _place(
    radii: Float[Tensor, "b n"], camera: Float[Tensor, "b 3"], generator: torch.Generator
) -> tuple[Float[Tensor, "b n 2"], Bool[Tensor, "b n"]]:
    """Places for objects, one after the other: each takes the first of its tries that keeps the rules.

    Coordinates are along the camera's horizontal directions, where margins are plain differences. A place that is
    uniform among those allowed has coordinates that are uniform outside the others' margins.

    Returns:
        The places as (x, y), and which objects found one.
    """
    count, most = radii.shape
    unit = torch.rand(most, count, 2, TRIES, generator=generator, device=generator.device)
    right = camera_axes(camera)[:, 0, :2]
    order = torch.arange(TRIES, 0, -1, device=radii.device)
    places = radii.new_full((count, 2, most), math.inf)
    for index in range(most):
        tries = _between(places[..., :index], unit[index])
        step = tries.unsqueeze(-1) - places[:, :, None, :index]
        apart = (radii[:, :index] + radii[:, index : index + 1] + MIN_DISTANCE).unsqueeze(1)
        valid = (step.square().sum(1) > apart.square()).all(-1) & (_turned(tries, right).abs() <= REACH).all(1)
        first = (valid * order).argmax(dim=1)
        found = torch.take_along_dim(tries, first[:, None, None], 2).squeeze(2)
        places[..., index] = torch.where(valid.any(1, keepdim=True), found, math.inf)
    kept = places[:, 0].isfinite()
    turned = _turned(places.masked_fill(~kept.unsqueeze(1), 0.0), right)
    return turned.transpose(1, 2).contiguous(), kept


def _between(others: Float[Tensor, "b 2 i"], unit: Float[Tensor, "b 2 t"]) -> Float[Tensor, "b 2 t"]:
    """Map [0, 1] uniformly to coordinates outside the margins of the others; infinity where there are none."""
    margin = MARGIN + 1e-5  # more than rounding takes away
    end = math.sqrt(2) * REACH + margin
    # Objects without a place (infinity) are moved to the upper end, where they exclude nothing.
    marks = F.pad(others.clamp(max=end).sort(dim=-1).values, (1, 0), value=-end)
    gaps = (F.pad(marks[..., 1:], (0, 1), value=end) - marks - 2 * margin).clamp(min=0)
    ends = gaps.cumsum(-1)
    total = ends[..., -1:]
    passed = unit * total
    # Inverse of the cumulative free length: for every excluded interval below, add its width.
    behind = passed.unsqueeze(-1) >= ends[..., None, :-1]
    jumps = (marks[..., 1:] + margin - ends[..., :-1]) - (marks[..., :-1] + margin - F.pad(ends, (1, 0))[..., :-2])
    shift = (behind * jumps.unsqueeze(-2)).sum(-1) + margin - end
    return torch.where(total > 0, passed + shift, math.inf)


def _turned(places: Float[Tensor, "b 2 t"], right: Float[Tensor, "b 2"]) -> Float[Tensor, "b 2 t"]:
    """From (to the right, away from the camera) to (x, y)."""
    along, away = places.unbind(1)
    x, y = right.unsqueeze(-1).unbind(1)
    return torch.stack([along * x - away * y, along * y + away * x], dim=1)
