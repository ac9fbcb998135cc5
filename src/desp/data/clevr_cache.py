"""CLEVR's scenes and images, in a cache of decoded images."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from desp.data.clevr_files import SplitFiles
from desp.data.clevr_scene_file import AnnotatedScenes
from desp.data.image_cache import (
    COMPLETE,
    Progress,
    cached_in,
    complete,
    decode_images,
    map_images,
    write_array,
)
from desp.data.skips import Skips
from desp.errors import DataError

SIDE = 128
VERSION = 1
"""Version of the cache; raise it when boxes, states or images are made in another way."""

ARRAYS = ("boxes", "states", "sizes")


@dataclass(frozen=True)
class CachedSplit:
    """Scenes with their images.

    Attributes:
        images: (M, 3, 128, 128), a memory map: only what is used is read.
        scenes: their M scenes.
    """

    images: UInt8[Tensor, "m 3 side side"]
    scenes: AnnotatedScenes


def cached_split(
    roots: Sequence[Path], files: SplitFiles, read: Callable[[], AnnotatedScenes], progress: Progress | None = None
) -> CachedSplit:
    """The images of a split: mapped if they are cached, else cached first.

    Several processes may ask at once: one builds, the others wait for it.

    Args:
        roots: folders of caches. A complete cache in one of them is used; else the first writable one gets it.
        files: of the split.
        read: gives the scenes in the wanted order; called only where they are not cached.
        progress: called with the split, the number of images done, and of all.

    Raises:
        DataError: no image can be used, one cannot be read, or no folder can be written to.
    """
    fingerprint = f"{files.fingerprint}-{VERSION}"
    return cached_in(
        roots, files.split, fingerprint, _load, lambda folder: _build(folder, files, read(), progress)
    )


def _load(folder: Path) -> CachedSplit | None:
    """The content of a cache folder; None if it is not complete, or something in it is damaged."""
    try:
        known = json.loads((folder / COMPLETE).read_bytes())
        images = map_images(folder)
        boxes, states, sizes = (
            torch.from_numpy(np.load(folder / f"{name}.npy", allow_pickle=False)) for name in ARRAYS
        )
        skips = Skips(**known["skips"])
        scenes = AnnotatedScenes(
            tuple(known["names"]), boxes, states, sizes, known["clipped"], skips, known["label"]
        )
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None
    whole = all(len(array) == len(scenes) for array in (images, boxes, states, sizes))
    return CachedSplit(images, scenes) if whole else None


def _build(folder: Path, files: SplitFiles, scenes: AnnotatedScenes, progress: Progress | None) -> None:
    paths = [files.image_folder / name for name in scenes.names]
    unusable = decode_images(folder, paths, SIDE, partial(progress, files.split) if progress else None)
    skips = scenes.skips.copy()
    for number, (reason, detail) in sorted(unusable.items()):
        skips.add(reason, f"{scenes.names[number]} ({detail})")
    if len(unusable) == len(scenes):
        raise DataError(f"None of the images can be used: {skips.summary()}.")
    kept = torch.tensor([number for number in range(len(scenes)) if number not in unusable])
    scenes = replace(scenes.at(kept), skips=skips)
    for name in ARRAYS:
        write_array(folder / f"{name}.npy", getattr(scenes, name).numpy())
    known = {"names": scenes.names, "clipped": scenes.clipped, "label": scenes.label}
    complete(folder, {**known, "skips": asdict(skips)})
