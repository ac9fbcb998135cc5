"""A small CelebA of images made here, in the official layout."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from desp.data.celeba_lists import USED

NAMES = (*USED, "Smiling", "Young")
"""Of the attributes, in place of 40."""


def attribute_values(count: int) -> "np.ndarray[tuple[int, int], np.dtype[np.bool_]]":
    """Which face has which attribute: the first two are frequent together."""
    values = np.random.default_rng(0).random((count, len(NAMES))) < 0.3
    values[:, :2] |= (np.arange(count) % 4 != 0)[:, None]
    return values


def write_face(path: Path, number: int, *, bright: bool = False) -> None:
    """A JPEG image that differs from the others."""
    pixels = np.random.default_rng(number).integers(0, 120, (14, 12, 3), dtype=np.uint8)
    Image.fromarray(pixels + np.uint8(120 * bright)).save(path, quality=95)


def write_tiny_celeba(folder: Path, images: int, rows: int | None = None, parts: Sequence[int] = (0,)) -> Path:
    """Write images and both lists.

    Args:
        folder: where.
        images: how many.
        rows: of the lists; as many as images if not given.
        parts: numbers of the official split, which are repeated.
    """
    (folder / "img_align_celeba").mkdir(parents=True)
    rows = images if rows is None else rows
    values, names = attribute_values(rows), [f"{row + 1:06d}.jpg" for row in range(rows)]
    lines = [
        f"{name}  " + " ".join("1" if item else "-1" for item in row)
        for name, row in zip(names, values, strict=True)
    ]
    write_list(folder, "attr", [str(rows), " ".join(NAMES) + " ", *lines])
    write_list(folder, "eval", [f"{name} {parts[row % len(parts)]}" for row, name in enumerate(names)])
    for row in range(images):
        write_face(folder / "img_align_celeba" / names[row], row, bright=bool(values[row, 0]))
    return folder


def list_path(folder: Path, kind: str) -> Path:
    """The list of attributes (``attr``) or of the split (``eval``)."""
    return folder / {"attr": "list_attr_celeba.txt", "eval": "list_eval_partition.txt"}[kind]


def write_list(folder: Path, kind: str, lines: Sequence[str]) -> None:
    """Write one of the lists."""
    list_path(folder, kind).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_list(folder: Path, kind: str) -> list[str]:
    """The lines of one of the lists."""
    return list_path(folder, kind).read_text(encoding="utf-8").splitlines()


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make everything small that takes long: a narrow network, small images, few faces for sets."""
    monkeypatch.setattr("desp.nn.resnet.CHANNELS", (4, 4, 6, 8))
    monkeypatch.setattr("desp.nn.resnet.BLOCKS", (1, 1, 1, 1))
    monkeypatch.setattr("desp.data.celeba_faces.SIDE", 32)
    monkeypatch.setattr("desp.data.subsets.PAIR_THRESHOLD", 1)
