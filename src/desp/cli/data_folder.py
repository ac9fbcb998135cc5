"""``--data-dir``: where the files of a dataset are, for every command that reads one."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import tyro

from desp.cli.common import run_folder
from desp.errors import SettingsError
from desp.settings import RunSettings

MovedData = Annotated[
    Path | None, tyro.conf.arg(help="Where the dataset is now, if the run reads one and it has moved.")
]
"""The option ``--data-dir`` of commands that go on with a run."""


def with_data_dir(settings: RunSettings, data_dir: Path | None) -> RunSettings:
    """The settings with that folder of data, or else with the one they have, as a whole path.

    Raises:
        SettingsError: there is no such folder, or the task reads no dataset.
    """
    task = settings.task
    reads = task.location_flag == "--data-dir"
    if data_dir is None and not (reads and task.location):
        return settings
    if not reads:
        raise SettingsError(
            f"--data-dir goes with recipes that read a dataset; '{settings.recipe}' does not. Leave it out."
        )
    folder = (data_dir or Path(task.location or "")).expanduser().resolve()
    # A folder that is remembered from another machine may be missing here; one that is named now may not.
    if data_dir is not None and not folder.is_dir():
        fetch = task.fetch_command(str(folder))
        hint = f" To fetch the data into it: {fetch}" if fetch else ""
        raise SettingsError(f"--data-dir: there is no folder {folder}.{hint}")
    return replace(settings, task=task.at(str(folder)))


def note_moved_data(path: Path, data_dir: Path | None) -> None:
    """Let the run at `path` find its data in `data_dir` from now on, if that is given and they are the same data.

    Raises:
        SettingsError: there is no such folder, or the run reads no dataset.
        DataError: the data are not there.
        RunError: they are others than those the run was trained on.
    """
    if data_dir is None:
        return
    from desp.tasks import make_task

    folder = run_folder(path)
    settings, seed = folder.load_settings()
    task = with_data_dir(settings, data_dir).task
    folder.check_data(make_task(task, seed))
    if moved := folder.note_data_folder(task):
        print(f"from now on {path} finds its data in {moved}", file=sys.stderr)
