"""idx files: read whole, and every kind of damage called by its name."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from desp.data.idx import read_idx
from desp.errors import DataError

ARRAY = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
WHOLE = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]) + ARRAY.tobytes()


def written(folder: Path, content: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("content", [WHOLE, gzip.compress(WHOLE, mtime=0)], ids=["plain", "gzipped"])
def test_reads_what_was_written(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path, content)
    np.testing.assert_array_equal(read_idx(path, (2, 3, 4)), ARRAY)
    np.testing.assert_array_equal(read_idx(path, (None, 3, 4)), ARRAY)


def test_lengths_have_the_high_byte_first(tmp_path: Path) -> None:
    path = written(tmp_path, bytes([0, 0, 8, 1, 0, 0, 1, 2]) + bytes(258))
    assert read_idx(path, (None,)).shape == (258,)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected an idx file, .* got nothing"),
        (b"\x00\x00\x08", "expected an idx file, .* got 00 00 08"),
        (b"<html>not here</html>", "expected an idx file, .* got 3c 68 74 6d"),
        (b"\x00\x00\x0d\x01\x00\x00\x00\x00", r"expected unsigned bytes \(type 08\), got type 0d"),
        (WHOLE[:10], "expected the lengths of 3 dimensions, but it ends before"),
        (WHOLE[:-1], "expected 24 bytes after the header, as its shape 2 x 3 x 4 says, got 23"),
        (WHOLE + b"x", "expected 24 bytes after the header, .* got 25"),
        (gzip.compress(WHOLE, mtime=0)[:-12], "expected a whole gzip file, but it cannot be unpacked"),
        (gzip.compress(WHOLE, mtime=0)[:-8] + bytes(8), "expected a whole gzip file, but it cannot be unpacked"),
        (b"\x1f\x8b" + bytes(30), "expected a whole gzip file, but it cannot be unpacked"),
    ],
)
def test_damage_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(DataError, match=f"{path}: {message}"):
        read_idx(path, (None, None, None))


@pytest.mark.parametrize("shape", [(2, 3), (None, 28, 28), (3, 3, 4)])
def test_another_shape_is_refused(tmp_path: Path, shape: tuple[int | None, ...]) -> None:
    with pytest.raises(DataError, match=r"expected an array of shape .*, but its header says 2 x 3 x 4"):
        read_idx(written(tmp_path, WHOLE), shape)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"There is no file at .*nowhere"):
        read_idx(tmp_path / "nowhere", (None,))
