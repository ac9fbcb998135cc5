"""Problems with large sets or wide elements, and those whose inputs are images, sets or aligned sets."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from desp.benchmarks.own_data.problem import as_sets, first_rows, normal, uniform, whole
from desp.boxes import centres_to_corners
from desp.comparison.examples import Examples
from desp.sets import SetBatch

POINTS = 500
CHANNELS = 30
BOX_PIXELS, STAR_PIXELS = 20, 16


def ellipse(count: int, generator: torch.Generator) -> Examples:
    """Two half-axes and an angle, and 500 points on that ellipse."""
    axes, turn = uniform(generator, count, 2, low=0.2), uniform(generator, count, high=math.pi)
    x = torch.cat([axes, (2 * turn).cos().unsqueeze(1), (2 * turn).sin().unsqueeze(1)], dim=1)
    return Examples(x, ellipse_sets(x, generator))


def ellipse_sets(x: Float[Tensor, "m 4"], generator: torch.Generator) -> SetBatch:
    """Points (M, 500, 2) for half-axes and angles."""
    axes, turn = x[:, :2], torch.atan2(x[:, 3], x[:, 2]) / 2 % math.pi
    at = uniform(generator, len(x), POINTS, high=2 * math.pi)
    along = axes[:, :1] * at.cos(), axes[:, 1:] * at.sin()
    cos, sin = turn.cos().unsqueeze(1), turn.sin().unsqueeze(1)
    points = torch.stack([cos * along[0] - sin * along[1], sin * along[0] + cos * along[1]], dim=-1)
    return as_sets(points, first_rows(torch.full((len(x),), POINTS), POINTS))


def off_ellipse(x: Tensor, sets: SetBatch) -> Float[Tensor, " m"]:
    """The mean departure of points from the ellipse, in units of its half-axes."""
    turn = torch.atan2(x[:, 3], x[:, 2]) / 2
    cos, sin = turn.cos().unsqueeze(1), turn.sin().unsqueeze(1)
    a, b = sets.elements.unbind(dim=-1)
    radius = torch.hypot((cos * a + sin * b) / x[:, :1], (cos * b - sin * a) / x[:, 1:2])
    return ((radius - 1).abs() * sets.mask).sum(dim=1) / sets.sizes.clamp(min=1)


def spectra(count: int, generator: torch.Generator) -> Examples:
    """A mixture, and the spectra of its one to four parts: 30 numbers each."""
    x = uniform(generator, count, 4)
    return Examples(x, spectra_sets(x, generator))


def spectra_sets(x: Float[Tensor, "m 4"], generator: torch.Generator) -> SetBatch:
    """Spectra (M, 4, 30) for mixtures."""
    count = len(x)
    sizes = 1 + (x[:, 0] * 4).long().clamp(max=3)
    centre = CHANNELS * (x[:, 1:2] / 4 + torch.arange(4) / 5 + 0.1) + 0.5 * normal(generator, count, 4)
    width, height = 1 + 2 * x[:, 2].view(-1, 1, 1), (1 + torch.arange(4) * x[:, 3:]).unsqueeze(-1)
    away = (torch.arange(CHANNELS) - centre.unsqueeze(-1)) / width
    peaks = height * (-0.5 * away.square()).exp()
    noise = 0.02 * normal(generator, count, 4, CHANNELS)
    return as_sets(peaks + noise, first_rows(sizes, 4))


def boxes(count: int, generator: torch.Generator) -> Examples:
    """A small image with one to three bright rectangles, and their boxes."""
    mask = first_rows(whole(generator, 1, 3, count), 3)
    size = uniform(generator, count, 3, 2, low=0.2, high=0.5)
    centre = size / 2 + (1 - size) * uniform(generator, count, 3, 2)
    corners = (centres_to_corners(torch.cat([centre, size], dim=-1)) * BOX_PIXELS).round()
    light = uniform(generator, count, 3, low=0.4, high=0.9)
    place = torch.arange(BOX_PIXELS) + 0.5
    left, top, right, bottom = (corners[..., side, None] for side in range(4))
    inside = ((place > left) & (place < right)).unsqueeze(2) & ((place > top) & (place < bottom)).unsqueeze(3)
    layers = inside * light.view(count, 3, 1, 1) * mask.view(count, 3, 1, 1)
    sets = as_sets(corners / BOX_PIXELS, mask)
    return Examples(_as_image(layers.amax(dim=1), generator), sets, (sets,))


def stars(count: int, generator: torch.Generator) -> Examples:
    """A small image with up to five blurred dots, and their places and brightness."""
    mask = first_rows(whole(generator, 0, 5, count), 5)
    at = uniform(generator, count, 5, 2, low=0.1, high=0.9)
    light = uniform(generator, count, 5, low=0.3)
    place = (torch.arange(STAR_PIXELS) + 0.5) / STAR_PIXELS
    across, down = (((place - at[..., axis, None]) * STAR_PIXELS).square() for axis in range(2))
    blur = (-0.5 * (across.unsqueeze(2) + down.unsqueeze(3))).exp() * (light * mask).view(count, 5, 1, 1)
    sets = as_sets(torch.cat([at, light.unsqueeze(-1)], dim=-1), mask)
    return Examples(_as_image(blur.sum(dim=1), generator), sets, (sets,))


def _as_image(light: Float[Tensor, "m h w"], generator: torch.Generator) -> Tensor:
    """Bytes of one channel, (M, 1, H, W), with noise."""
    noisy = light + 0.05 * normal(generator, *light.shape)
    return (255 * noisy.clamp(0, 1)).round().to(torch.uint8).unsqueeze(1)


def clusters(count: int, generator: torch.Generator) -> Examples:
    """A set of 12 to 30 points around one to four centres, and the centres with the spread around each."""
    centres = uniform(generator, count, 4, 2, low=-1.0)
    spread = uniform(generator, count, 4, 1, low=0.03, high=0.15)
    sizes = whole(generator, 1, 4, count)
    belongs = torch.arange(30) % sizes.unsqueeze(1)  # each centre has points
    by_centre = belongs.unsqueeze(-1)
    points = centres.gather(1, by_centre.expand(-1, -1, 2))
    points = points + spread.gather(1, by_centre) * normal(generator, count, 30, 2)
    given = as_sets(points, first_rows(whole(generator, 12, 30, count), 30))
    sets = as_sets(torch.cat([centres, spread], dim=-1), first_rows(sizes, 4))
    return Examples(given.with_presence(), sets, (sets,))


def groups(count: int, generator: torch.Generator) -> Examples:
    """Four to seven items in two groups, and a label for each: 1 for all of one group, whichever it is."""
    mask = first_rows(whole(generator, 4, 7, count), 7)
    centres = 0.4 + 0.6 * uniform(generator, count, 1, 2)
    side = whole(generator, 0, 1, count, 7)
    side[:, 0], side[:, 1] = 0, 1  # neither group is empty
    side = side.gather(1, _shuffled_first(mask, generator))
    items = (2.0 * side.unsqueeze(-1) - 1) * centres + 0.2 * normal(generator, count, 7, 2)
    answers = tuple(as_sets(label.float().unsqueeze(-1), mask) for label in (side, 1 - side))
    keep = torch.rand(count, generator=generator) < 0.5
    sets = SetBatch(torch.where(keep.view(-1, 1, 1), answers[0].elements, answers[1].elements), mask)
    return Examples(as_sets(items, mask).with_presence(), sets, answers)


def _shuffled_first(mask: Tensor, generator: torch.Generator) -> Tensor:
    """For each example an order of its rows in which present ones stay first."""
    keys = torch.rand(mask.shape, generator=generator).masked_fill(~mask, 2.0)
    return keys.argsort(dim=1)
