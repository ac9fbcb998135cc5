"""Image files, decoded and resized once, in a file that is memory-mapped afterwards.

A cache is a folder whose name has the fingerprint of the files that it is made of: other data have another cache.
It is built in chunks. A chunk is on the disk before ``progress.json`` counts it, and ``complete.json`` is written
last: if building is interrupted, it goes on after the last whole chunk.
"""

import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from desp.data.images import Bytes, UnusableImage, read_image
from desp.errors import DataError
from desp.locks import exclusive
from desp.storage import make_folder, open_in_place, remove, write_at, write_atomically, write_json

CHUNK = 256
"""Images that are written together."""

IMAGES, PROGRESS, COMPLETE = "images.npy", "progress.json", "complete.json"

Progress = Callable[[str, int, int], None]
"""Called now and then with a word for the work, how much of it is done, and how much there is in all."""

Unusable = dict[int, tuple[str, str]]
"""Reason and detail for images that cannot be used, by their number."""

T = TypeVar("T")


# -- where -----------------------------------------------------------------------------------------------


def cached_in(
    roots: Sequence[Path],
    prefix: str,
    fingerprint: str,
    load: Callable[[Path], T | None],
    build: Callable[[Path], None],
) -> T:
    """What a cache holds: loaded if it is there, else built first.

    Several processes may ask at once: one builds, the others wait for it.

    Args:
        roots: folders of caches. A complete cache in one of them is used; else the first writable one gets it.
        prefix: beginning of the name of the cache's folder; other caches with the same prefix are out of date, and
            removed.
        fingerprint: of the files that the cache is made of; the rest of its name.
        load: gives the content of a folder; None if it is not complete, or something in it is damaged.
        build: fills a folder.

    Raises:
        DataError: no folder can be written to.
    """
    name = f"{prefix}-{fingerprint}"
    for root in roots:
        if found := load(root / name):
            return found
    root = writable(roots)
    with exclusive(root / f"{prefix}.lock"):
        found = load(root / name)  # where another process has built it in the meantime
        if found is None:
            build(root / name)
            found = load(root / name)
    if found is None:
        raise DataError(f"{root / name} was written, but cannot be read again. Check the disk, then delete it.")
    for other in root.glob(f"{prefix}-*"):  # of files as they were before
        if other.name != name:
            shutil.rmtree(other, ignore_errors=True)
    return found


def writable(roots: Sequence[Path]) -> Path:
    """The first folder that can be written to; it is made where it is missing.

    Raises:
        DataError: there is none.
    """
    problems = []
    for root in roots:
        try:
            root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=root):
                return root
        except OSError as error:
            problems.append(f"{root} ({error})")
    raise DataError(f"Images cannot be cached: {'; '.join(problems)}. Make one of these folders writable.")


# -- reading ---------------------------------------------------------------------------------------------


def map_images(folder: Path) -> UInt8[Tensor, "m 3 side side"]:
    """The decoded images of a folder that is complete, as a memory map: only what is used is read.

    Raises:
        OSError, EOFError, ValueError: the file is missing or damaged.
    """
    return map_array(folder / IMAGES)


def map_array(path: Path) -> Tensor:
    """An npy file as a memory map.

    Raises:
        OSError, EOFError, ValueError: it is missing or damaged.
    """
    # Mapped for writing, but to memory only: torch warns about arrays that must not be written to.
    return torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))


# -- building --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _State:
    """How far building is.

    Attributes:
        done: number of images that were read.
        unusable: which of them cannot be used.
    """

    done: int
    unusable: Unusable

    @property
    def written(self) -> int:
        return self.done - len(self.unusable)


def decode_images(
    folder: Path,
    paths: Sequence[Path],
    side: int,
    progress: Callable[[int, int], None] | None = None,
) -> Unusable:
    """Decode and resize images into a folder, which is not complete until `complete` says so.

    Args:
        folder: where; what an earlier attempt wrote there is kept.
        paths: of the image files, in the order in which they are wanted.
        side: height and width of a decoded image.
        progress: called with the number of images done, and of all.

    Returns:
        The images that cannot be used; the others are written, one behind the other.

    Raises:
        DataError: a file cannot be read at all.
    """
    make_folder(folder)
    remove(folder / COMPLETE)
    state, total = _resumed(folder, len(paths), side), len(paths)

    def result(path: Path) -> Bytes | UnusableImage:
        try:
            return read_image(path, side)
        except UnusableImage as problem:
            return problem

    with open_in_place(folder / IMAGES) as file, ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        while True:
            if progress:
                progress(state.done, total)
            if state.done == total:
                break
            some = paths[state.done : state.done + CHUNK]
            state = _add(file, state, side, list(pool.map(result, some)))
            write_json(folder / PROGRESS, {"done": state.done, "unusable": list(state.unusable.items())})
        write_at(file, 0, _header(state.written, side))
    return state.unusable


def complete(folder: Path, known: dict[str, Any]) -> None:
    """Mark a folder as complete, and write what else is known of it."""
    write_json(folder / COMPLETE, known)
    remove(folder / PROGRESS)


def write_array(path: Path, array: "np.ndarray[Any, np.dtype[Any]]") -> None:
    """Write an npy file, atomically."""
    write_atomically(path, partial(fill_array, array))


def fill_array(array: "np.ndarray[Any, np.dtype[Any]]", path: Path) -> None:
    """Write an npy file that nobody reads yet; see `desp.storage.write_together`."""
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def _resumed(folder: Path, total: int, side: int) -> _State:
    """How far an earlier attempt came; nowhere if that cannot be told for sure."""
    try:
        known = json.loads((folder / PROGRESS).read_bytes())
        unusable = {int(number): (str(reason), str(detail)) for number, (reason, detail) in known["unusable"]}
        state = _State(int(known["done"]), unusable)
        size = (folder / IMAGES).stat().st_size
    except (OSError, ValueError, KeyError, TypeError):
        return _State(0, {})
    whole = state.done <= total and size >= _place(state.written, side)
    return state if whole else _State(0, {})


def _add(file: BinaryIO, state: _State, side: int, results: list[Bytes | UnusableImage]) -> _State:
    """Write a chunk of images behind those before; it is on the disk when this returns."""
    good = [item for item in results if isinstance(item, np.ndarray)]
    write_at(file, _place(state.written, side), b"".join(item.tobytes() for item in good))
    bad = {
        state.done + number: (item.reason, item.detail)
        for number, item in enumerate(results)
        if isinstance(item, UnusableImage)
    }
    return _State(state.done + len(results), state.unusable | bad)


def _header(count: int, side: int) -> bytes:
    """The beginning of an npy file; numpy leaves room, so that it is as long for any count."""
    buffer = io.BytesIO()
    shape = (count, 3, side, side)
    np.lib.format.write_array_header_1_0(buffer, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def _place(row: int, side: int) -> int:
    return len(_header(row, side)) + row * 3 * side * side
