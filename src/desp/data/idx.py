"""Files in the idx format of MNIST: a header with the shape, then unsigned bytes; gzipped."""

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from desp.errors import DataError

Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]

# Two zero bytes, and the type of unsigned bytes; the number of dimensions follows, then a length for each.
_START = b"\x00\x00\x08"


def read_idx(path: Path, shape: tuple[int | None, ...]) -> Bytes:
    """Read the array of a file whose checksum was compared already.

    Args:
        path: the file.
        shape: what it must have; None allows any length.

    Returns:
        Unsigned bytes of a shape that fits `shape`, not to be written to.

    Raises:
        DataError: not such a file, or of another shape.
    """
    try:
        content = gzip.decompress(path.read_bytes())
        dimensions = content[3] if content.startswith(_START) else 0
        found = tuple(np.frombuffer(content, dtype=">u4", count=dimensions, offset=4).tolist())
        array = np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * dimensions).reshape(found)
    except (OSError, EOFError, zlib.error, ValueError, IndexError) as error:
        raise DataError(
            f"{path}: expected a gzipped idx file of unsigned bytes, but it cannot be read ({error}). "
            "Delete it and fetch it again."
        ) from error
    fits = len(found) == len(shape) and all(
        wanted in (None, length) for wanted, length in zip(shape, found, strict=True)
    )
    if not fits:
        raise DataError(
            f"{path}: expected an array of shape {_words(shape)}, but its header says {_words(found)}. "
            "Check that the file was not confused with another one."
        )
    return array


def _words(shape: tuple[Any, ...]) -> str:
    return " x ".join("any" if length is None else str(length) for length in shape)
