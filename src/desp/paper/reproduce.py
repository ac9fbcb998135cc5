"""Train, score and record the recipes of a table: which commands are left, and running them."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from desp.errors import SettingsError
from desp.recipes import all_recipes, get_recipe, get_table
from desp.results import result_path
from desp.settings import LangevinSettings, MethodSettings, RunSettings

SECONDS_TO_SAVE = 60


def stochastic_sampler(method: MethodSettings) -> LangevinSettings | None:
    """The sampler of predictions, where it has stochastic steps of which the share can be varied."""
    sampler = method.prediction_sampler
    return sampler if isinstance(sampler, LangevinSettings) else None


def recipes_of(table: str, only: tuple[str, ...] = ()) -> list[str]:
    """The names of a table's recipes, or those of them that are in `only`.

    Raises:
        SettingsError: there is no such table or recipe, or a recipe is not in the table.
    """
    names = [item.name for item in all_recipes() if item.table == get_table(table).name]
    if not names:
        known = dict.fromkeys(item.table for item in all_recipes() if item.table)
        raise SettingsError(f"No recipe measures the table '{table}'. Tables with recipes: {', '.join(known)}.")
    others = [name for name in only if get_recipe(name).name not in names]
    if others:
        raise SettingsError(f"Not in the table '{table}': {', '.join(others)}. `desp recipes` lists tables.")
    return list(only) or names


@dataclass(frozen=True)
class Job:
    """One recipe and seed.

    Attributes:
        recipe: its name.
        seed: of the run.
        runs: folder for run folders.
        results: folder for recorded results.
        data_dir: where the dataset is; None if there is none, or if it is where it usually is.
        generated: whether data are generated that the recipe reads from files.
        data: part of the names of results: which data, if not the recipe's own.
        ablate: whether to vary the fraction of stochastic steps, where there are some.
    """

    recipe: str
    seed: int
    runs: Path
    results: Path
    data_dir: Path | None = None
    generated: bool = False
    data: str | None = None
    ablate: bool = True

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.runs / f"{self.recipe}{'-generated' if self.generated else ''}-seed{self.seed}"

    def settings(self) -> RunSettings:
        """Of a run that begins.

        Raises:
            SettingsError: data cannot be generated.
        """
        settings = get_recipe(self.recipe).build()
        task = settings.task.on_synthetic_data() if self.generated else settings.task
        if task is None:
            raise SettingsError(
                f"--generated: '{self.recipe}' has no choice of data that are read or generated. Leave it out."
            )
        return replace(settings, task=task)

    def _task_flags(self) -> list[str]:
        """The settings of the task that are not the recipe's."""
        usual, own = (vars(item.task) for item in (get_recipe(self.recipe).build(), self.settings()))
        changed = [name for name in own if own[name] != usual[name]]
        return [part for name in changed for part in (f"--task.{name.replace('_', '-')}", str(own[name]))]

    def commands(self) -> Iterator[list[str]]:
        """The commands that are left to do; none where all results are there, with or without the run."""
        data = ["--data-dir", str(self.data_dir)] if self.data_dir else []
        varies = self.ablate and stochastic_sampler(get_recipe(self.recipe).build().method) is not None
        measured = {"evaluate": self.results} | ({"ablate": self.results / "ablations"} if varies else {})
        left = [
            [command, str(self.folder), "--record", str(results), *data]
            for command, results in measured.items()
            if not result_path(results, self.recipe, self.seed, self.data).exists()
        ]
        if left and not (self.folder / "summary.json").exists():
            begun = ["--resume"] if (self.folder / "settings.json").exists() else self._task_flags()
            yield ["train", self.recipe, "--run", str(self.folder), "--seed", str(self.seed), *begun, *data]
        yield from left

    def carry_out(self, children: "_Children") -> str | None:
        """Do what is left; returns what went wrong, or None."""
        log = self.folder.with_suffix(".log")
        for command in self.commands():
            status = children.call(command, log)
            if status != 0:
                return f"`desp {' '.join(command)}` ended with status {status}: {_last_line(log)} (see {log})"
        return None


def run_jobs(jobs: list[Job], at_once: int, on_done: Callable[[Job, str | None], None]) -> None:
    """Carry out all jobs, each command in a process of its own; Ctrl-C, or SIGTERM as from `timeout`, lets those
    under way save themselves.

    Args:
        jobs: what to do.
        at_once: how many at the same time.
        on_done: called with every job that ended, and the error or None.
    """
    children = _Children()
    with _interrupted_by_sigterm(), ThreadPoolExecutor(max_workers=at_once) as pool:
        futures = {pool.submit(job.carry_out, children): job for job in jobs}
        try:
            for future in as_completed(futures):
                on_done(futures[future], future.result())
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            children.stop()
            raise


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """While entered, SIGTERM is a KeyboardInterrupt: ended at once, we would leave the children behind."""

    def interrupt(number: int, frame: object) -> None:
        del number, frame
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # others cannot set handlers
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Children:
    """The processes under way, which are asked once to save themselves when all shall end.

    They run in sessions of their own: were Ctrl-C to reach them from the terminal as well, a second signal would
    interrupt them in the middle of a step.
    """

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopping = False
        self._lock = threading.Lock()

    def call(self, command: list[str], log: Path) -> int:
        """Run a command of ours to its end, with its output appended to `log`; returns its status."""
        with log.open("ab") as output:
            with self._lock:
                if self._stopping:
                    return 130
                process = subprocess.Popen(  # noqa: S603 - our own command
                    [sys.executable, "-m", "desp", *command],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                self._running.add(process)
            status = process.wait()
        with self._lock:
            self._running.discard(process)
        return status

    def stop(self) -> None:
        """Ask all to end, and end those that do not within a minute."""
        with self._lock:
            self._stopping = True
            running = list(self._running)
        for process in running:
            process.terminate()  # not SIGINT, which children of a background job of a shell ignore
        for process in running:
            try:
                process.wait(timeout=SECONDS_TO_SAVE)
            except subprocess.TimeoutExpired:
                process.kill()


def _last_line(log: Path) -> str:
    """What a command said last, which is why it failed."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return text.strip().rsplit("\n", 1)[-1][:600]
