"""Folders of datasets, and of caches made from them."""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from desp.errors import DataError
from desp.paths import resolved_path


def data_folder(data_dir: str | Path | None = None) -> Path:
    """Where data are: `data_dir`, else the variable DESP_DATA, else the user's own data folder (XDG standard)."""
    given = str(data_dir or "") or os.environ.get("DESP_DATA", "")
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "desp"


def dataset_folder(
    name: str,
    base: Path,
    below: Sequence[str],
    wanted: Callable[[Path], Sequence[Path]],
    expected: str,
    layout: str,
) -> Path:
    """The folder that holds a dataset: `base` or a subfolder, whichever has most of the wanted files.

    Args:
        name: of the dataset.
        base: where to look.
        below: names of its subfolders in which the dataset may be.
        wanted: from a folder to the paths that must exist in it.
        expected: these paths, in words.
        layout: how the data must lie, and where to get them.

    Raises:
        DataError: it is nowhere, or something in it is missing.
    """

    def missing(place: Path) -> list[str]:
        return [str(path.relative_to(place)) for path in wanted(place) if not path.exists()]

    folder = min((base, *(base / item for item in below)), key=lambda place: len(missing(place)))
    lacks = missing(folder)
    if len(lacks) == len(wanted(folder)):
        raise DataError(
            f"The data of {name} are not there: expected {expected} in {base}, or in {' or '.join(below)} below "
            f"it. {layout}"
        )
    if lacks:
        raise DataError(f"The data of {name} in {folder} are not complete: {', '.join(lacks)} missing. {layout}")
    return folder


def cache_folder() -> Path:
    """The user's own folder for files that can be made again (XDG standard)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "desp"


def cache_roots(folder: Path, dataset: str, side: int) -> tuple[Path, Path]:
    """Folders for caches made from a dataset: beside its files, and in the user's own cache folder.

    Args:
        folder: of its files.
        dataset: its name.
        side: height and width of the cached images.
    """
    place = hashlib.blake2b(os.fsencode(resolved_path(folder)), digest_size=8).hexdigest()
    return folder / f"desp-cache-{side}", cache_folder() / f"{dataset}-{side}-{place}"
