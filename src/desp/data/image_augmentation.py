"""Random changes of images together with the boxes in them."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from desp.constants import constant
from desp.data.base import Batch, to_float
from desp.sets import SetBatch


@dataclass(frozen=True)
class BoxAugmentation:
    """Flips and shifts images with their boxes, and changes colours.

    Shifts are by whole pixels: interpolation blurs edges, and a network that is trained on blurred ones places
    boxes less exactly in sharp images. Vacated pixels repeat the border (replicate padding): reflected objects
    would have no box. Boxes inside the image stay inside. No shape depends on what is drawn, so a CUDA graph
    can capture it.

    Attributes:
        flip: probability of a horizontal flip.
        shift: largest shift along each axis, normalised by the image's width or height.
        colour: strength of random changes of colour. At 1, brightness changes by up to .1 of the range of
            intensities, contrast by up to 25 %, the gain of each channel by up to 10 %; 0: no change.
        moves_boxes: whether to flip and shift images; boxes must then be the first four features. False: only
            colours change.
    """

    flip: float = 0.5
    shift: float = 0.15
    colour: float = 0.5
    moves_boxes: bool = True

    def __call__(self, batch: Batch, generator: torch.Generator) -> Batch:
        """The augmented batch; images are bytes or intensities in [0, 1]. Features after the first four stay."""
        images, sets = batch.x, batch.sets
        if self.moves_boxes:
            flipped = torch.rand(len(images), generator=generator, device=images.device) < self.flip
            elements = torch.where(flipped.view(-1, 1, 1), _mirrored(sets.elements), sets.elements)
            height, width = images.shape[-2:]
            pixels = self._pixels(elements[..., :4], sets.mask, (width, height), generator)
            shift = pixels / constant((width, height), images.device, elements.dtype)
            boxes = elements[..., :4] + shift.repeat(1, 2).unsqueeze(1)
            elements = torch.cat([boxes, elements[..., 4:]], dim=-1)
            sets = SetBatch(elements.masked_fill(~sets.mask.unsqueeze(-1), 0.0), sets.mask)
            images = _moved(images, flipped, pixels)
        return Batch(recoloured(to_float(images, torch.float32), self.colour, generator), sets)

    def _pixels(
        self,
        boxes: Float[Tensor, "b n 4"],
        mask: Bool[Tensor, "b n"],
        size: tuple[int, int],
        generator: torch.Generator,
    ) -> Int[Tensor, "b 2"]:
        """Shifts to the right and down in pixels, by which no box of an image leaves it."""
        absent = ~mask.unsqueeze(-1)
        low = boxes[..., :2].masked_fill(absent, 1.0).amin(dim=1)
        high = boxes[..., 2:].masked_fill(absent, 0.0).amax(dim=1)
        first, last = (-low).clamp(-self.shift, 0), (1 - high).clamp(0, self.shift)
        numbers = torch.rand(len(boxes), 2, generator=generator, device=boxes.device)
        return ((first + numbers * (last - first)) * constant(size, boxes.device, boxes.dtype)).trunc().long()


def recoloured(
    images: Float[Tensor, "b c h w"], strength: float, generator: torch.Generator
) -> Float[Tensor, "b c h w"]:
    """Images of intensities in [0, 1] with random brightness, contrast and gains of channels.

    Args:
        images: on the generator's device.
        strength: of the changes; see `BoxAugmentation.colour`.
        generator: of the random numbers.
    """
    if strength == 0:
        return images
    shape = (2 + images.shape[1], len(images), 1, 1)
    numbers = (torch.rand(shape, generator=generator, device=images.device) - 0.5) * strength
    brightness, contrast, gains = 0.2 * numbers[0], 1 + 0.5 * numbers[1], 1 + 0.2 * numbers[2:]
    changed = (images - 0.5) * contrast.unsqueeze(1) + 0.5 + brightness.unsqueeze(1)
    return (changed * gains.transpose(0, 1)).clamp(0, 1)


def _mirrored(elements: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
    left, top, right, bottom = elements[..., :4].unbind(dim=-1)
    return torch.cat([torch.stack([1 - right, top, 1 - left, bottom], dim=-1), elements[..., 4:]], dim=-1)


def _moved(images: Tensor, flipped: Bool[Tensor, " b"], pixels: Int[Tensor, "b 2"]) -> Tensor:
    """Images (B, C, H, W) flipped, then shifted to the right and down."""
    height, width = images.shape[-2:]
    across, down = (
        (torch.arange(size, device=images.device) - pixels[:, axis, None]).clamp(0, size - 1)
        for axis, size in ((0, width), (1, height))
    )
    across = torch.where(flipped.unsqueeze(1), width - 1 - across, across)
    images = images.gather(3, across.view(-1, 1, 1, width).expand_as(images))
    return images.gather(2, down.view(-1, 1, height, 1).expand_as(images))
