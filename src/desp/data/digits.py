"""Digits: point clouds of a one or a seven, each written in two styles (paper, section 5.2)."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from desp.constants import constant
from desp.data.base import Batch
from desp.sets import SetBatch, prefix_mask

POINTS = 64


@dataclass(frozen=True)
class _Region:
    """Points uniform in a rectangle, turned about the origin and shifted; x to the right, y up."""

    x: tuple[float, float]
    y: tuple[float, float]
    points: int
    degrees: float = 0.0
    shift: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class _Digit:
    """A digit: the part both styles share, and the part that only the second style has."""

    name: str
    styles: tuple[str, str]
    common: tuple[_Region, ...]
    optional: _Region


_BAR_X, _BAR_Y = (0.48, 0.52), (0.25, 0.75)

ONE = _Digit(
    name="one",
    styles=("plain", "hook"),
    common=(_Region(_BAR_X, _BAR_Y, points=42),),
    optional=_Region((0.3, 0.5), (0.0, 0.04), points=22, degrees=45, shift=(0.125, 0.37)),
)
SEVEN = _Digit(
    name="seven",
    styles=("plain", "crossed"),
    common=(
        _Region(_BAR_X, _BAR_Y, points=32, degrees=-18, shift=(-0.1, 0.1)),
        _Region((0.4, 0.57), (0.61, 0.67), points=16),
    ),
    optional=_Region((0.415, 0.595), (0.42, 0.48), points=16),
)
DIGITS = (ONE, SEVEN)


def _size(digit: _Digit, style: int) -> int:
    return sum(part.points for part in digit.common) + style * digit.optional.points


_SIZES = tuple((_size(digit, 0), _size(digit, 1)) for digit in DIGITS)


def _draw_region(region: _Region, batch_size: int, generator: torch.Generator) -> Float[Tensor, "b n 2"]:
    """Draw points of one region, as (row, column) = (1 - y, x)."""
    unit = torch.rand(batch_size, region.points, 2, generator=generator, device=generator.device)
    x = region.x[0] + (region.x[1] - region.x[0]) * unit[..., 0]
    y = region.y[0] + (region.y[1] - region.y[0]) * unit[..., 1]
    cosine, sine = math.cos(math.radians(region.degrees)), math.sin(math.radians(region.degrees))
    turned_x = cosine * x - sine * y + region.shift[0]
    turned_y = sine * x + cosine * y + region.shift[1]
    return torch.stack([1 - turned_y, turned_x], dim=-1)


def draw_styles(digit: _Digit, batch_size: int, generator: torch.Generator) -> Float[Tensor, "2 b n 2"]:
    """Draw both styles of a digit, zero-padded to 64 points: first without the optional part, then with it."""
    plain = torch.cat([_draw_region(part, batch_size, generator) for part in digit.common], dim=1)
    fresh = torch.cat([_draw_region(part, batch_size, generator) for part in digit.common], dim=1)
    full = torch.cat([fresh, _draw_region(digit.optional, batch_size, generator)], dim=1)
    return torch.stack([F.pad(plain, (0, 0, 0, POINTS - plain.shape[1])), full])


def draw_digits(batch_size: int, generator: torch.Generator) -> Batch:
    """Draw digits: one or seven, and the style, each with probability one half; x is the class (0: one, 1: seven),
    one-hot."""
    device = generator.device
    kind = torch.randint(2, (batch_size,), generator=generator, device=device)
    style = torch.randint(2, (batch_size,), generator=generator, device=device)
    # All four variants are drawn and one is kept: no work depends on values, so whole batches stay on a GPU.
    variants = torch.stack([draw_styles(digit, batch_size, generator) for digit in DIGITS])
    points = variants[kind, style, torch.arange(batch_size, device=device)]
    sizes = constant(_SIZES, device, torch.int64)[kind, style]
    presence = prefix_mask(sizes, POINTS)
    return Batch(F.one_hot(kind, 2).float(), SetBatch(points, presence))
