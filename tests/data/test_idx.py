"""idx files: read whole, or refused."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from desp.data.mnist_files import read_idx
from desp.errors import DataError

ARRAY = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
WHOLE = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]) + ARRAY.tobytes()


def written(folder: Path, content: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(gzip.compress(content, mtime=0))
    return path


def test_reads_what_was_written(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE)
    np.testing.assert_array_equal(read_idx(path, (2, 3, 4)), ARRAY)
    np.testing.assert_array_equal(read_idx(path, (None, 3, 4)), ARRAY)


def test_lengths_have_the_high_byte_first(tmp_path: Path) -> None:
    path = written(tmp_path, bytes([0, 0, 8, 1, 0, 0, 1, 2]) + bytes(258))
    assert read_idx(path, (None,)).shape == (258,)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\x00\x00\x08", b"<html>not here</html>"),
        b"\x00\x00\x0d\x01\x00\x00\x00\x04" + bytes(4),  # other numbers than bytes
        *(WHOLE[:10], WHOLE[:-1], WHOLE + b"x"),
    ],
)
def test_what_is_no_idx_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path, content)
    with pytest.raises(DataError, match=f"{path}: expected a gzipped idx file"):
        read_idx(path, (None, None, None))


@pytest.mark.parametrize(
    "content",
    [WHOLE, gzip.compress(WHOLE)[:-12], gzip.compress(WHOLE)[:-8] + bytes(8), b"\x1f\x8b" + bytes(30)],
    ids=["plain", "cut", "checksum", "header"],
)
def test_what_cannot_be_unpacked_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataError, match="expected a gzipped idx file"):
        read_idx(tmp_path / "file", (None, None, None))


@pytest.mark.parametrize("shape", [(2, 3), (None, 28, 28), (3, 3, 4)])
def test_another_shape_is_refused(tmp_path: Path, shape: tuple[int | None, ...]) -> None:
    with pytest.raises(DataError, match=r"expected an array of shape .*, but its header says 2 x 3 x 4"):
        read_idx(written(tmp_path, WHOLE), shape)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: expected .* No such file"):
        read_idx(tmp_path / "nowhere", (None,))
