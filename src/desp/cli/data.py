"""``desp data``"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from desp.cli.common import parse
from desp.settings import MnistVariant

if TYPE_CHECKING:
    from desp.data.mnist import MnistData

EXAMPLES = """  desp data mnist --data-dir ~/data
  desp data mnist --data-dir ~/data --no-download
  DESP_DATA=~/data desp data fashion"""


@dataclass(frozen=True)
class DataArguments:
    """Fetch, check and prepare a dataset.

    Files that are missing are downloaded, all are compared with their published checksums, and what training reads
    is computed from them once. It is kept beside the files, or in the user's cache folder where those cannot be
    written to; DESP_CACHE=DIR names another one.
    """

    dataset: Annotated[MnistVariant, tyro.conf.Positional]
    """Which dataset: MNIST or Fashion-MNIST, as sets of points."""
    data_dir: Path | None = None
    """Folder of the data, whose files are in it or in DATASET below it; DESP_DATA if not given, else
    ~/.local/share/desp."""
    download: bool = True
    """Fetch files that are missing."""


def run(arguments: list[str]) -> None:
    """Prepare a dataset."""
    options = parse(DataArguments, arguments, "data", EXAMPLES)
    from desp.data.mnist import load_mnist
    from desp.data.mnist_files import check_files, fetch_files, files_folder

    folder = files_folder(options.dataset, options.data_dir)
    with _bar("bytes") as (progress, bar):
        if options.download:

            def told(name: str, done: int, total: int | None) -> None:
                progress.update(bar, description=name, completed=done, total=total)

            folder = fetch_files(options.dataset, options.data_dir, told)
    check_files(folder, options.dataset)
    print(f"{folder}: all files are there, and their checksums are right")
    with _bar("preparing") as (progress, bar):
        data = load_mnist(
            options.dataset,
            options.data_dir,
            progress=lambda done, total: progress.update(bar, completed=done, total=total),
        )
    _describe(data)


@contextmanager
def _bar(text: str) -> Iterator[tuple[Any, Any]]:
    """A progress bar on standard error, which vanishes when it is done."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        yield progress, progress.add_task(text, total=None)


def _describe(data: "MnistData") -> None:
    training, validation = data.split
    sizes = [*data.training.sizes.tolist(), *data.test.sizes.tolist()]
    print(
        f"{len(training)} sets for training, {len(validation)} for validation, {len(data.test)} for test; "
        f"{min(sizes)} to {max(sizes)} points, {sum(sizes) / len(sizes):.1f} on average"
    )
    print(f"prepared in {data.cache}")
