"""What a CLEVR scene says of its objects: boxes by the published formula, and the features of their state."""

from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

SHAPES: Final = ("cube", "sphere", "cylinder")
MATERIALS: Final = ("rubber", "metal")
COLOURS: Final = ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow")
SIZES: Final = ("small", "large")

MAX_OBJECTS = 10
WIDTH, HEIGHT = 480, 320
"""Size of the official images, which the pixel coordinates of scene files refer to."""

BOX_FEATURES = 4
STATE_FEATURES = 18
STATE_CATEGORIES: Final = ((3, 5), (5, 13), (13, 16), (16, 18))
"""One-hot columns of a state: material, colour, shape, size."""
POSITION_SCALE = 3.0


def formula_boxes(
    pixel_coords: Float[Tensor, "*b 2"],
    positions: Float[Tensor, "*b 3"],
    shapes: Int[Tensor, "*b"],
    right: Float[Tensor, "*b 2"],
) -> Float[Tensor, "*b 4"]:
    """Boxes of objects as published for CLEVR, computed from the scene and not from the image.

    They are what the published results are about, so the formula is kept with its approximations: boxes of objects
    may leave the image a little (callers clip them), and are not tight.

    Args:
        pixel_coords: centres in pixels of a 480 x 320 image.
        positions: 3-d coordinates; the third is the height of the centre, which is half of the object's.
        shapes: indices into `SHAPES`.
        right: first two numbers of the scene's direction ``right``.

    Returns:
        x1, y1, x2, y2, normalised by the image's width and height, 0 to 1.
    """
    z = positions[..., 2]
    depth = _depth(positions, right)
    half = 6.9 * z * (15 - depth) / 2
    below, above, side = _cylinder(half, z, depth)
    cube = half * 13 / (10 + depth)
    is_cylinder, is_cube = shapes == SHAPES.index("cylinder"), shapes == SHAPES.index("cube")
    below, above, side = (
        torch.where(is_cylinder, of_cylinder, torch.where(is_cube, cube, half))
        for of_cylinder in (below, above, side)
    )
    x, y = pixel_coords.unbind(-1)
    return torch.stack(
        [(x - side) / WIDTH, (y - above) / HEIGHT, (x + side) / WIDTH, (y + below) / HEIGHT], dim=-1
    )


def _depth(positions: Float[Tensor, "*b 3"], right: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b"]:
    """How far behind the centre of the scene an object is, as published."""
    cosine, sine = right.unbind(-1)
    across = positions[..., 0] * cosine + positions[..., 1] * sine
    # A rotation would take the first coordinate as it was; the published code takes the rotated one.
    return -across * sine + positions[..., 1] * cosine


def _cylinder(
    half: Float[Tensor, "*b"], z: Float[Tensor, "*b"], depth: Float[Tensor, "*b"]
) -> tuple[Float[Tensor, "*b"], Float[Tensor, "*b"], Float[Tensor, "*b"]]:
    """Extents of a cylinder below its centre, above it and to both sides, as published."""
    camera, distance = 6.4, 9.4 + depth  # of the camera: its height, and how far away it is
    whole = z * (camera / distance + 1)
    below = half * whole / (whole - z * (camera - z) / distance)
    above = below * (camera - z + distance) / (camera + z + distance)
    return below, above, half * 11 / (10 + depth)


def scene_state(
    positions: Float[Tensor, "*b 3"],
    materials: Int[Tensor, "*b"],
    colours: Int[Tensor, "*b"],
    shapes: Int[Tensor, "*b"],
    sizes: Int[Tensor, "*b"],
) -> Float[Tensor, "*b 18"]:
    """Features of objects for the *state* task: x, y, z divided by 3, then one-hot attributes.

    Args:
        positions: 3-d coordinates.
        materials, colours, shapes, sizes: indices into `MATERIALS`, `COLOURS`, `SHAPES` and `SIZES`.
    """
    named = ((materials, MATERIALS), (colours, COLOURS), (shapes, SHAPES), (sizes, SIZES))
    columns = [one_hot(indices.to(torch.int64), len(names)).to(positions.dtype) for indices, names in named]
    return torch.cat([positions / POSITION_SCALE, *columns], dim=-1)
