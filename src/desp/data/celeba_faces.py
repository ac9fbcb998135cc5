"""CelebA's faces: decoded once, with all their attributes, in three parts."""

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from desp.data.celeba_files import CelebaFiles, celeba_files
from desp.data.celeba_lists import PARTS, Part, read_attributes, read_partition
from desp.data.folders import cache_roots
from desp.data.image_cache import COMPLETE, Progress, cached_in, complete, decode_images, map_images
from desp.data.skips import Skips
from desp.errors import DataError
from desp.randomness import make_generator

SIDE = 96
VERSION = 1
"""Version of how images are decoded; raise it when that changes."""
ALL = 202_599
"""Number of images in the whole of CelebA."""
SHARES = (0.7, 0.1)
"""Shares of training and validation images where the official split cannot be used; the others are for test."""
LEAST = 10
"""The fewest images that are split."""

Split = Literal["official", "70/10/20"]


@dataclass(frozen=True)
class CelebaFaces:
    """All faces that can be used.

    Attributes:
        files: where they are from.
        names: of the image files.
        images: (M, 3, 96, 96) bytes, whole faces resized, memory-mapped: only what is used is read.
        attributes: (M, A), all attributes of the list.
        attribute_names: A names.
        parts: (M,), the place in `PARTS` of the part that a face belongs to.
        split: the official one, or one that was drawn, see `split_images`.
        skips: what cannot be used.
    """

    files: CelebaFiles
    names: tuple[str, ...]
    images: UInt8[Tensor, "m 3 side side"]
    attributes: Bool[Tensor, "m a"]
    attribute_names: tuple[str, ...]
    parts: Int[Tensor, " m"]
    split: Split
    skips: Skips

    def rows(self, part: Part) -> Int[Tensor, " k"]:
        """Numbers of the faces of a part."""
        return torch.nonzero(self.parts == PARTS.index(part)).flatten()

    def names_of(self, part: Part) -> tuple[str, ...]:
        """Names of the image files of a part."""
        return tuple(self.names[row] for row in self.rows(part).tolist())


def read_faces(data_dir: str | Path | None = None, progress: Progress | None = None) -> CelebaFaces:
    """Read and check the lists, and map the decoded images, which are decoded the first time; that takes a while.

    The cache is in the data's folder, or in the user's cache folder if nothing can be written there.

    Args:
        data_dir: where; see `celeba_folder`.
        progress: called with "decoding", the number of images done, and of all.

    Raises:
        DataError: files are missing, a list is not as it should be, or too few images can be used.
    """
    files = celeba_files(data_dir)
    attributes = read_attributes(files.attribute_file)
    values = attributes.of(files.images, files.attribute_file)
    split, parts = split_images(files.images, read_partition(files.partition_file, files.images))
    images, names, skips = cached_in(
        celeba_roots(files.folder),
        "images",
        f"{files.fingerprint}-{VERSION}",
        _load,
        lambda folder: _build(folder, files, progress),
    )
    usable = set(names)
    kept = torch.tensor([row for row, name in enumerate(files.images) if name in usable])
    faces = CelebaFaces(files, names, images, values[kept], attributes.names, parts[kept], split, skips)
    for part in PARTS:
        if len(faces.rows(part)) == 0:
            raise DataError(
                f"No image for {part} can be used: {skips.summary()}. Repair them, or get more images."
            )
    return faces


def celeba_roots(folder: Path) -> tuple[Path, Path]:
    """Folders in which what is made of the images may be kept."""
    return cache_roots(folder, "celeba", SIDE)


def split_images(images: tuple[str, ...], official: Int[Tensor, " m"]) -> tuple[Split, Int[Tensor, " m"]]:
    """The official split if it has images in all its parts, else a random split.

    The random split has 70 % for training, 10 % for validation, and the others for test. Its seed is fixed: the
    same images are split alike everywhere.

    Args:
        images: their names, in alphabetical order.
        official: the part of each, as the place in `PARTS`.

    Returns:
        Which split it is, and the part of each image.

    Raises:
        DataError: there are too few images.
    """
    if len(images) < LEAST:
        raise DataError(
            f"At least {LEAST} images of CelebA are needed for training, validation and test, got {len(images)}. "
            "Get more of them."
        )
    if len(official.unique()) == len(PARTS):
        return "official", official
    training, validation = (round(share * len(images)) for share in SHARES)
    order = torch.randperm(len(images), generator=make_generator("celeba split"))
    parts = torch.full_like(official, 2)
    parts[order[:training]] = 0
    parts[order[training : training + validation]] = 1
    return "70/10/20", parts


# -- decoded images --------------------------------------------------------------------------------------

_Cached = tuple[Tensor, tuple[str, ...], Skips]


def _load(folder: Path) -> _Cached | None:
    """The content of a cache folder; None if it is not complete, or something in it is damaged."""
    try:
        known = json.loads((folder / COMPLETE).read_bytes())
        images, names = map_images(folder), tuple(known["names"])
        skips = Skips(**known["skips"])
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None
    return (images, names, skips) if len(images) == len(names) else None


def _build(folder: Path, files: CelebaFiles, progress: Progress | None) -> None:
    paths = [files.image_folder / name for name in files.images]
    unusable = decode_images(folder, paths, SIDE, partial(progress, "decoding") if progress else None)
    skips = Skips()
    for number, (reason, detail) in sorted(unusable.items()):
        skips.add(reason, f"{files.images[number]} ({detail})")
    if len(unusable) == len(paths):
        raise DataError(f"None of the images can be used: {skips.summary()}. Get them anew.")
    names = [name for number, name in enumerate(files.images) if number not in unusable]
    complete(folder, {"names": names, "skips": asdict(skips)})
