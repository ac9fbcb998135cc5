"""CLEVR: images with the boxes, or the states, of their objects."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from desp.data.arrays import Example
from desp.data.base import Batch, random_order
from desp.data.clevr_cache import SIDE, CachedSplit, cached_split
from desp.data.clevr_files import Split, SplitFiles, clevr_folder, split_files
from desp.data.clevr_scene_file import OFFICIAL, RE_RENDERED, AnnotatedScenes, read_scenes
from desp.data.folders import cache_roots
from desp.data.image_cache import Progress
from desp.data.skips import Skips
from desp.errors import DataError
from desp.randomness import make_generator
from desp.sets import SetBatch, prefix_mask
from desp.settings import ClevrTarget

VALIDATION_SHARE = 0.05


@dataclass(frozen=True)
class ImageTable:
    """M images with padded sets, to draw batches from.

    Attributes:
        images: (M, 3, H, W) bytes.
        elements: (M, N, D); zero behind the last element.
        sizes: (M,) how many rows count.
    """

    images: UInt8[Tensor, "m 3 height width"]
    elements: Float[Tensor, "m n d"]
    sizes: Int[Tensor, " m"]

    def __len__(self) -> int:
        return len(self.sizes)

    def at(self, places: Tensor | slice) -> "ImageTable":
        """The rows at these places; a slice of a memory map is not read."""
        return ImageTable(self.images[places], self.elements[places], self.sizes[places])

    def to(self, device: torch.device | str) -> "ImageTable":
        """Move all tensors to `device`. Tensors that are there already, such as a memory map, are not copied."""
        return ImageTable(self.images.to(device), self.elements.to(device), self.sizes.to(device))

    def example(self, index: int) -> Example:
        """One image with its set (n, D)."""
        return self.images[index], (self.elements[index, : int(self.sizes[index])],)

    def batch(self) -> Batch:
        """All rows as one batch, in their order."""
        presence = prefix_mask(self.sizes, self.elements.shape[1])
        return Batch(self.images, SetBatch(self.elements, presence))

    def draw(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw rows with replacement, elements in random order; only the images that are drawn are read.

        Nothing waits for the device and no shape depends on what is drawn, so a CUDA graph can capture it. Absent
        rows stay behind the elements.
        """
        chosen = torch.randint(len(self), (batch_size,), generator=generator, device=self.sizes.device)
        images, elements, sizes = (
            item.index_select(0, chosen) for item in (self.images, self.elements, self.sizes)
        )
        order = random_order(sizes, elements.shape[1], generator)
        elements = elements.gather(1, order.unsqueeze(-1).expand_as(elements))
        return ImageTable(images, elements, sizes).batch()


def elements_of(
    boxes: Float[Tensor, "m n 4"], states: Float[Tensor, "m n 18"], target: ClevrTarget
) -> Float[Tensor, "m n d"]:
    """The features of the target: boxes, states, or both."""
    if target == "objects":
        return torch.cat([boxes, states], dim=-1)
    return boxes if target == "boxes" else states


@dataclass(frozen=True)
class ClevrPart:
    """M images with what is known of them.

    Attributes:
        images: (M, 3, 128, 128) bytes, memory-mapped: only what is used is read.
        boxes: (M, 10, 4) x1, y1, x2, y2 in [0, 1]; zero behind the last object.
        states: (M, 10, 18) coordinates divided by 3, and one-hot attributes; likewise.
        sizes: (M,) how many objects.
        names: of the image files.
    """

    images: UInt8[Tensor, "m 3 height width"]
    boxes: Float[Tensor, "m n 4"]
    states: Float[Tensor, "m n 18"]
    sizes: Int[Tensor, " m"]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.sizes)

    def at(self, places: slice) -> "ClevrPart":
        """A range of the images, which stay a view of the memory map."""
        tensors = self.images[places], self.boxes[places], self.states[places], self.sizes[places]
        return ClevrPart(*tensors, self.names[places])

    def table(self, target: ClevrTarget) -> ImageTable:
        """The images with their sets for a target."""
        return ImageTable(self.images, elements_of(self.boxes, self.states, target), self.sizes)


@dataclass(frozen=True)
class ClevrData:
    """All images that can be used.

    Attributes:
        training: 95 % of the official training images, in an order that is always the same.
        validation: the other official training images.
        test: the official validation images, in their order; the official test images have no scenes.
        data_label: which data they are, "CLEVR v1.0" or "re-rendered CLEVR".
        checksum: of the scene files, and of the names and sizes of all images.
        folder: where the files are.
        skips: what cannot be used, by split.
        clipped: how many boxes left the image and were clipped to it, by split.
    """

    training: ClevrPart
    validation: ClevrPart
    test: ClevrPart
    data_label: str
    checksum: str
    folder: Path
    skips: dict[Split, Skips] = field(default_factory=dict)
    clipped: dict[Split, int] = field(default_factory=dict)


def load_clevr(data_dir: str | Path | None = None, progress: Progress | None = None) -> ClevrData:
    """Map the cached images; the first time, and where files have changed, they are cached, which takes minutes.

    The cache is in the data's folder, or in the user's cache folder if nothing can be written there.

    Args:
        data_dir: where; see `clevr_folder`.
        progress: called with the split, the number of images done, and of all.

    Raises:
        DataError: files are missing, or nothing in them can be used.
    """
    folder = clevr_folder(data_dir)
    files = {split: split_files(folder, split) for split in ("train", "val")}
    known, test = (_cached(folder, item, progress) for item in files.values())
    if len(known.scenes) < 2:
        raise DataError(
            f"{files['train'].scene_file}: only one of its scenes can be used, and at least two are needed, for "
            f"training and validation. Left out: {known.scenes.skips.summary()}."
        )
    whole = _part(known)
    held_out = max(1, round(VALIDATION_SHARE * len(whole)))
    together = "".join(f"{split}:{item.fingerprint};" for split, item in files.items())
    return ClevrData(
        training=whole.at(slice(held_out, None)),
        validation=whole.at(slice(held_out)),
        test=_part(test),
        data_label=RE_RENDERED if RE_RENDERED in (known.scenes.label, test.scenes.label) else OFFICIAL,
        checksum=hashlib.blake2b(together.encode(), digest_size=16).hexdigest(),
        folder=folder,
        skips={"train": known.scenes.skips, "val": test.scenes.skips},
        clipped={"train": known.scenes.clipped, "val": test.scenes.clipped},
    )


def _cached(folder: Path, files: SplitFiles, progress: Progress | None) -> CachedSplit:
    roots = cache_roots(folder, "clevr", SIDE)
    return cached_split(roots, files, lambda: _ordered(read_scenes(files), files.split), progress)


def _ordered(scenes: AnnotatedScenes, split: Split) -> AnnotatedScenes:
    """Training scenes in random order, so that a random part of them is one range of the cache."""
    if split == "val":
        return scenes
    return scenes.at(torch.randperm(len(scenes), generator=make_generator("clevr split")))


def _part(cached: CachedSplit) -> ClevrPart:
    scenes = cached.scenes
    return ClevrPart(cached.images, scenes.boxes, scenes.states, scenes.sizes, scenes.names)
