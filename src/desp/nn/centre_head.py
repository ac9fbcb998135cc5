"""Centres of boxes as peaks of a heat map, with an offset and a size at each (CenterNet, Zhou et al. 2019)."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from desp.constants import constant
from desp.nn.pyramid import split_levels

# The standard deviation of a peak is this share of the size of its box, and at least this many cells.
PEAK_SIGMA_FRACTION, MIN_SIGMA_CELLS = 1 / 6, 0.7
# Exponents of CenterNet's focal loss: how much less locations count that are sure, or near a centre.
FOCAL_ALPHA, FOCAL_BETA = 2, 4
# A location and those around it: where the box of a centre is learned.
AROUND = tuple((column, row) for row in (-1, 0, 1) for column in (-1, 0, 1))
BOX_WEIGHT = 2.0
# The logit of a hundredth: how many locations are centres before anything is learned.
PRIOR_LOGIT = -4.6


class CentreHead(nn.Module):
    """A detector's head on the finest level of a pyramid.

    Args:
        features: of one location.
        hidden: width of its hidden layers.
        shapes: rows and columns of the pyramid's levels.
    """

    def __init__(self, features: int, hidden: int, shapes: list[tuple[int, int]]) -> None:
        super().__init__()
        self.shapes = shapes
        self.heat, self.geometry = _layers(features, hidden, 1), _layers(features, hidden, 4)
        nn.init.constant_(self.heat[-1].bias, PRIOR_LOGIT)  # type: ignore[arg-type]

    def loss(
        self, code: Float[Tensor, "b locations c"], boxes: Float[Tensor, "b n 4"], mask: Bool[Tensor, "b n"]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Focal loss of the heat map, mean over boxes, and the weighted error of boxes near their centres.

        Args:
            code: of a pyramid.
            boxes: centre x, centre y, width, height, normalised by the image's width and height.
            mask: which of them there are.
        """
        heat, geometry = self._maps(code)
        cells = boxes * self._grid_size(boxes)
        gaussians = torch.where(mask.unsqueeze(-1), self._gaussians(cells), 0.0)
        target = gaussians.amax(dim=1)
        focal = focal_loss(heat, (target == 1).to(target.dtype), target) / mask.sum().clamp(min=1)
        return focal, BOX_WEIGHT * self._box_error(geometry, cells, gaussians)

    def peaks(
        self, code: Float[Tensor, "b locations c"], count: int
    ) -> tuple[Float[Tensor, "b n 4"], Float[Tensor, "b n"]]:
        """The boxes at the `count` highest peaks, normalised, and the peaks' values, from 0 to 1."""
        heat, geometry = self._maps(code)
        rows, columns = self.shapes[0]
        # Of logits: a sigmoid makes high ones equal, and equal neighbours would all be peaks.
        grid = heat.unflatten(1, (1, rows, columns))
        peak = grid == F.max_pool2d(grid, 3, stride=1, padding=1)
        highest, locations = grid.masked_fill(~peak, -torch.inf).flatten(1).topk(count, dim=1)
        found = geometry.gather(1, locations.unsqueeze(-1).expand(-1, -1, 4))
        centres = self._column_row(locations) + 0.5 + found[..., :2]
        cells = torch.cat([centres, found[..., 2:].exp()], dim=-1)
        return cells / self._grid_size(cells), highest.sigmoid()

    def _maps(self, code: Tensor) -> tuple[Float[Tensor, "b locations"], Float[Tensor, "b locations 4"]]:
        """Logits of the heat map, and offset and logarithmic size, at all locations."""
        finest = split_levels(code, self.shapes)[0].permute(0, 3, 1, 2)
        return self.heat(finest).flatten(1), self.geometry(finest).flatten(2).transpose(1, 2)

    def _grid_size(self, like: Tensor) -> Float[Tensor, " 4"]:
        rows, columns = self.shapes[0]
        return constant((columns, rows, columns, rows), like.device, like.dtype)

    def _locations(self, cells: Float[Tensor, "b n 4"]) -> Int[Tensor, "b n"]:
        """The location of each centre."""
        rows, columns = self.shapes[0]
        column, row = (
            cells[..., axis].floor().clamp(0, end - 1).long() for axis, end in ((0, columns), (1, rows))
        )
        return row * columns + column

    def _column_row(self, locations: Int[Tensor, "*b"]) -> Int[Tensor, "*b 2"]:
        columns = self.shapes[0][1]
        return torch.stack([locations % columns, locations // columns], dim=-1)

    def _gaussians(self, cells: Float[Tensor, "b n 4"]) -> Float[Tensor, "b n locations"]:
        """A Gaussian around the location of each centre, 1 there: the target heat map of each box."""
        rows, columns = self.shapes[0]
        grid = self._column_row(torch.arange(rows * columns, device=cells.device))
        sigma = (cells[..., 2:] * PEAK_SIGMA_FRACTION).clamp(min=MIN_SIGMA_CELLS).unsqueeze(2)
        centres = self._column_row(self._locations(cells)).unsqueeze(2)
        return (((grid - centres) / sigma).square().sum(dim=-1) / -2).exp()

    def _box_error(
        self,
        geometry: Float[Tensor, "b locations 4"],
        cells: Float[Tensor, "b n 4"],
        gaussians: Float[Tensor, "b n locations"],
    ) -> Float[Tensor, ""]:
        """The error of boxes at the locations around their centres, but where another box is nearer.

        A peak that is one location off finds the same box then, and nine locations learn from each. A centre's
        error is divided by half the size of its box, a size's is that of its logarithm: both reduce the IoU about
        equally.
        """
        locations = self._around(cells)  # (B, N, 9)
        own, nearest = gaussians.gather(2, locations), gaussians.amax(dim=1).gather(1, locations.flatten(1))
        counts = (own > 0) & (own >= nearest.view_as(own))
        found = geometry.gather(1, locations.flatten(1).unsqueeze(-1).expand(-1, -1, 4)).view(*locations.shape, 4)
        target = cells.unsqueeze(2)
        offsets = (found[..., :2] - (target[..., :2] - self._column_row(locations) - 0.5)).abs()
        logarithms = (found[..., 2:] - target[..., 2:].clamp(min=1e-3).log()).abs()
        errors = (2 * offsets / target[..., 2:].clamp(min=1) + logarithms).sum(dim=-1)
        return torch.where(counts, errors, 0.0).sum() / counts.sum().clamp(min=1)

    def _around(self, cells: Float[Tensor, "b n 4"]) -> Int[Tensor, "b n 9"]:
        """The locations of centres and those around them; at a border, the nearest inside."""
        rows, columns = self.shapes[0]
        centres = self._column_row(self._locations(cells))
        around = [
            (centres[..., 1] + row).clamp(0, rows - 1) * columns + (centres[..., 0] + column).clamp(0, columns - 1)
            for column, row in AROUND
        ]
        return torch.stack(around, dim=-1)


def focal_loss(
    logits: Float[Tensor, "b locations"],
    centre: Float[Tensor, "b locations"],
    target: Float[Tensor, "b locations"],
) -> Float[Tensor, ""]:
    """The sum over locations; the higher the target heat map, the less a location counts as background."""
    probability = logits.sigmoid()
    found = centre * (1 - probability) ** FOCAL_ALPHA * F.logsigmoid(logits)
    background = (1 - centre) * (1 - target) ** FOCAL_BETA * probability**FOCAL_ALPHA * F.logsigmoid(-logits)
    return -(found + background).sum()


def _layers(features: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(features, hidden, 3, padding=1), nn.ReLU(), nn.Conv2d(hidden, outputs, 1))
