"""``desp data``"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from desp.cli.common import parse
from desp.settings import MnistDataset

EXAMPLES = """  desp data mnist --data-dir ~/data
  desp data mnist --data-dir ~/data --no-download
  DESP_DATA=~/data desp data fashion"""


@dataclass(frozen=True)
class _DataArguments:
    """Fetch and check a dataset.

    Files that are missing are downloaded, and all are compared with their published checksums.
    """

    dataset: Annotated[MnistDataset, tyro.conf.Positional]
    """Which dataset: MNIST or Fashion-MNIST, as sets of points."""
    data_dir: Path | None = None
    """Folder of the data, whose files are in it or in DATASET below it; DESP_DATA if not given, else
    ~/.local/share/desp."""
    download: bool = True
    """Fetch files that are missing."""


def run(arguments: list[str]) -> None:
    """Fetch and check a dataset."""
    options = parse(_DataArguments, arguments, "data", EXAMPLES)
    from desp.data.mnist import load_mnist
    from desp.data.mnist_files import files_folder

    if options.download:
        _fetch(options)
    data = load_mnist(options.dataset, options.data_dir)
    folder = files_folder(options.dataset, options.data_dir)
    print(f"{folder}: all files are there, and their checksums are right")
    sizes = [size for part in (data.training, data.validation, data.test) for size in part.sizes.tolist()]
    print(
        f"{len(data.training)} sets for training, {len(data.validation)} for validation, "
        f"{len(data.test)} for test; "
        f"{min(sizes)} to {max(sizes)} points, {sum(sizes) / len(sizes):.1f} on average"
    )


def _fetch(options: _DataArguments) -> None:
    """Download what is missing, behind a bar on standard error that vanishes when it is done."""
    from rich.console import Console
    from rich.progress import Progress

    from desp.data.mnist_files import fetch_files

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("bytes", total=None)

        def tell(name: str, done: int, total: int | None) -> None:
            progress.update(bar, description=name, completed=done, total=total)

        fetch_files(options.dataset, options.data_dir, tell)
