"""Files in the idx format of MNIST: a header with the shape, then unsigned bytes; gzipped or not."""

import gzip
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from desp.errors import DataError

Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]

_GZIP = b"\x1f\x8b"
_UNSIGNED_BYTES = 0x08
_AGAIN = "The file is damaged: delete it and fetch it again."


def read_idx(path: Path, shape: tuple[int | None, ...]) -> Bytes:
    """Read the array of a file.

    Args:
        path: the file.
        shape: what it must have; None allows any length.

    Returns:
        Unsigned bytes of a shape that fits `shape`, not to be written to.

    Raises:
        DataError: missing, damaged, truncated, of another type or another shape.
    """
    content = _content(path)
    found = _header(path, content)
    fits = len(found) == len(shape) and all(
        wanted in (None, length) for wanted, length in zip(shape, found, strict=True)
    )
    if not fits:
        raise DataError(
            f"{path}: expected an array of shape {_words(shape)}, but its header says {_words(found)}. "
            "Check that the file was not confused with another one."
        )
    start, expected = 4 + 4 * len(found), math.prod(found)
    if len(content) - start != expected:
        raise DataError(
            f"{path}: expected {expected} bytes after the header, as its shape {_words(found)} says, "
            f"got {len(content) - start}. {_AGAIN}"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(found)


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise DataError(f"There is no file at {path}.")
    content = path.read_bytes()
    if not content.startswith(_GZIP):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, OSError, zlib.error) as error:  # cut off, a wrong checksum, broken inside
        raise DataError(
            f"{path}: expected a whole gzip file, but it cannot be unpacked ({error}). {_AGAIN}"
        ) from (error)


def _header(path: Path, content: bytes) -> tuple[int, ...]:
    """The shape that a header names."""
    if len(content) < 4 or content[:2] != b"\x00\x00" or content[3] == 0:
        raise DataError(
            f"{path}: expected an idx file, which begins with two zero bytes, the type and the number of "
            f"dimensions, got {content[:4].hex(' ') or 'nothing'}. Check that it is what its name says."
        )
    if content[2] != _UNSIGNED_BYTES:
        raise DataError(
            f"{path}: expected unsigned bytes (type 08), got type {content[2]:02x}. Images and labels are bytes."
        )
    dimensions = content[3]
    if len(content) < 4 + 4 * dimensions:
        raise DataError(f"{path}: expected the lengths of {dimensions} dimensions, but it ends before. {_AGAIN}")
    lengths = np.frombuffer(content, dtype=">u4", count=dimensions, offset=4)
    return tuple(int(length) for length in lengths)


def _words(shape: tuple[Any, ...]) -> str:
    return " x ".join("any" if length is None else str(length) for length in shape)
