"""Image files as arrays of bytes, all of one size."""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from desp.errors import DataError
from desp.extras import require

Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]

MAX_PIXELS = 64_000_000
"""Larger images are refused before they are decoded: a small file may claim to hold a huge one."""

BROKEN = "the image is broken"
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
"""Endings of image files."""
MODES = {1: "L", 3: "RGB"}
"""Pillow's mode by the number of channels."""
HUGE = f"the image has more than {MAX_PIXELS // 1_000_000} million pixels"


class UnusableImage(Exception):
    """An image file that is damaged, no image, or too large.

    Attributes:
        reason: `BROKEN` or `HUGE`.
        detail: what exactly is wrong.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason} ({detail})")
        self.reason, self.detail = reason, detail


def read_image(path: Path, size: int | tuple[int, int] | None, channels: int = 3) -> Bytes:
    """Read an image as bytes (channels, height, width).

    Args:
        path: of the file.
        size: height and width to resize to, or one number for both, whatever the image's proportions; None: keep
            the size.
        channels: 3 for colour, 1 for grey.

    Raises:
        UnusableImage: it is damaged, no image, or has more than `MAX_PIXELS`.
        DataError: the file cannot be read at all; another try may succeed.
    """
    with _opened(path) as image:
        colours = image.convert(MODES[channels])
        height, width = (size, size) if isinstance(size, int) else size or (image.height, image.width)
        if colours.size != (width, height):
            bilinear = require("PIL.Image", "viz", "read images").Resampling.BILINEAR
            colours = colours.resize((width, height), bilinear)  # Pillow averages over all pixels that become one
        return np.array(colours, dtype=np.uint8).reshape(height, width, channels).transpose(2, 0, 1)


def image_size(path: Path) -> tuple[int, int]:
    """Width and height, as the file's header says.

    Raises:
        UnusableImage: it is no image, or has more than `MAX_PIXELS`.
        DataError: the file cannot be read at all.
    """
    with _opened(path) as image:
        width, height = image.size
        return width, height


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """An open image of at most `MAX_PIXELS`; Pillow's errors while it is open become `UnusableImage` or
    `DataError`."""
    image_module = require("PIL.Image", "viz", "read images")
    bombs = (image_module.DecompressionBombError, image_module.DecompressionBombWarning)
    try:
        with image_module.open(path) as image:
            if image.width * image.height > MAX_PIXELS:
                raise UnusableImage(HUGE, f"{image.width} x {image.height}")
            yield image
    except bombs as error:
        raise UnusableImage(HUGE, str(error)) from error
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error) as error:
        # Pillow's own errors have no number; those of the system say nothing of the image.
        if isinstance(error, OSError) and error.errno is not None:
            raise DataError(f"{path} cannot be read ({error}). Check it, then try again.") from error
        raise UnusableImage(BROKEN, str(error)) from error
