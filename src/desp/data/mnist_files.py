"""The files of MNIST and Fashion-MNIST: where they are, how they are fetched, and how they are read."""

import gzip
import hashlib
import shlex
import ssl
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np

from desp.data.folders import data_folder
from desp.data.images import Bytes
from desp.errors import DataError
from desp.settings import MnistDataset
from desp.storage import write_atomically

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"

# MD5 sums as published.
CHECKSUMS: dict[MnistDataset, dict[str, str]] = {
    "mnist": {
        TRAIN_IMAGES: "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        TRAIN_LABELS: "d53e105ee54ea40749a09fcbcd1e9432",
        TEST_IMAGES: "9fb629c4189551a2d022fa330f9573f3",
        TEST_LABELS: "ec29112dd5afa0611ce80d1b7f02629c",
    },
    "fashion": {
        TRAIN_IMAGES: "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        TRAIN_LABELS: "25c81989df183df01b3e8a0aad5dffbe",
        TEST_IMAGES: "bef4ecab320f06d8554ea6380940ec79",
        TEST_LABELS: "bb300cfdad3c16e7a12a480ee83cd310",
    },
}

MIRRORS: dict[MnistDataset, tuple[str, ...]] = {
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    ),
    "fashion": (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    ),
}

Progress = Callable[[int, int | None], None]
"""Called with the bytes downloaded so far, and the total (None if unknown)."""

TIMEOUT = 30.0  # seconds without an answer, after which a mirror is given up
_CHUNK = 1 << 16
# Not every OSError: a disk may fail as well.
_NETWORK = (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError, ssl.SSLError)

# An idx file begins with two zero bytes and the type of unsigned bytes; the number of dimensions follows, then a
# length for each.
_START = b"\x00\x00\x08"


# -- where they are --------------------------------------------------------------------------------------


def files_folder(dataset: MnistDataset, data_dir: str | Path | None = None) -> Path:
    """The folder of a dataset's files: DIR/DATASET, or DIR itself if the files are there and DIR/DATASET has none.

    Files of both datasets have the same names, so files in DIR itself must also have the right checksums.
    """
    checksums = CHECKSUMS[dataset]
    base = data_folder(data_dir)
    own = base / dataset
    if any((own / name).is_file() for name in checksums):
        return own
    here = any((base / name).is_file() and file_md5(base / name) == md5 for name, md5 in checksums.items())
    return base if here else own


def fetch_files(
    dataset: MnistDataset, data_dir: str | Path | None = None, progress: Callable[..., None] | None = None
) -> Path:
    """Download what is missing, and return the folder; `progress` takes a file's name, then what `Progress` takes.

    Raises:
        DataError: no mirror gave one of the files.
    """
    folder = files_folder(dataset, data_dir)
    for name, md5 in CHECKSUMS[dataset].items():
        if not (folder / name).is_file():
            told = None if progress is None else partial(progress, name)
            download(folder / name, md5, MIRRORS[dataset], told)
    return folder


def check_files(folder: Path, dataset: MnistDataset) -> str:
    """Check that all files are there and are the official ones; returns one checksum for all of them.

    Args:
        folder: where they are.
        dataset: which they are.

    Raises:
        DataError: one is missing or differs; the message says how to get it.
    """
    checksums = CHECKSUMS[dataset]
    root = folder.parent if folder.name == dataset else folder
    again = f"desp data {dataset} --data-dir {shlex.quote(str(root))}"
    missing = [name for name in checksums if not (folder / name).is_file()]
    if missing:
        raise DataError(
            f"The data of '{dataset}' are not there: expected {', '.join(missing)} in {folder}. "
            f"To fetch them: {again}. If you have them elsewhere, pass --data-dir DIR or set "
            f"DESP_DATA=DIR; the files may be in DIR or in DIR/{dataset}."
        )
    return check_md5_sums(folder, checksums, again)


def check_md5_sums(folder: Path, checksums: Mapping[str, str], again: str) -> str:
    """Check that the files of a folder are the published ones; returns one checksum for all of them.

    Args:
        folder: where they are.
        checksums: MD5 sums by the names of the files.
        again: the command that fetches a missing file, for messages.

    Raises:
        DataError: one differs.
    """
    for name, md5 in checksums.items():
        found = file_md5(folder / name)
        if found != md5:
            raise DataError(
                f"{folder / name}: expected the MD5 sum {md5}, got {found}. It is damaged, or another file of the "
                f"same name. Move it away, then: {again}"
            )
    together = "".join(f"{name}:{checksums[name]};" for name in sorted(checksums))
    return hashlib.blake2b(together.encode(), digest_size=16).hexdigest()


def file_md5(path: Path) -> str:
    """The MD5 sum of a file: detects damage, not tampering."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


# -- from the network ------------------------------------------------------------------------------------


class _Failed(Exception):
    """A mirror did not give the file; the message says why."""


def download(target: Path, md5: str, mirrors: Sequence[str], progress: Progress | None = None) -> None:
    """Fetch a file to `target`.

    It gets its name once it is whole and its checksum is right, so that several processes may fetch it at once.

    Args:
        target: where to; its folder is made if needed, and its name is the one it has on all mirrors.
        md5: its checksum.
        mirrors: addresses of folders that hold it, tried in this order.
        progress: called after every chunk.

    Raises:
        DataError: no mirror gave it; the message lists what each one said.
    """
    tried = []
    for mirror in mirrors:
        address = f"{mirror.rstrip('/')}/{target.name}"
        try:
            write_atomically(target, partial(_fetch, address, md5, progress))
        except _Failed as reason:
            tried.append(f"{address} ({reason})")
            continue
        return
    raise DataError(
        f"{target.name} could not be fetched. Tried: {'; '.join(tried) or 'nothing, as no mirror is known'}. "
        f"Check the connection and try again, or put the file into {target.parent} yourself."
    )


def _fetch(address: str, md5: str, progress: Progress | None, path: Path) -> None:
    """Fill `path` with the whole file of the right checksum, or fail."""
    if not address.startswith(("http://", "https://")):
        raise _Failed("not an http address")
    done, total = 0, None
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT) as response, path.open("wb") as file:  # noqa: S310
            length = response.headers.get("Content-Length")
            total = int(length) if length is not None and length.isdecimal() else None
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                done += len(chunk)
                if progress:
                    progress(done, total)
    except urllib.error.HTTPError as error:
        error.close()
        raise _Failed(f"answered {error.code}") from error
    except _NETWORK as error:
        raise _Failed(f"no answer: {getattr(error, 'reason', error)}") from error
    if total is not None and done < total:
        raise _Failed(f"ended after {done} of {total} bytes")
    found = file_md5(path)
    if found != md5:
        raise _Failed(f"expected the MD5 sum {md5}, got {found}")


# -- their format ----------------------------------------------------------------------------------------


def read_idx(path: Path, shape: tuple[int | None, ...]) -> Bytes:
    """Read the array of a gzipped idx file: a header with the shape, then unsigned bytes.

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
