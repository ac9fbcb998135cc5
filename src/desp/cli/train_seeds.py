"""``desp train --seeds``: one recipe with several seeds, each in a folder of its own."""

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from desp.cli.run_arguments import check_seeds
from desp.cli.train_end import next_words
from desp.cli.under_way import RunsUnderWay
from desp.errors import DespError, RunError, SettingsError, TrainingInterrupted
from desp.paths import resolved_path
from desp.runs.side_by_side import Threads, Work, run_side_by_side
from desp.runs.thread_output import output_by_thread
from desp.settings import Device
from desp.storage import make_folder

# Flags that are replaced in the command of each seed.
_PER_SEED_FLAGS = ("--seeds", "--jobs", "--streams", "--run")


@dataclass(frozen=True)
class _Seed(Work):
    """Training with one seed.

    Attributes:
        recipe: its name.
        seed: of the run.
        prefix: RUN of the folder RUN-seedN.
        arguments: what all seeds are trained with.
        alone: whether no other run is trained at the same time, so that its progress can be shown.
    """

    recipe: str
    seed: int
    prefix: Path
    arguments: tuple[str, ...]
    alone: bool

    @property
    def folder(self) -> Path:
        """The folder RUN-seedN."""
        return self.prefix.with_name(f"{self.prefix.name}-seed{self.seed}")

    @property
    def log(self) -> Path | None:
        """None where progress is shown."""
        return None if self.alone else super().log

    @property
    def begun(self) -> bool:
        """Whether the run was begun, so that it can be resumed."""
        return (self.folder / "settings.json").exists()

    def commands(self) -> Iterator[list[str]]:
        """One command, for a finished run too: it checks that the run is the one that is asked for, and does what
        is left after training."""
        given = [item for item in self.arguments if item != "--resume" or self.begun]
        yield ["train", self.recipe, *given, "--run", str(self.folder), "--seed", str(self.seed)]


@dataclass(frozen=True)
class SeveralSeeds:
    """What to train.

    Attributes:
        recipe: its name.
        arguments: all arguments after it.
        seeds: one run each.
        jobs: how many runs at the same time, in processes.
        streams: whether all run at the same time in threads of this process, on CUDA streams.
        device: where to train.
        own_data: whether the data are a user's own, which are scored after training.
    """

    recipe: str
    arguments: Sequence[str]
    seeds: Sequence[int]
    jobs: int
    streams: bool = False
    device: Device = "auto"
    own_data: bool = False


def train_seeds(several: SeveralSeeds, run: Path | None) -> None:
    """Train with each seed; the others go on where one fails.

    Args:
        several: recipe, arguments and seeds.
        run: RUN of the folders RUN-seedN; runs/RECIPE if None.

    Raises:
        SettingsError: arguments that do not go together.
        RunError: a folder is used already, or a run failed.
        TrainingInterrupted: by Ctrl-C or SIGTERM.
    """
    recipe, arguments, seeds = several.recipe, several.arguments, several.seeds
    _check(arguments, seeds, several.jobs)
    prefix, shared = _named(run or Path("runs") / recipe), tuple(_without(arguments, _PER_SEED_FLAGS))
    work = [_Seed(recipe, seed, prefix, shared, several.jobs == 1 and not several.streams) for seed in seeds]
    used = [str(item.folder) for item in work if item.begun]
    if used and "--resume" not in arguments:
        raise RunError(f"There are runs in {', '.join(used)} already. Add --resume, or choose another --run.")
    make_folder(prefix.parent)
    again = shlex.join(["desp", "train", recipe, *arguments, *({"--resume"} - set(arguments))])
    try:
        failed = _train(several, work)
    except KeyboardInterrupt as stop:
        raise TrainingInterrupted(f"interrupted. To go on with all seeds: {again}") from stop
    if failed:
        raise RunError(f"{failed} of {len(work)} seeds failed. To go on: {again}")
    if work[0].log is not None:  # else each run has said it here
        print(next_words(work[0].folder, several.own_data))


def _train(several: SeveralSeeds, work: list[_Seed]) -> int:
    """Train with each seed, and say what begins and ends; how many failed."""
    failed: list[_Seed] = []
    with RunsUnderWay[_Seed](lambda item: f"seed {item.seed}", len(work), spinning=not work[0].alone) as shown:

        def tell(item: _Seed, problem: str | None) -> None:
            failed.extend([item] if problem else [])
            shown.end(item, problem or f"trained: {item.folder}")

        if several.streams:
            from accelerate import PartialState

            PartialState(cpu=several.device == "cpu")  # one for all threads
            with output_by_thread():
                run_side_by_side(work, len(work), tell, Threads(_run_here), on_command=shown.begin)
        else:
            run_side_by_side(work, several.jobs, tell, on_command=shown.begin)
    return len(failed)


def _run_here(command: list[str]) -> None:
    """Train, and raise SystemExit where a process would exit; leaves the handling of Ctrl-C as it is."""
    from desp.cli.train import run

    try:
        run(command[1:])
    except TrainingInterrupted as stop:
        print(f"\n{stop}", file=sys.stderr)
        sys.exit(130)
    except (DespError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def _named(run: Path) -> Path:
    """The path of a folder by its name, also where it is given as `.` or `..`.

    Raises:
        SettingsError: it is the root, which has none.
    """
    path = resolved_path(run) if run.name in ("", "..") else run
    if not path.name:
        raise SettingsError(f"--run: folders are named RUN-seedN, and {run} has no name. Choose another one.")
    return path


def _check(arguments: Sequence[str], seeds: Sequence[int], jobs: int) -> None:
    flags = [item.partition("=")[0] for item in arguments]
    if not seeds and "--seeds" in flags:
        raise SettingsError("--seeds needs at least one number, e.g. --seeds 0 1 2.")
    if not seeds:
        flag = "--streams" if "--streams" in flags else "--jobs"
        raise SettingsError(f"{flag} goes with several seeds: --seeds 0 1 2. Leave it out, or name them.")
    if "--streams" in flags and "--jobs" in flags:
        raise SettingsError("--streams trains all seeds at the same time, --jobs some. Leave one of them out.")
    check_seeds("--seeds", seeds)
    if "--seed" in flags:
        raise SettingsError("--seed is one seed, --seeds are several. Leave one of them out.")
    if jobs < 1:
        raise SettingsError(f"--jobs must be at least 1, got {jobs}.")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise SettingsError("--seeds starts processes itself. Leave `accelerate launch` out, or take one --seed.")


def _without(arguments: Sequence[str], flags: Sequence[str]) -> Iterator[str]:
    """The arguments without some flags and their values."""
    dropping = False
    for item in arguments:
        if item.startswith("--"):
            dropping = item.partition("=")[0] in flags
        if not dropping:
            yield item
