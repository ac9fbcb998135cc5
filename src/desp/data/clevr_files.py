"""The files of CLEVR in their official layout: where they are, and whether they have changed."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from desp.data.folders import data_folder, dataset_folder
from desp.errors import DataError

Split = Literal["train", "val"]
SPLITS: tuple[Split, ...] = ("train", "val")

SUBFOLDERS = ("clevr", "CLEVR_v1.0")
"""Subfolders of the given folder in which the files may be."""

OFFICIAL_PAGE = "https://cs.stanford.edu/people/jcjohns/clevr/"


@dataclass(frozen=True)
class SplitFiles:
    """The files of a split.

    Attributes:
        split: which.
        scene_file: JSON.
        image_folder: its images.
        images: names of the PNG files in it, in alphabetical order.
        fingerprint: of the content of the scene file, and of the names and sizes of the images.
    """

    split: Split
    scene_file: Path
    image_folder: Path
    images: tuple[str, ...]
    fingerprint: str


def clevr_folder(data_dir: str | Path | None = None) -> Path:
    """The folder of ``images`` and ``scenes``: `data_dir` (see `data_folder`), or one of `SUBFOLDERS` in it.

    Raises:
        DataError: it is nowhere, or something in it is missing.
    """
    return dataset_folder(
        "CLEVR", data_folder(data_dir), SUBFOLDERS, _wanted, "the folders images and scenes", _layout()
    )


def _wanted(folder: Path) -> list[Path]:
    return [path for split in SPLITS for path in (_scene_file(folder, split), folder / "images" / split)]


def _layout() -> str:
    return (
        "Wanted is the official layout: images/train/*.png, images/val/*.png, scenes/CLEVR_train_scenes.json and "
        "scenes/CLEVR_val_scenes.json. CLEVR v1.0 (18 GB) must be downloaded by hand from its official page, "
        f"{OFFICIAL_PAGE}, and unpacked. If you have it elsewhere, pass --data-dir DIR or set DESP_DATA=DIR."
    )


def _scene_file(folder: Path, split: Split) -> Path:
    return folder / "scenes" / f"CLEVR_{split}_scenes.json"


def split_files(folder: Path, split: Split) -> SplitFiles:
    """Look at the files of a split; images are not opened.

    Raises:
        DataError: a file cannot be read, or there are no images.
    """
    scene_file, image_folder = _scene_file(folder, split), folder / "images" / split
    try:
        with os.scandir(image_folder) as entries:
            files = [item for item in entries if item.name.endswith(".png") and item.is_file()]
            images = sorted((item.name, item.stat().st_size) for item in files)
        with scene_file.open("rb") as file:
            digest = hashlib.file_digest(file, "blake2b")
    except OSError as error:
        raise DataError(f"CLEVR's files cannot be read ({error}). Check the path and its permissions.") from error
    if not images:
        raise DataError(f"{image_folder} holds no PNG images. {_layout()}")
    digest.update(json.dumps(images).encode())
    names = tuple(name for name, _ in images)
    return SplitFiles(split, scene_file, image_folder, names, digest.hexdigest()[:32])
