"""Decoded images in a file that is memory-mapped; tests of CLEVR's cache go through all that may happen to it."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from desp.data import image_cache
from desp.data.image_cache import CHUNK, cached_in, complete, decode_images, map_images
from desp.data.images import UnusableImage
from desp.errors import StorageError


def decode(path: Path, side: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    if path.name == "2":
        raise UnusableImage("broken", "it is the second")
    return np.full((3, side, side), int(path.name), dtype=np.uint8)


PATHS = [Path(str(number)) for number in range(5)]


@pytest.fixture(autouse=True)
def _made_up_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_cache, "read_image", decode)
    monkeypatch.setattr(image_cache, "CHUNK", 2)


def test_any_side_and_chunk(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    unusable = decode_images(tmp_path, PATHS, 4, lambda *news: told.append(news))
    assert unusable == {2: ("broken", "it is the second")}
    assert told == [(0, 5), (2, 5), (4, 5), (5, 5)]
    complete(tmp_path, {})
    images = map_images(tmp_path)
    assert images.shape == (4, 3, 4, 4)
    assert torch.equal(images[:, 0, 0, 0], torch.tensor([0, 1, 3, 4], dtype=torch.uint8))
    assert CHUNK > 100


def test_what_was_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def until_three(path: Path, side: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
        if path.name == "4":
            raise KeyboardInterrupt
        return decode(path, side)

    def noted(path: Path, side: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
        read.append(path.name)
        return decode(path, side)

    monkeypatch.setattr(image_cache, "read_image", until_three)
    with pytest.raises(KeyboardInterrupt):
        decode_images(tmp_path, PATHS, 4)
    monkeypatch.setattr(image_cache, "read_image", noted)
    assert decode_images(tmp_path, PATHS, 4) == {2: ("broken", "it is the second")}
    assert read == ["4"]
    assert map_images(tmp_path)[:, 0, 0, 0].tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize("fails_at", range(10))
def test_a_full_disk_at_any_write_is_told_and_costs_one_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    sync, done = os.fsync, [0]

    def full(descriptor: int) -> None:
        done[0] += 1
        if done[0] > fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"(images\.npy|progress\.json) could not be written: No space left"):
        decode_images(tmp_path, PATHS, 4)
    monkeypatch.setattr(os, "fsync", sync)
    decode_images(tmp_path, PATHS, 4)
    assert map_images(tmp_path)[:, 0, 0, 0].tolist() == [0, 1, 3, 4]


def test_what_is_out_of_date_is_removed(tmp_path: Path) -> None:
    def load(folder: Path) -> str | None:
        return (folder / "file").read_text() if (folder / "file").exists() else None

    def build(folder: Path) -> None:
        folder.mkdir()
        (folder / "file").write_text(folder.name)

    assert cached_in([tmp_path], "some", "a", load, build) == "some-a"
    assert cached_in([tmp_path], "other", "a", load, build) == "other-a"
    assert cached_in([tmp_path], "some", "b", load, build) == "some-b"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["other-a", "some-b"]
