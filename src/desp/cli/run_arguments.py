"""What commands that go on with a run take: its folder, where its dataset is, and how much is scored."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from desp.errors import SettingsError
from desp.paths import resolved_path
from desp.results import RECORDED, check_recordable, data_slug, write_result
from desp.runs.folder import RunFolder
from desp.settings import RunSettings


@dataclass(frozen=True)
class RunArguments:
    """A run, and its dataset."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    data_dir: Path | None = None
    """Where the files of set-MNIST, CLEVR, CelebA or pedestrians are now, if they have moved; not for your own
    data."""

    def folder(self) -> RunFolder:
        """The run folder. If `data_dir` is given and holds the same data, the run finds them there from now on.

        Raises:
            SettingsError: there is no such folder, or the run reads no dataset.
            DataError: the data are not there.
            RunError: the run was trained on other data.
        """
        folder = RunFolder(self.run)
        if self.data_dir is None:
            return folder
        from desp.tasks import make_task

        settings, seed = folder.load_settings()
        task = with_data_dir(settings, self.data_dir).task
        folder.check_data(make_task(task, seed))
        if moved := folder.note_data_folder(task):
            print(f"from now on {self.run} finds its data in {moved}", file=sys.stderr)
        return folder


@dataclass(frozen=True)
class ScoreArguments(RunArguments):
    """How much is scored, and where the result goes."""

    protocol: str | None = None
    """Evaluation protocol, quick or full: how many test examples are scored (set-MNIST, CLEVR, CelebA,
    pedestrians, and tasks of plugins that draw their data), how many sets enter coverage,
    minimum_matching_distance and nearest_neighbour_accuracy, how many true sets are ranked for
    calibration_error. By default quick, with --record full."""
    json: bool = False
    """Print JSON."""
    record: Path | None = None
    """Also write the result, with its provenance, into this folder."""
    variant: str | None = None
    """With --record: a name for this run's changes to its recipe's settings."""

    def protocol_for(self, folder: RunFolder) -> str:
        """The protocol to score by: as given, else `full` if the result is recorded and `quick` if not.

        Raises:
            RunError: not a run, or the result could not be recorded.
            SettingsError: a variant is named, and nothing recorded.
        """
        settings, _ = folder.load_settings()
        if self.record is None:
            if self.variant is not None:
                raise SettingsError("--variant names a recorded result. Add --record DIR, or leave it out.")
            return self.protocol or "quick"
        if self.record.exists() and not self.record.is_dir():  # said before any work is done
            raise SettingsError(f"{self.record} is a file. Choose a folder with --record.")
        from desp.runs.evaluate import changed_settings

        protocol = self.protocol or RECORDED
        check_recordable(settings.recipe, changed_settings(folder), protocol, data_slug(settings), self.variant)
        return protocol

    def keep(self, result: dict[str, Any]) -> None:
        """Record a result, if that is asked for."""
        if self.record is not None:
            write_result(self.record, result, self.variant)


def with_data_dir(settings: RunSettings, data_dir: Path | None) -> RunSettings:
    """The settings with `data_dir`, or else their own folder of data, as an absolute path.

    Raises:
        SettingsError: there is no such folder, or the task reads no dataset.
    """
    task = settings.task
    reads = task.location_flag == "--data-dir" and task.location is not None
    if data_dir is None and not (reads and task.location):
        return settings
    if not reads:
        raise SettingsError(
            f"--data-dir goes with runs that read a dataset; this one of '{settings.recipe}' does not. "
            "Leave it out."
        )
    folder = resolved_path((data_dir or Path(task.location or "")).expanduser())
    # A folder that is remembered from another machine may be missing here; one that is named now may not.
    if data_dir is not None and not folder.is_dir():
        fetch = task.fetch_command(str(folder))
        hint = f" To fetch the data into it: {fetch}" if fetch else ""
        raise SettingsError(f"--data-dir: there is no folder {folder}.{hint}")
    return replace(settings, task=task.with_location(str(folder)))


def with_steps_given(settings: RunSettings, arguments: list[str]) -> RunSettings:
    """The settings without `training.minutes`, which excludes steps, where the arguments give
    `--training.steps`."""
    steps = value_of("--training.steps", arguments)
    if steps is None or steps == "None":
        return settings
    return replace(settings, training=replace(settings.training, minutes=None))


def check_seeds(flag: str, seeds: Sequence[int]) -> None:
    """Check several seeds.

    Raises:
        SettingsError: one is below 0, or there twice.
    """
    if len(set(seeds)) < len(seeds) or any(seed < 0 for seed in seeds):
        raise SettingsError(f"{flag}: numbers from 0 on, each once, got {' '.join(map(str, seeds))}.")


def value_of(flag: str, arguments: list[str]) -> str | None:
    """The value of a flag, or None. As tyro reads flags: underscores are dashes, and the last one counts."""
    found = None
    for index, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if name.replace("_", "-") == flag:
            found = value or (arguments[index + 1] if index + 1 < len(arguments) else None)
    return found
