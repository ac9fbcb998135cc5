"""Random changes of images together with the boxes in them."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from desp.data.base import Batch, to_float
from desp.sets import SetBatch

# Boxes fill at most this share of the image's width and height after a zoom.
FULLEST = 0.98


@dataclass(frozen=True)
class BoxAugmentation:
    """Flips, zooms and shifts images with their boxes, and changes colours.

    No shape depends on what is drawn, so that it can be captured as a part of a training step. No box leaves the
    image that was inside: zooms and shifts are bounded by the room that all boxes of an image together have.

    Attributes:
        flip: probability of a horizontal flip.
        zoom: largest absolute logarithm of the zoom, the same for both axes.
        stretch: largest absolute logarithm of a further zoom of each axis by itself.
        shift: largest shift, as a share of the image.
        colour: strength of changes of brightness, contrast and of each channel; 0: none.
        moves_boxes: whether the first four features are a box; else images stay in place.
    """

    flip: float = 0.5
    zoom: float = 0.2
    stretch: float = 0.05
    shift: float = 0.1
    colour: float = 1.0
    moves_boxes: bool = True

    def __call__(self, batch: Batch, generator: torch.Generator) -> Batch:
        """Images of intensities in [0, 1], and their boxes; columns behind the first four stay as they are."""
        images = to_float(batch.x, torch.float32)
        if not self.moves_boxes:
            return Batch(self._coloured(images, generator), batch.sets)
        boxes, mask = batch.sets.elements[..., :4], batch.sets.mask
        images, boxes = self._flipped(images, boxes, generator)
        scale, offset = self._placement(boxes, mask, generator)
        images = _placed(images, scale, offset)
        boxes = boxes * scale.repeat(1, 2).unsqueeze(1) + offset.repeat(1, 2).unsqueeze(1)
        elements = torch.cat([boxes, batch.sets.elements[..., 4:]], dim=-1)
        sets = SetBatch(elements.masked_fill(~mask.unsqueeze(-1), 0.0), mask)
        return Batch(self._coloured(images, generator), sets)

    def _flipped(
        self, images: Float[Tensor, "b c h w"], boxes: Float[Tensor, "b n 4"], generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        flipped = torch.rand(len(images), generator=generator, device=images.device) < self.flip
        left, top, right, bottom = boxes.unbind(dim=-1)
        mirrored = torch.stack([1 - right, top, 1 - left, bottom], dim=-1)
        images = torch.where(flipped.view(-1, 1, 1, 1), images.flip(3), images)
        return images, torch.where(flipped.view(-1, 1, 1), mirrored, boxes)

    def _placement(
        self, boxes: Float[Tensor, "b n 4"], mask: Bool[Tensor, "b n"], generator: torch.Generator
    ) -> tuple[Float[Tensor, "b 2"], Float[Tensor, "b 2"]]:
        """Scale and offset of each axis: a place p of the image goes to scale p + offset."""
        numbers = torch.rand(len(boxes), 5, generator=generator, device=boxes.device)
        scale = ((2 * numbers[:, :1] - 1) * self.zoom + (2 * numbers[:, 1:3] - 1) * self.stretch).exp()
        absent = ~mask.unsqueeze(-1)
        low = boxes[..., :2].masked_fill(absent, 1.0).amin(dim=1)
        high = boxes[..., 2:].masked_fill(absent, 0.0).amax(dim=1)
        scale = torch.minimum(scale, FULLEST / (high - low).clamp(min=1e-3))
        middle = (1 - scale) / 2
        least, most = -scale * low, 1 - scale * high  # within these, all boxes stay in the image
        first = (middle - self.shift).maximum(least).minimum(most)
        last = (middle + self.shift).minimum(most).maximum(least)
        return scale, first + numbers[:, 3:] * (last - first)

    def _coloured(self, images: Float[Tensor, "b c h w"], generator: torch.Generator) -> Tensor:
        if self.colour == 0:
            return images
        shape = (2 + images.shape[1], len(images), 1, 1)
        numbers = (torch.rand(shape, generator=generator, device=images.device) - 0.5) * self.colour
        brightness, contrast, gains = 0.2 * numbers[0], 1 + 0.5 * numbers[1], 1 + 0.2 * numbers[2:]
        changed = (images - 0.5) * contrast.unsqueeze(1) + 0.5 + brightness.unsqueeze(1)
        return (changed * gains.transpose(0, 1)).clamp(0, 1)


def _placed(images: Float[Tensor, "b c h w"], scale: Float[Tensor, "b 2"], offset: Float[Tensor, "b 2"]) -> Tensor:
    """Images scaled and moved, what comes in from outside like the border: mirrored objects would have no box."""
    # In grid_sample's coordinates, -1 to 1: where a place of the result comes from.
    # Written out, as affine_grid is a matrix product, whose precision may be set lower than places need.
    back = (1 - 2 * offset) / scale - 1
    down, across = (
        ((2 * torch.arange(size, device=images.device) + 1) / size - 1) / scale[:, axis, None]
        + back[:, axis, None]
        for axis, size in ((1, images.shape[2]), (0, images.shape[3]))
    )
    shape = (len(images), *images.shape[2:])
    grid = torch.stack([across.unsqueeze(1).expand(shape), down.unsqueeze(2).expand(shape)], dim=-1)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)
