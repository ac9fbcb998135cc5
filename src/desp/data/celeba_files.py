"""The files of CelebA in their official layout: where they are, and whether they have changed."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from desp.data.folders import data_folder, dataset_folder
from desp.errors import DataError

SUBFOLDERS = ("celeba", "CelebA")
"""Subfolders of the given folder in which the files may be."""

IMAGES, ATTRIBUTES, PARTITION = "img_align_celeba", "list_attr_celeba.txt", "list_eval_partition.txt"
OFFICIAL_PAGE = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"


@dataclass(frozen=True)
class CelebaFiles:
    """The files of CelebA, or of a subset of its images.

    Attributes:
        folder: where they are.
        images: names of the JPEG files, in alphabetical order.
        fingerprint: of the contents of both lists, and of the names and sizes of the images.
    """

    folder: Path
    images: tuple[str, ...]
    fingerprint: str

    @property
    def image_folder(self) -> Path:
        """Where the images are."""
        return self.folder / IMAGES

    @property
    def attribute_file(self) -> Path:
        """The list of attributes."""
        return self.folder / ATTRIBUTES

    @property
    def partition_file(self) -> Path:
        """The list of the official split."""
        return self.folder / PARTITION


def celeba_folder(data_dir: str | Path | None = None) -> Path:
    """The folder that holds images and lists: `data_dir` (see `data_folder`), or one of `SUBFOLDERS` in it.

    Raises:
        DataError: it is nowhere, or something in it is missing.
    """
    return dataset_folder(
        "CelebA", data_folder(data_dir), SUBFOLDERS, _wanted, f"{IMAGES}, {ATTRIBUTES} and {PARTITION}", _layout()
    )


def _wanted(folder: Path) -> list[Path]:
    return [folder / name for name in (IMAGES, ATTRIBUTES, PARTITION)]


def _layout() -> str:
    return (
        f"Wanted is the official layout: {IMAGES}/*.jpg, all images or any of them, {ATTRIBUTES} and {PARTITION}. "
        "CelebA is for non-commercial research, and must be downloaded by hand from its official page, "
        f"{OFFICIAL_PAGE}, and unpacked. If you have it elsewhere, pass --data-dir DIR or set DESP_DATA=DIR. Then "
        "run `desp data celeba`. To try the task without faces: --task.source simulated."
    )


def celeba_files(data_dir: str | Path | None = None) -> CelebaFiles:
    """Find the files; images are not opened.

    Raises:
        DataError: something is missing or cannot be read, or there are no images.
    """
    folder = celeba_folder(data_dir)
    digest = hashlib.blake2b()
    try:
        with os.scandir(folder / IMAGES) as entries:
            files = [item for item in entries if item.name.endswith(".jpg") and item.is_file()]
            images = sorted((item.name, item.stat().st_size) for item in files)
        for name in (ATTRIBUTES, PARTITION):
            digest.update(hashlib.blake2b((folder / name).read_bytes()).digest())
    except OSError as error:
        raise DataError(f"CelebA's files cannot be read ({error}). Check the path and its permissions.") from error
    if not images:
        raise DataError(f"{folder / IMAGES} holds no JPEG images. {_layout()}")
    digest.update(json.dumps(images).encode())
    return CelebaFiles(folder, tuple(name for name, _ in images), digest.hexdigest()[:32])
