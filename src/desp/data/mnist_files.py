"""The files of MNIST and Fashion-MNIST: where they may be, where they come from, and what they must be."""

import hashlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from desp.data.download import check_md5, download, file_md5
from desp.errors import DataError
from desp.settings import MnistVariant

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"

# MD5 sums as published; looked up when files are checked.
CHECKSUMS: dict[MnistVariant, dict[str, str]] = {
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

MIRRORS: dict[MnistVariant, tuple[str, ...]] = {
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    ),
    "fashion": (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    ),
}

FileProgress = Callable[[str, int, int | None], None]
"""Told of a file how many bytes are there, of how many."""


def data_folder(data_dir: str | Path | None = None) -> Path:
    """Where data are: `data_dir`, else the variable DESP_DATA, else the user's own data folder (XDG standard)."""
    given = str(data_dir or "") or os.environ.get("DESP_DATA", "")
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "desp"


def files_folder(variant: MnistVariant, data_dir: str | Path | None = None) -> Path:
    """The folder of a variant's files: DIR/VARIANT, or DIR itself if they are there and not in the former.

    The variants' files have the same names, so those in DIR itself must also have the right checksums.
    """
    checksums = CHECKSUMS[variant]
    base = data_folder(data_dir)
    own = base / variant
    if any((own / name).is_file() for name in checksums):
        return own
    here = any((base / name).is_file() and file_md5(base / name) == md5 for name, md5 in checksums.items())
    return base if here else own


def fetch_files(
    variant: MnistVariant, data_dir: str | Path | None = None, progress: FileProgress | None = None
) -> Path:
    """Download what is missing, and return the folder.

    Raises:
        DownloadError: a file that no mirror gave.
    """
    folder = files_folder(variant, data_dir)
    for name, md5 in CHECKSUMS[variant].items():
        if not (folder / name).is_file():
            told = None if progress is None else partial(progress, name)
            download(folder / name, md5, MIRRORS[variant], told)
    return folder


def check_files(folder: Path, variant: MnistVariant) -> str:
    """Check that all files are there and are the official ones; returns one checksum for all of them.

    Args:
        folder: where they are.
        variant: which they are.

    Raises:
        DataError: one is missing or differs; the message says how to get it.
    """
    checksums = CHECKSUMS[variant]
    again = f"desp data {variant} --data-dir {folder.parent if folder.name == variant else folder}"
    missing = [name for name in checksums if not (folder / name).is_file()]
    if missing:
        raise DataError(
            f"The data of '{variant}' are not there: expected {', '.join(missing)} in {folder}. "
            f"To fetch them: {again}. If you have them elsewhere, pass --data-dir DIR or set "
            f"DESP_DATA=DIR; the files may be in DIR or in DIR/{variant}."
        )
    for name, md5 in checksums.items():
        check_md5(folder / name, md5, again)
    together = "".join(f"{name}:{checksums[name]};" for name in sorted(checksums))
    return hashlib.blake2b(together.encode(), digest_size=16).hexdigest()
