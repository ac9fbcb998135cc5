"""A denoiser of boxes that reads an image's features inside and around every noisy box."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from desp.boxes import corners_to_centres
from desp.nn.attention import SelfAttention
from desp.nn.fourier import SIGMA_FEATURES, fourier_length, sigma_of, with_fourier_features
from desp.nn.pooling import Cache
from desp.nn.pyramid import split_levels
from desp.nn.set_network import ElementNetwork
from desp.scaling import FeatureScaling
from desp.settings import BoxDenoiserSettings

# As RoIAlign, each element reads a grid of points: inside its box from the finest level, and over the box enlarged
# twofold from the next one.
EXTENTS = (1.0, 2.0)
# Bounds of where noisy boxes are read, in widths or heights of the image: outside it, smallest and largest size.
OUTSIDE, SMALLEST, LARGEST = 0.5, 0.02, 1.0


def read_boxes(
    level: Float[Tensor, "b rows columns c"], boxes: Float[Tensor, "b n 4"], points: int, extent: float
) -> Float[Tensor, "b n features"]:
    """The features at a grid of points x points inside each box, interpolated bilinearly.

    The points of a box lie on rows and columns, so that their weights are products of a row's and a column's: two
    matrix products, whose backward pass is deterministic and can itself be differentiated, unlike `grid_sample`'s.

    Args:
        level: features at the locations of a grid over the image.
        boxes: centre x, centre y, width, height, normalised by the image's width and height.
        points: in each direction.
        extent: factor on the sizes of the boxes.
    """
    batch, rows, columns, features = level.shape
    across = _weights(boxes[..., 0], boxes[..., 2] * extent, columns, points)
    down = _weights(boxes[..., 1], boxes[..., 3] * extent, rows, points)
    of_rows = down.flatten(1, 2) @ level.reshape(batch, rows, columns * features)  # (B, N P, W C)
    of_rows = of_rows.view(batch, boxes.shape[1], points, columns, features)
    of_rows = of_rows.transpose(2, 3).flatten(3)  # (B, N, W, P C)
    return (across @ of_rows).flatten(2)


def _weights(
    centres: Float[Tensor, "b n"], lengths: Float[Tensor, "b n"], locations: int, points: int
) -> Float[Tensor, "b n points locations"]:
    """Weights of linear interpolation at `points` along each length, on a grid of cells over [0, 1]."""
    steps = (torch.arange(points, device=centres.device, dtype=centres.dtype) + 0.5) / points - 0.5
    where = (centres.unsqueeze(-1) + lengths.unsqueeze(-1) * steps) * locations - 0.5
    where = where.clamp(0, locations - 1)
    cells = torch.arange(locations, device=centres.device, dtype=centres.dtype)
    return (1 - (where.unsqueeze(-1) - cells).abs()).clamp(min=0)


class BoxNetwork(ElementNetwork):
    """Layers of self-attention among boxes and cross-attention to the image, with a head on every box.

    Args:
        settings: widths, depth, points that each box reads.
        channels: features of one row of a padded set, presence included.
        code_shape: (locations, features) of a pyramid's code, noise level included.
        shapes: rows and columns of the pyramid's levels.
        scaling: of the rows' features; the first four are boxes, normalised by the image's width and height.
        known_presence: presence is 1 or -1, and carries no noise. Absent boxes are masked then.
    """

    def __init__(
        self,
        settings: BoxDenoiserSettings,
        channels: int,
        code_shape: tuple[int, ...],
        shapes: list[tuple[int, int]],
        scaling: FeatureScaling,
        *,
        known_presence: bool = True,
    ) -> None:
        super().__init__()
        hidden, features, self.points = settings.hidden, code_shape[-1] - SIGMA_FEATURES, settings.points
        self.shapes, self.scaling, self.sigma_data = shapes, scaling, settings.sigma_data
        self.frequencies, self.known_presence = settings.fourier_frequencies, known_presence
        self.from_sigma = nn.Sequential(nn.Linear(SIGMA_FEATURES, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        self.from_element = nn.Linear(fourier_length(channels, self.frequencies), hidden)
        self.from_box = nn.Linear(fourier_length(4, self.frequencies), hidden)
        self.readers = nn.ModuleList(nn.Linear(features * self.points**2, hidden) for _ in EXTENTS)
        rows, columns = shapes[-1]
        self.places = nn.Parameter(0.02 * torch.randn(rows * columns, hidden))
        self.from_image = nn.Linear(features, hidden)
        self.layers = nn.ModuleList(_BoxLayer(hidden, settings.heads) for _ in range(settings.layers))
        last = nn.Linear(hidden, channels)
        self.head = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.SiLU(), last)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)

    def forward(
        self, code: Float[Tensor, "b locations h"], y: Float[Tensor, "b n c"], cache: Cache = ()
    ) -> Float[Tensor, "b n c"]:
        """The head's output for each box."""
        del cache
        mask = y[..., -1] > 0 if self.known_presence else torch.ones_like(y[..., -1], dtype=torch.bool)
        levels = split_levels(code[..., :-SIGMA_FEATURES], self.shapes)
        condition = self.from_sigma(code[:, 0, -SIGMA_FEATURES:]).unsqueeze(1)
        boxes = self.boxes(y, sigma_of(code))
        values = self.from_element(with_fourier_features(y, self.frequencies)) + condition
        values = values + self.from_box(with_fourier_features(4 * boxes - 2, self.frequencies))
        for level, reader, extent in zip(levels, self.readers, EXTENTS, strict=False):
            values = values + reader(read_boxes(level, boxes, self.points, extent))
        image = self.from_image(levels[-1].flatten(1, 2)) + self.places
        attended = mask | ~mask.any(dim=1, keepdim=True)  # a softmax over nothing is NaN
        for layer in self.layers:
            values = layer(values, condition, image, attended)
        return self.head(values).masked_fill(~mask.unsqueeze(-1), 0.0)

    def boxes(self, y: Float[Tensor, "b n c"], sigma: Float[Tensor, " b"]) -> Float[Tensor, "b n 4"]:
        """Where noisy boxes are in the image: centre x, centre y, width, height, within bounds."""
        total = (sigma.square() + self.sigma_data**2).sqrt().view(-1, 1, 1)  # 1 / c_in
        boxes = corners_to_centres(self.scaling.unscale((y[..., :-1] * total + 1) / 2)[..., :4])
        centres = boxes[..., :2].clamp(-OUTSIDE, 1 + OUTSIDE)
        return torch.cat([centres, boxes[..., 2:].clamp(SMALLEST, LARGEST)], dim=-1)


class _BoxLayer(nn.Module):
    """Self-attention among boxes, cross-attention to the image, a feed-forward layer; all modulated by sigma."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(hidden, elementwise_affine=False) for _ in range(3))
        self.attention = SelfAttention(hidden, heads)
        self.heads = heads
        self.queries, self.keys_values = nn.Linear(hidden, hidden), nn.Linear(hidden, 2 * hidden)
        self.from_heads = nn.Linear(hidden, hidden)
        # The feed-forward layer.
        self.step_in, self.step_out = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.modulation = nn.Linear(hidden, 6 * hidden)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def forward(
        self,
        values: Float[Tensor, "b n h"],
        condition: Float[Tensor, "b 1 h"],
        image: Float[Tensor, "b locations h"],
        mask: Bool[Tensor, "b n"],
    ) -> Float[Tensor, "b n h"]:
        """The elements' new features."""
        scales = self.modulation(F.silu(condition)).chunk(6, dim=-1)
        values = values + self.attention(torch.addcmul(scales[1], self.norms[0](values), 1 + scales[0]), mask)
        values = values + self._read(torch.addcmul(scales[3], self.norms[1](values), 1 + scales[2]), image)
        ffn_input = torch.addcmul(scales[5], self.norms[2](values), 1 + scales[4])
        return values + self.step_out(F.silu(self.step_in(ffn_input)))

    def _read(self, values: Tensor, image: Tensor) -> Tensor:
        queries = self.queries(values).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        keys, contents = self.keys_values(image).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        weights = (queries @ keys.transpose(2, 3) / queries.shape[-1] ** 0.5).softmax(dim=-1)
        return self.from_heads((weights @ contents).transpose(1, 2).flatten(2))
