"""A tiny MNIST in the official format, for tests and for scripts that they start."""

import gzip
import hashlib
from pathlib import Path

import numpy as np


def idx_bytes(array: np.ndarray) -> bytes:
    """An array of bytes in the idx format."""
    shape = np.array(array.shape, dtype=">u4").tobytes()
    return bytes([0, 0, 8, array.ndim]) + shape + array.astype(np.uint8).tobytes()


def tiny_images(count: int, seed: int) -> np.ndarray:
    """Images of one stroke each, 4 to 16 bright pixels and as many that are too dark to count; one is blank."""
    random = np.random.default_rng(seed)
    images = np.zeros((count, 28, 28), dtype=np.uint8)
    for image in images[1:]:
        row, column, length = random.integers(0, 20), random.integers(0, 27), random.integers(2, 9)
        image[row : row + length, column : column + 2] = random.integers(34, 256, size=(length, 2))
        image[row : row + length, (column + 5) % 28] = 33
    return images


def write_tiny_mnist(folder: Path, training: int = 200, test: int = 30) -> dict[str, str]:
    """Write four valid files, gzipped, and return their MD5 sums."""
    folder.mkdir(parents=True, exist_ok=True)
    sums = {}
    for part, count in (("train", training), ("t10k", test)):
        arrays = {"images-idx3": tiny_images(count, seed=count), "labels-idx1": np.arange(count) % 10}
        for kind, array in arrays.items():
            content = gzip.compress(idx_bytes(array), compresslevel=1, mtime=0)
            name = f"{part}-{kind}-ubyte.gz"
            (folder / name).write_bytes(content)
            sums[name] = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return sums
