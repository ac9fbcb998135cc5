"""The cache of CLEVR's images: right, resumed after any interruption, never taken for complete too early."""

import json
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from desp.data import clevr_cache, image_cache
from desp.data.clevr_cache import CachedSplit, cached_split
from desp.data.clevr_files import split_files
from desp.data.clevr_scene_file import AnnotatedScenes, read_scenes
from desp.data.images import read_image
from desp.errors import DataError
from tiny_clevr import png_that_claims, write_image, write_tiny_clevr

Told = list[tuple[str, int, int]]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_cache, "CHUNK", 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Seven scenes for training, of which the third and the last have images that cannot be used."""
    write_tiny_clevr(tmp_path / "clevr", 7, 1)
    images = tmp_path / "clevr" / "images" / "train"
    (images / "CLEVR_train_000002.png").write_bytes(b"broken")
    (images / "CLEVR_train_000006.png").write_bytes(png_that_claims(9000, 9000))
    return tmp_path / "clevr"


def build(folder: Path, progress: Callable[..., None] | None = None, *, roots: list[Path] | None = None) -> Any:
    files = split_files(folder, "train")
    return cached_split(roots or [folder / "cache"], files, partial(read_scenes, files), progress)


def check(cached: CachedSplit, folder: Path) -> None:
    """All usable scenes are there with their own images."""
    scenes = read_scenes(split_files(folder, "train"))
    kept = [index for index, name in enumerate(scenes.names) if name[-5] not in "26"]
    assert cached.scenes.names == tuple(scenes.names[index] for index in kept)
    for name in ("boxes", "states", "sizes"):
        assert torch.equal(getattr(cached.scenes, name), getattr(scenes, name)[kept])
    expected = [read_image(folder / "images" / "train" / name, 128) for name in cached.scenes.names]
    assert torch.equal(cached.images, torch.from_numpy(np.stack(expected)))


def unread() -> AnnotatedScenes:
    pytest.fail("scenes were read although they are cached")


def test_what_is_cached_is_right_and_read_only_once(folder: Path) -> None:
    told: Told = []
    cached = build(folder, lambda *news: told.append(news))
    check(cached, folder)
    assert told == [("train", done, 7) for done in (0, 2, 4, 6, 7)]
    assert cached.scenes.skips.counts == {
        "the image is broken": 1,
        "the image has more than 64 million pixels": 1,
    }
    assert cached.scenes.skips.examples["the image is broken"][0].startswith(
        "CLEVR_train_000002.png (cannot identify"
    )
    assert not list((folder / "cache").glob("train-*/progress.json"))
    again = cached_split([folder / "cache"], split_files(folder, "train"), unread)
    check(again, folder)
    assert again.scenes.skips == cached.scenes.skips
    assert (again.scenes.clipped, again.scenes.label) == (cached.scenes.clipped, cached.scenes.label)


def test_images_are_a_map_that_cannot_change_the_file(folder: Path) -> None:
    cached = build(folder)
    (path,) = (folder / "cache").glob("train-*/images.npy")
    before = path.read_bytes()
    assert np.load(path).shape == (5, 3, 128, 128)
    cached.images[0] = 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("chunks", range(5))
def test_an_interruption_costs_no_whole_chunk(folder: Path, chunks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: str, done: int, total: int) -> None:
        if done >= min(2 * chunks, total):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(folder, interrupt)
    assert not list((folder / "cache").glob("train-*/complete.json"))
    read: list[str] = []
    monkeypatch.setattr(
        image_cache, "read_image", lambda path, size: (read.append(path.name), read_image(path, size))[1]
    )
    check(build(folder), folder)
    assert sorted(read) == [f"CLEVR_train_{index:06d}.png" for index in range(min(2 * chunks, 7), 7)]


class Crash(BaseException):
    """Ends building wherever it is, as a kill does."""


def test_a_crash_at_any_moment_leaves_what_can_be_resumed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after every call that changes what is on the disk: each attempt gets one step further."""
    left = 0
    files = split_files(folder, "train")
    scenes, expected = read_scenes(files), build(folder)

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash

    def crashing(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> None:
            step()
            real(*arguments, **named)
            step()

        return call

    monkeypatch.setattr(os, "fsync", crashing(lambda _: None))
    monkeypatch.setattr(os, "replace", crashing(os.replace))
    monkeypatch.setattr(Path, "unlink", crashing(Path.unlink))
    monkeypatch.setattr(image_cache, "CHUNK", 4)
    monkeypatch.setattr(image_cache, "read_image", cache(image_cache.read_image))
    crashes = 0
    while True:
        left, root = crashes + 1, folder / f"cache {crashes}"
        try:
            cached_split([root], files, lambda: scenes)
        except Crash:
            crashes += 1
            cached = cached_split([root], files, lambda: scenes)  # without crashes, as none is left
            assert torch.equal(cached.images, expected.images)
            assert cached.scenes.names == expected.scenes.names
            assert torch.equal(cached.scenes.boxes, expected.scenes.boxes)
        else:
            break
    assert crashes > 40


@pytest.mark.parametrize(
    "damage",
    [
        lambda cache: (cache / "progress.json").write_text("{"),
        lambda cache: (cache / "progress.json").write_text("[]"),
        lambda cache: (cache / "progress.json").write_text(json.dumps({"done": 70, "unusable": []})),
        lambda cache: (cache / "images.npy").unlink(),
        lambda cache: os.truncate(cache / "images.npy", 60_000),
    ],
)
def test_building_begins_anew_where_it_is_not_clear_how_far_it_was(
    folder: Path, damage: Callable[[Path], object]
) -> None:
    def interrupt(_: str, done: int, total: int) -> None:
        if done == 4:
            raise Crash

    with pytest.raises(Crash):
        build(folder, interrupt)
    (cache,) = (folder / "cache").glob("train-*")
    damage(cache)
    told: Told = []
    check(build(folder, lambda *news: told.append(news)), folder)
    assert told[0] == ("train", 0, 7)


@pytest.mark.parametrize("name", ["complete.json", "images.npy", "boxes.npy", "states.npy", "sizes.npy"])
@pytest.mark.parametrize("content", [b"", b"{}", None])
def test_a_damaged_cache_is_built_anew(folder: Path, name: str, content: bytes | None) -> None:
    build(folder)
    (path,) = (folder / "cache").glob(f"train-*/{name}")
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    check(build(folder), folder)


def test_a_cache_that_is_built_anew_is_not_complete_meanwhile(folder: Path) -> None:
    build(folder)
    (cache,) = (folder / "cache").glob("train-*")
    (cache / "boxes.npy").unlink()

    def look(*_: object) -> None:
        assert not (cache / "complete.json").exists()

    check(build(folder, look), folder)


def test_arrays_of_another_length_are_not_taken(folder: Path) -> None:
    build(folder)
    (path,) = (folder / "cache").glob("train-*/sizes.npy")
    np.save(path, np.arange(9))
    check(build(folder), folder)


def test_other_files_are_cached_anew_and_the_old_cache_removed(folder: Path) -> None:
    build(folder)
    (before,) = (folder / "cache").glob("train-*")
    (folder / "cache" / "val-kept").mkdir()
    write_image(folder / "images" / "train" / "CLEVR_train_000004.png", 99, 40, 30)
    cached = build(folder)
    check(cached, folder)
    (after,) = (folder / "cache").glob("train-*/")
    assert after != before
    assert (folder / "cache" / "val-kept").is_dir()


def test_another_version_is_cached_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(folder)
    monkeypatch.setattr(clevr_cache, "VERSION", -1)
    told: Told = []
    build(folder, lambda *news: told.append(news))
    assert told


def test_a_folder_that_cannot_be_written_to_is_left_for_the_next(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    roots = [tmp_path / "file" / "cache", tmp_path / "second"]
    check(build(folder, roots=roots), folder)
    check(cached_split(roots, split_files(folder, "train"), unread), folder)
    with pytest.raises(DataError, match=r"Images cannot be cached: .*file/cache \(.*\). Make one of these"):
        build(folder, roots=roots[:1])


def test_a_file_that_cannot_be_read_now_is_tried_again_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(path: Path, size: int) -> Any:
        if path.name == "CLEVR_train_000003.png":
            raise DataError(f"{path} cannot be read")
        return read_image(path, size)

    monkeypatch.setattr(image_cache, "read_image", failing)
    with pytest.raises(DataError, match=r"000003\.png cannot be read"):
        build(folder)
    monkeypatch.undo()
    check(build(folder), folder)


def test_no_image_that_can_be_used(folder: Path) -> None:
    for path in (folder / "images" / "train").iterdir():
        path.write_bytes(b"broken")
    for _ in range(2):
        with pytest.raises(
            DataError, match="None of the images can be used: 7 x the image is broken: CLEVR_train_"
        ):
            build(folder)


def test_without_locks_two_may_build_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with ThreadPoolExecutor(3) as pool:
        for cached in [future.result() for future in [pool.submit(build, folder) for _ in range(3)]]:
            check(cached, folder)


def wait_for(path: Path) -> None:
    """Until a file is there; for half a minute."""
    for _ in range(3000):
        if path.exists():
            return
        time.sleep(0.01)
    raise TimeoutError(path)


def killed_after_two_chunks(folder: Path) -> None:
    def tell(_: str, done: int, __: int) -> None:
        if done == 2:
            (folder / "first has begun").touch()
            wait_for(folder / "second has begun")
            time.sleep(0.3)  # so that the second could go on where this one is, if it did not wait
        if done == 4:
            os.kill(os.getpid(), signal.SIGKILL)

    build(folder, tell)


def begun_meanwhile(folder: Path) -> None:
    wait_for(folder / "first has begun")
    (folder / "second has begun").touch()
    told: Told = []
    build(folder, lambda *news: told.append(news))
    (folder / "told.json").write_text(json.dumps(told))


def test_a_process_waits_for_another_and_goes_on_where_that_was_killed(folder: Path) -> None:
    context = multiprocessing.get_context("fork")  # others would take seconds to begin
    first, second = (
        context.Process(target=run, args=(folder,)) for run in (killed_after_two_chunks, begun_meanwhile)
    )
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # later versions warn of threads, of which there are none
        first.start()
        second.start()
    first.join(60)
    second.join(60)
    assert (first.exitcode, second.exitcode) == (-signal.SIGKILL, 0)
    assert json.loads((folder / "told.json").read_text()) == [["train", done, 7] for done in (4, 6, 7)]
    check(cached_split([folder / "cache"], split_files(folder, "train"), unread), folder)
