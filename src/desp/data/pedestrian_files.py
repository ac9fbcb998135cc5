"""The recordings of pedestrians, ETH (Pellegrini et al. 2009) and UCY (Lerner et al. 2007): where they are, and
how they are read."""

import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from desp.data.folders import data_folder, dataset_folder
from desp.data.mnist_files import check_md5_sums, download
from desp.errors import DataError
from desp.settings import PedestrianScene

SUBFOLDERS = ("pedestrians",)
"""Folders in which the recordings may lie, besides the given one itself."""

# MD5 sums of the recordings in metres, 2.5 frames a second, as published with Trajectron++.
CHECKSUMS = {
    "biwi_eth.txt": "7a5fafac2b123df3453517dc617473bb",
    "biwi_hotel.txt": "805aa9b770c2c0f0af1557f105eabedd",
    "crowds_zara01.txt": "5b026fafe9061e4a5dc77fb27d7d58c3",
    "crowds_zara02.txt": "34eee2af911c36933902da0de74615f2",
    "crowds_zara03.txt": "2b6dc7c33654c7f1a068bb4d4e043632",
    "students001.txt": "ec68548d4121e5679826d8b1d95adfc7",
    "students003.txt": "40344c98f6b6dee5f06a836c42407f23",
    "uni_examples.txt": "453eddcd817bb97783f88c0a5bf8bf71",
}

SCENES: dict[PedestrianScene, tuple[str, ...]] = {
    "eth": ("biwi_eth.txt",),
    "hotel": ("biwi_hotel.txt",),
    "univ": ("students001.txt", "students003.txt"),
    "zara1": ("crowds_zara01.txt",),
    "zara2": ("crowds_zara02.txt",),
}
"""The recordings of each scene; recordings of no scene are never tested on."""

_REPOSITORY = "https://raw.githubusercontent.com/StanfordASL/Trajectron-plus-plus"
MIRRORS = (
    f"{_REPOSITORY}/master/experiments/pedestrians/raw/raw/all_data",
    f"{_REPOSITORY}/40dec06e9cfef9e0d5f5ec69da2c4058a556bba9/experiments/pedestrians/raw/raw/all_data",
    f"{_REPOSITORY}/1758afdd1230bae64781062619003d672e0f6903/data/raw/raw/all_data",
)
LAYOUT = (
    f"Wanted are eight text files, {', '.join(CHECKSUMS)}: frame, person, x and y in metres, separated by tabs. "
    "To fetch them: desp data pedestrians --data-dir DIR. If you have them elsewhere, pass --data-dir DIR or set "
    "DESP_DATA=DIR; they may be in DIR or in DIR/pedestrians. To try the task without them: --task.source "
    "simulated."
)

Rows = np.ndarray[tuple[int, int], np.dtype[np.float64]]
"""(R, 4): frame, person, x, y."""


def pedestrian_folder(data_dir: str | Path | None = None) -> Path:
    """The folder of the recordings: `data_dir` (see `data_folder`), or one of `SUBFOLDERS` in it.

    Raises:
        DataError: they are nowhere, or one is missing.
    """

    def wanted(folder: Path) -> list[Path]:
        return [folder / name for name in CHECKSUMS]

    return dataset_folder("pedestrians", data_folder(data_dir), SUBFOLDERS, wanted, "the recordings", LAYOUT)


def fetch_recordings(
    data_dir: str | Path | None = None, progress: Callable[[str, int, int | None], None] | None = None
) -> Path:
    """Download what is missing, and return the folder; `progress` is told a file's name, bytes done, of how many.

    Raises:
        DataError: no mirror gave one of the files.
    """
    base = data_folder(data_dir)
    here = any((base / name).is_file() for name in CHECKSUMS)
    folder = base if here else base / SUBFOLDERS[0]
    for name, md5 in CHECKSUMS.items():
        if not (folder / name).is_file():
            download(folder / name, md5, MIRRORS, None if progress is None else partial(progress, name))
    return folder


def check_recordings(folder: Path) -> str:
    """Check that the recordings are the published ones; returns one checksum for all of them.

    Raises:
        DataError: one differs.
    """
    return check_md5_sums(folder, CHECKSUMS, f"desp data pedestrians --data-dir {shlex.quote(str(folder))}")


def read_recording(path: Path) -> Rows:
    """The rows of a recording: frame, person, x, y.

    Raises:
        DataError: it is no such file.
    """
    try:
        rows = np.loadtxt(path, dtype=np.float64, ndmin=2)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: expected four numbers in every line, but {error}. {LAYOUT}") from error
    if rows.shape[1] != 4 or not np.isfinite(rows).all():
        raise DataError(f"{path}: expected frame, person, x and y in every line, all finite. {LAYOUT}")
    return rows
