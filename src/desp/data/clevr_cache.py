"""CLEVR's images, decoded and squeezed once into a file that is memory-mapped afterwards.

A cache is a folder that is named after the fingerprint of what it is made of: other data have another one. It is
built in chunks. What a chunk holds is on the disk before ``progress.json`` says so, and ``complete.json`` is
written last: whenever building ends early, it goes on after the last whole chunk.
"""

import fcntl
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from desp.data.clevr_files import SplitFiles
from desp.data.clevr_scene_file import AnnotatedScenes
from desp.data.images import Bytes, UnusableImage, read_image
from desp.data.skips import Skips
from desp.errors import DataError
from desp.storage import write_atomically, write_json

SIDE = 128
CHUNK = 256
"""Images that are written together."""
VERSION = 1
"""Of how a cache is made; raise it where boxes, states or images are made otherwise."""

IMAGES, PROGRESS, COMPLETE = "images.npy", "progress.json", "complete.json"
ARRAYS = ("boxes", "states", "sizes")

Progress = Callable[[str, int, int], None]
"""Called after every chunk with the split, how many of its images are done, and of how many."""


@dataclass(frozen=True)
class CachedSplit:
    """Scenes with their images.

    Attributes:
        images: (M, 3, 128, 128), a memory map: only what is used is read.
        scenes: M of them.
    """

    images: UInt8[Tensor, "m 3 side side"]
    scenes: AnnotatedScenes


def cached_split(
    roots: Sequence[Path], files: SplitFiles, read: Callable[[], AnnotatedScenes], progress: Progress | None = None
) -> CachedSplit:
    """The images of a split: mapped if they are cached, else cached first.

    Several processes may ask at once: one builds, the others wait for it.

    Args:
        roots: folders of caches. What is complete in one of them is used, else the first that can be written to.
        files: of the split.
        read: gives the scenes, in the order in which they are wanted; called only where they are not cached.
        progress: told how far it is.

    Raises:
        DataError: no image can be used, one cannot be read, or no folder can be written to.
    """
    name = f"{files.split}-{files.fingerprint}-{VERSION}"
    for root in roots:
        if found := _load(root / name):
            return found
    root = _writable(roots)
    with _exclusive(root / f"{files.split}.lock"):
        found = _load(root / name)  # where another process has built it in the meantime
        if found is None:
            _build(root / name, files, read(), progress)
            found = _load(root / name)
    if found is None:
        raise DataError(f"{root / name} was written, but cannot be read again. Check the disk, then delete it.")
    for other in root.glob(f"{files.split}-*"):  # of files as they were before
        if other.name != name:
            shutil.rmtree(other, ignore_errors=True)
    return found


def _writable(roots: Sequence[Path]) -> Path:
    problems = []
    for root in roots:
        try:
            root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=root):
                return root
        except OSError as error:
            problems.append(f"{root} ({error})")
    raise DataError(f"Images cannot be cached: {'; '.join(problems)}. Make one of these folders writable.")


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Wait until no other process is within; the end of a process lets the next one in, however it ends.

    On a file system without locks nobody waits. That costs time and nothing else, as all write the same bytes to
    the same places.
    """
    with path.open("a") as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


# -- reading ---------------------------------------------------------------------------------------------


def _load(folder: Path) -> CachedSplit | None:
    """What a folder holds; None if it is not complete, or something in it is damaged."""
    try:
        known = json.loads((folder / COMPLETE).read_bytes())
        images = np.load(folder / IMAGES, mmap_mode="c", allow_pickle=False)
        boxes, states, sizes = (torch.from_numpy(_load_array(folder / f"{name}.npy")) for name in ARRAYS)
        skips = Skips(known["skips"]["counts"], known["skips"]["examples"])
        scenes = AnnotatedScenes(
            tuple(known["names"]), boxes, states, sizes, known["clipped"], skips, known["label"]
        )
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None
    whole = all(len(array) == len(scenes) for array in (images, boxes, states, sizes))
    # Mapped for writing, but to memory only: torch warns about arrays that must not be written to.
    return CachedSplit(torch.from_numpy(images), scenes) if whole else None


def _load_array(path: Path) -> "np.ndarray[Any, np.dtype[Any]]":
    return np.load(path, allow_pickle=False)


# -- building --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _State:
    """How far building is.

    Attributes:
        done: images that were read.
        unusable: reason and detail for those of them that cannot be used, by their number.
    """

    done: int
    unusable: dict[int, tuple[str, str]]

    @property
    def written(self) -> int:
        return self.done - len(self.unusable)


def _build(folder: Path, files: SplitFiles, scenes: AnnotatedScenes, progress: Progress | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / COMPLETE).unlink(missing_ok=True)
    state, total = _resumed(folder, len(scenes)), len(scenes)
    with _images_file(folder) as file, ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        while True:
            if progress:
                progress(files.split, state.done, total)
            if state.done == total:
                break
            paths = [files.image_folder / name for name in scenes.names[state.done : state.done + CHUNK]]
            state = _add(file, state, list(pool.map(_decoded, paths)))
            write_json(folder / PROGRESS, {"done": state.done, "unusable": list(state.unusable.items())})
        _write_at(file, 0, _header(state.written))
    _finish(folder, scenes, state)


def _resumed(folder: Path, total: int) -> _State:
    """How far an earlier attempt came; nowhere if that cannot be told for sure."""
    try:
        known = json.loads((folder / PROGRESS).read_bytes())
        unusable = {int(number): (str(reason), str(detail)) for number, (reason, detail) in known["unusable"]}
        state = _State(int(known["done"]), unusable)
        size = (folder / IMAGES).stat().st_size
    except (OSError, ValueError, KeyError, TypeError):
        return _State(0, {})
    whole = state.done <= total and size >= _place(state.written)
    return state if whole else _State(0, {})


@contextmanager
def _images_file(folder: Path) -> Iterator[BinaryIO]:
    # Never truncated, as another process may be writing the same. Not mapped, as a full disk would end the process
    # then; so it is an error with a message.
    descriptor = os.open(folder / IMAGES, os.O_RDWR | os.O_CREAT, 0o666)
    with os.fdopen(descriptor, "r+b") as file:
        yield file


def _decoded(path: Path) -> Bytes | UnusableImage:
    try:
        return read_image(path, SIDE)
    except UnusableImage as problem:
        return problem


def _add(file: BinaryIO, state: _State, results: list[Bytes | UnusableImage]) -> _State:
    """Write a chunk of images behind those before; it is on the disk when this returns."""
    good = [item for item in results if isinstance(item, np.ndarray)]
    _write_at(file, _place(state.written), b"".join(item.tobytes() for item in good))
    bad = {
        state.done + number: (item.reason, item.detail)
        for number, item in enumerate(results)
        if isinstance(item, UnusableImage)
    }
    return _State(state.done + len(results), state.unusable | bad)


def _write_at(file: BinaryIO, place: int, content: bytes) -> None:
    file.seek(place)
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def _header(count: int) -> bytes:
    """The beginning of an npy file; numpy leaves room, so that it is as long for any count."""
    buffer = io.BytesIO()
    shape = (count, 3, SIDE, SIDE)
    np.lib.format.write_array_header_1_0(buffer, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def _place(row: int) -> int:
    return len(_header(row)) + row * 3 * SIDE * SIDE


def _finish(folder: Path, scenes: AnnotatedScenes, state: _State) -> None:
    skips = scenes.skips.copy()
    for number, (reason, detail) in sorted(state.unusable.items()):
        skips.add(reason, f"{scenes.names[number]} ({detail})")
    if state.written == 0:
        raise DataError(f"None of the images can be used: {skips.summary()}.")
    kept = torch.tensor([number for number in range(len(scenes)) if number not in state.unusable])
    scenes = replace(scenes.at(kept), skips=skips)
    for name in ARRAYS:
        _write_array(folder / f"{name}.npy", getattr(scenes, name).numpy())
    known = {"names": scenes.names, "clipped": scenes.clipped, "label": scenes.label}
    write_json(folder / COMPLETE, {**known, "skips": {"counts": skips.counts, "examples": skips.examples}})
    (folder / PROGRESS).unlink(missing_ok=True)


def _write_array(path: Path, array: "np.ndarray[Any, np.dtype[Any]]") -> None:
    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.save(file, array, allow_pickle=False)

    write_atomically(path, write)
