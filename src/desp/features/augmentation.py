"""Random changes of faces that keep their attributes."""

from dataclasses import dataclass
from math import pi

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from desp.data.image_augmentation import recoloured


@dataclass(frozen=True)
class FaceAugmentation:
    """Flips, small affine maps, changes of colour, and random erasing (Zhong et al. 2020).

    Attributes:
        flip: probability of a horizontal flip.
        rotation: largest angle, in degrees.
        scale: largest change of size, as a fraction.
        shift: largest shift along each axis, as a fraction of the side.
        colour: strength of changes of colour; see `BoxAugmentation`.
        erase: probability that a rectangle is erased.
        erased: largest side of it, as a fraction of the image's.
    """

    flip: float = 0.5
    rotation: float = 8.0
    scale: float = 0.1
    shift: float = 0.06
    colour: float = 1.0
    erase: float = 0.5
    erased: float = 0.4

    def __call__(self, images: Float[Tensor, "b c h w"], generator: torch.Generator) -> Float[Tensor, "b c h w"]:
        """Change images of intensities in [0, 1] on the generator's device."""
        moved = self._moved(images, generator)
        return self._erased(recoloured(moved, self.colour, generator), generator)

    def _moved(self, images: Float[Tensor, "b c h w"], generator: torch.Generator) -> Float[Tensor, "b c h w"]:
        numbers = 2 * torch.rand(5, len(images), generator=generator, device=images.device) - 1
        angle, size = numbers[0] * self.rotation * pi / 180, 1 + numbers[1] * self.scale
        mirror = torch.where(numbers[2] < 2 * self.flip - 1, -1.0, 1.0)
        right, down = 2 * self.shift * numbers[3], 2 * self.shift * numbers[4]
        cosine, sine = size * angle.cos(), size * angle.sin()
        rows = torch.stack([mirror * cosine, -sine, right, mirror * sine, cosine, down], dim=1).view(-1, 2, 3)
        grid = F.affine_grid(rows, list(images.shape), align_corners=False)
        return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)

    def _erased(self, images: Float[Tensor, "b c h w"], generator: torch.Generator) -> Float[Tensor, "b c h w"]:
        """Fill a rectangle of random place and size with one random colour."""
        count, channels, height, width = images.shape
        numbers = torch.rand(5 + channels, count, 1, 1, generator=generator, device=images.device)
        tall, wide = self.erased * numbers[0], self.erased * numbers[1]
        top, left = (1 - tall) * numbers[2], (1 - wide) * numbers[3]
        y = ((torch.arange(height, device=images.device) + 0.5) / height).view(1, -1, 1)
        x = ((torch.arange(width, device=images.device) + 0.5) / width).view(1, 1, -1)
        inside = (y >= top) & (y < top + tall) & (x >= left) & (x < left + wide) & (numbers[4] < self.erase)
        return torch.where(inside.unsqueeze(1), numbers[5:].transpose(0, 1), images)
