"""Arrays that are computed once and then read from memory-mapped files."""

import errno
import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from desp.errors import DataError
from desp.storage import write_folder_atomically, write_json

logger = logging.getLogger(__name__)

Array = np.ndarray[tuple[int, ...], np.dtype[Any]]
Arrays = dict[str, Array]

VERSION = 1
"""Of what is in a cache; another one is not read."""
_RECORD = "cache.json"
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)


def user_folder(variable: str, default: str) -> Path:
    """The project's folder among the user's data or cache files, as the XDG standard names them."""
    base = os.environ.get(variable)
    return (Path(base) if base else Path.home() / default) / "desp"


def cached_arrays(places: Sequence[Path], source: str, compute: Callable[[], Arrays]) -> tuple[Arrays, Path]:
    """Arrays from the first place that has them, else computed and kept in the first place that can be written to.

    A cache is used only if its version, its source and the checksums of its arrays are right; otherwise it is made
    again. It appears whole or not at all.

    Args:
        places: folders, each for this cache alone.
        source: checksum of what the arrays are computed from.
        compute: makes them.

    Returns:
        The arrays, memory-mapped as a rule, and the folder they are in.

    Raises:
        DataError: they cannot be kept anywhere: no space, or no place that may be written to.
    """
    for place in places:
        arrays = _open(place, source)
        if arrays is not None:
            return arrays, place
    computed: Arrays | None = None
    for place in places:
        if not _may_write(place):
            continue
        computed = compute() if computed is None else computed
        if _keep(place, computed, source):
            # Another process may be putting the same arrays there this moment; then ours will do.
            return _open(place, source) or computed, place
    raise DataError(
        f"There is no place for the prepared data: {', '.join(map(str, places))} cannot be written to. "
        "Name a folder that can: DESP_CACHE=DIR."
    )


def _may_write(place: Path) -> bool:
    """Whether a folder, or where it would be made, is writable; what is marked read-only is so for root too."""
    folder = place if place.exists() else place.parent
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & 0o222)


def _keep(place: Path, arrays: Mapping[str, Array], source: str) -> bool:
    """Write a cache; false if the place turns out not to be writable."""

    def write(folder: Path) -> None:
        for name, array in arrays.items():
            # Not written through a memory map, which would crash the process where the disk is full.
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
        digests = {name: _digest(array) for name, array in arrays.items()}
        write_json(folder / _RECORD, {"version": VERSION, "source": source, "arrays": digests})

    try:
        write_folder_atomically(place, write)
    except OSError as error:
        if error.errno in _NOT_WRITABLE:
            return False
        megabytes = sum(array.nbytes for array in arrays.values()) / 2**20
        raise DataError(
            f"The prepared data could not be written to {place} ({error}); they need {megabytes:.0f} MB. Nothing "
            "was left behind. Free some space, or name another folder: DESP_CACHE=DIR."
        ) from error
    return True


def _open(place: Path, source: str) -> Arrays | None:
    """The arrays of a cache; None if there is none, or another one."""
    if not place.is_dir():
        return None
    try:
        record = json.loads((place / _RECORD).read_text(encoding="utf-8"))
        if (record["version"], record["source"]) != (VERSION, source):
            logger.warning("%s was prepared from other files or by another version, and is made again", place)
            return None
        digests: dict[str, str] = record["arrays"]
        arrays = {name: _load(place / f"{name}.npy") for name in digests}
        if all(_digest(array) == digests[name] for name, array in arrays.items()):
            return arrays
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        logger.warning("%s is damaged (%s), and is made again", place, error)
        return None
    logger.warning("%s is damaged (a checksum is wrong), and is made again", place)
    return None


def _load(path: Path) -> Array:
    array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _digest(array: Array) -> str:
    return hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=16).hexdigest()
