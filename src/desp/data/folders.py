"""Where datasets lie, and where what is made of them may be kept."""

import hashlib
import os
from pathlib import Path


def data_folder(data_dir: str | Path | None = None) -> Path:
    """Where data are: `data_dir`, else the variable DESP_DATA, else the user's own data folder (XDG standard)."""
    given = str(data_dir or "") or os.environ.get("DESP_DATA", "")
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "desp"


def cache_folder() -> Path:
    """The user's own folder for files that can be made again (XDG standard)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "desp"


def cache_roots(folder: Path, dataset: str, side: int) -> tuple[Path, Path]:
    """Where what is made of a dataset may be kept: beside its files, or in the user's own cache folder.

    Args:
        folder: of its files.
        dataset: its name.
        side: height and width of the images that are kept.
    """
    place = hashlib.blake2b(os.fsencode(folder.resolve()), digest_size=8).hexdigest()
    return folder / f"desp-cache-{side}", cache_folder() / f"{dataset}-{side}-{place}"
