"""MNIST and Fashion-MNIST as sets of points: the places of an image's bright pixels."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from desp.data.base import Augmentation, Batch, random_order
from desp.data.images import Bytes
from desp.data.mnist_files import (
    TEST_IMAGES,
    TEST_LABELS,
    TRAIN_IMAGES,
    check_files,
    files_folder,
    read_idx,
)
from desp.errors import DataError
from desp.randomness import make_generator
from desp.sets import SetBatch, prefix_mask
from desp.settings import MnistDataset

PIXELS = 28
# The released code keeps what is above 0 after subtracting the mean, .1307 of full brightness.
THRESHOLD = 34
VALIDATION_SHARE = 0.05
_IMAGES_AT_ONCE = 5000


@dataclass(frozen=True)
class PointTable:
    """M padded sets of pixels, compact enough to lie on the device they are drawn on.

    Attributes:
        points: (M, N, 2) rows and columns, 0 to 27; zero behind the last point.
        sizes: (M,) how many rows count.
    """

    points: UInt8[Tensor, "m n 2"]
    sizes: Int[Tensor, " m"]

    def __len__(self) -> int:
        return len(self.sizes)

    def at(self, places: Tensor | slice) -> "PointTable":
        """The sets at these places."""
        return PointTable(self.points[places], self.sizes[places])

    def to(self, device: torch.device | str) -> "PointTable":
        """Move both tensors to `device`."""
        return PointTable(self.points.to(device), self.sizes.to(device))

    def batch(self) -> Batch:
        """All sets of points (row, column) in [0, 1]; the input x is the same set with presence, (B, N, 3)."""
        presence = prefix_mask(self.sizes, self.points.shape[1])
        sets = SetBatch(self.points.to(torch.float32) / (PIXELS - 1), presence)
        return Batch(sets.with_presence(), sets)

    def draw(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw sets with replacement, their points in random order.

        Nothing waits for the device and no shape depends on what is drawn, so a CUDA graph can capture it. Absent
        rows stay behind the points. Input and set have the same order.
        """
        device = self.points.device
        chosen = torch.randint(len(self), (batch_size,), generator=generator, device=device)
        points, sizes = self.points[chosen], self.sizes[chosen]
        order = random_order(sizes, points.shape[1], generator)
        points = points.gather(1, order.unsqueeze(-1).expand_as(points))
        return PointTable(points, sizes).batch()


def translate_points(fraction: float, grid: int) -> Augmentation:
    """Translate sets of points on a grid by whole steps, for auto-encoders: the input is the set itself.

    No shape depends on what is drawn, so a CUDA graph can capture it.

    Args:
        fraction: of the sets that are translated, each to a uniformly drawn place with room for all its points.
        grid: places along each axis; coordinates are 0, 1 / (grid - 1), ..., 1.
    """

    def augment(batch: Batch, generator: torch.Generator) -> Batch:
        elements, presence = batch.sets.elements, batch.sets.mask
        absent = ~presence.unsqueeze(-1)
        places = (elements * (grid - 1)).round().to(torch.int16)
        lowest = places.masked_fill(absent, grid - 1).amin(dim=1, keepdim=True)
        room = grid - 1 - places.amax(dim=1, keepdim=True) + lowest
        share = torch.rand(lowest.shape, generator=generator, device=elements.device)
        target = (share * (room + 1)).to(torch.int16).minimum(room)
        chosen = torch.rand(len(elements), 1, 1, generator=generator, device=elements.device) < fraction
        moved = torch.where(chosen & ~absent, places - lowest + target, places)
        sets = SetBatch(moved.to(elements.dtype) / (grid - 1), presence)
        return Batch(sets.with_presence(), sets)

    return augment


@dataclass(frozen=True)
class MnistData:
    """All sets, padded to the size of the largest one.

    Attributes:
        training: 95 % of the official training images, in an order that is always the same.
        validation: the other official training images.
        test: the official test images, in their order.
        labels: (M,) what the test images show, 0 to 9.
        checksum: of the files.
    """

    training: PointTable
    validation: PointTable
    test: PointTable
    labels: Bytes
    checksum: str


def load_mnist(dataset: MnistDataset, data_dir: str | Path | None = None) -> MnistData:
    """Check the files and read their images as point sets, which takes about a second.

    Args:
        dataset: which data.
        data_dir: where; see `data_folder`.

    Raises:
        DataError: files are missing, damaged, or not the official ones.
    """
    folder = files_folder(dataset, data_dir)
    checksum = check_files(folder, dataset)
    training, test = (read_idx(folder / name, (None, PIXELS, PIXELS)) for name in (TRAIN_IMAGES, TEST_IMAGES))
    if len(training) == 0 or len(test) == 0:
        raise DataError(f"{folder / (TEST_IMAGES if len(training) else TRAIN_IMAGES)} holds no images.")
    size = max(int((images >= THRESHOLD).sum(axis=(1, 2)).max()) for images in (training, test))
    labels = read_idx(folder / TEST_LABELS, (len(test),))
    known = points_of(training, size)
    order = torch.randperm(len(known), generator=make_generator("mnist split"))
    validation, rest = order.tensor_split([max(1, round(VALIDATION_SHARE * len(order)))])
    return MnistData(known.at(rest), known.at(validation), points_of(test, size), labels, checksum)


def points_of(images: Bytes, max_size: int) -> PointTable:
    """The bright pixels of images (M, 28, 28) in reading order, padded to `max_size`."""
    points = np.zeros((len(images), max_size, 2), dtype=np.uint8)
    sizes = np.zeros(len(images), dtype=np.int64)
    # In parts: the indices of all bright pixels at once would take much memory.
    for first in range(0, len(images), _IMAGES_AT_ONCE):
        part = slice(first, first + _IMAGES_AT_ONCE)
        bright = images[part] >= THRESHOLD
        sizes[part] = bright.sum(axis=(1, 2))
        present = np.arange(max_size) < sizes[part, None]
        points[part][present] = np.stack(np.nonzero(bright)[1:], axis=1)
    return PointTable(torch.from_numpy(points), torch.from_numpy(sizes))
