"""``desp reproduce``"""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from desp.cli.common import parse, run_folder
from desp.cli.data_folder import with_data_dir
from desp.errors import RunError, SettingsError
from desp.recipes import all_recipes, get_recipe
from desp.results import result_path
from desp.settings import RunSettings

EXAMPLES = """  desp reproduce toy
  desp reproduce toy --seeds 0 1 2 --jobs 6 --results results
  desp reproduce toy --recipes polygons-desp digits-desp --seeds 0
  desp reproduce mnist --data-dir ~/data --seeds 0"""

SECONDS_TO_SAVE = 60


@dataclass(frozen=True)
class ReproduceArguments:
    """Train, score and record every recipe of one of the paper's tables, for several seeds.

    Each run is a process of its own. What is done already is skipped and what was begun is resumed, so the same
    command goes on after any interruption. Several jobs share one GPU best under CUDA's multi-process service
    (`nvidia-cuda-mps-control -d`).
    """

    table: Annotated[Literal["toy", "mnist"], tyro.conf.Positional]
    """Which table."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds to run."""
    jobs: int = 1
    """Runs at the same time."""
    runs: Path = Path("runs")
    """Folder for run folders."""
    results: Path = Path("results")
    """Folder for recorded results."""
    recipes: tuple[str, ...] = ()
    """Only these recipes; all of the table if not given."""
    data_dir: Path | None = None
    """Where the files of a table's dataset are (mnist); DESP_DATA does as well."""
    ablate: bool = True
    """Also make the S/T ablation of every DESP run."""


def run(arguments: list[str]) -> None:
    """Reproduce a table."""
    options = parse(ReproduceArguments, arguments, "reproduce", EXAMPLES)
    if options.data_dir and options.table == "toy":
        raise SettingsError("--data-dir goes with tables of datasets; the toy table's data are generated.")
    chosen = [get_recipe(name) for name in options.recipes] or all_recipes()
    names = [item.name for item in chosen if item.table == options.table]
    others = [name for name in options.recipes if name not in names]
    if others:
        raise SettingsError(
            f"Not in the table '{options.table}': {', '.join(others)}. `desp recipes` lists tables."
        )
    if not options.seeds:
        raise SettingsError("--seeds needs at least one number, e.g. --seeds 0 1 2.")
    jobs = [(name, seed) for seed in options.seeds for name in names]
    _check_data(options, jobs)
    options.runs.mkdir(parents=True, exist_ok=True)
    children, failed = _Children(), 0
    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        futures = {pool.submit(_carry_out, options, name, seed, children): (name, seed) for name, seed in jobs}
        try:
            for future in as_completed(futures):
                name, seed = futures[future]
                problem = future.result()
                failed += problem is not None
                print(f"{name} seed {seed}: {problem or 'recorded'}", flush=True)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            children.stop()
            raise
    if failed:
        raise RunError(f"{failed} of {len(jobs)} runs failed; see their logs. The same command goes on.")


def _check_data(options: ReproduceArguments, jobs: list[tuple[str, int]]) -> None:
    """Look for the datasets that are still needed once, before every run would fail by itself.

    Raises:
        DataError: files are missing or damaged.
    """
    left = [(name, seed) for name, seed in jobs if any(_commands(options, name, seed))]
    if not any(get_recipe(name).build().task.location_field is not None for name, _ in left):
        return
    from desp.tasks import make_task

    for task in {with_data_dir(_settings(options, name, seed), options.data_dir).task for name, seed in left}:
        make_task(task, seed=0).fingerprint()


def _settings(options: ReproduceArguments, recipe: str, seed: int) -> RunSettings:
    """Those of a run that was begun, which remembers where its data are; else the recipe's."""
    path = _folder(options, recipe, seed)
    if not (path / "settings.json").exists():
        return get_recipe(recipe).build()
    settings: RunSettings = run_folder(path).load_settings()[0]
    return settings


def _folder(options: ReproduceArguments, recipe: str, seed: int) -> Path:
    return options.runs / f"{recipe}-seed{seed}"


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
            process.send_signal(signal.SIGINT)
        for process in running:
            try:
                process.wait(timeout=SECONDS_TO_SAVE)
            except subprocess.TimeoutExpired:
                process.kill()


def _carry_out(options: ReproduceArguments, recipe: str, seed: int, children: _Children) -> str | None:
    """Do what is left of one run; returns what went wrong, or None."""
    log = _folder(options, recipe, seed).with_suffix(".log")
    for command in _commands(options, recipe, seed):
        status = children.call(command, log)
        if status != 0:
            return f"`desp {' '.join(command)}` ended with status {status}: {_last_line(log)} (see {log})"
    return None


def _last_line(log: Path) -> str:
    """What a command said last, which is why it failed."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return text.strip().rsplit("\n", 1)[-1][:600]


def _commands(options: ReproduceArguments, recipe: str, seed: int) -> Iterator[list[str]]:
    folder = _folder(options, recipe, seed)
    data = ["--data-dir", str(options.data_dir)] if options.data_dir else []
    if not (folder / "summary.json").exists():
        begun = ["--resume"] if (folder / "settings.json").exists() else []
        yield ["train", recipe, "--run", str(folder), "--seed", str(seed), *begun, *data]
    if not result_path(options.results, recipe, seed).exists():
        yield ["evaluate", str(folder), "--record", str(options.results), *data]
    ablations = options.results / "ablations"
    varies = options.ablate and get_recipe(recipe).system == "desp"
    if varies and not result_path(ablations, recipe, seed).exists():
        yield ["ablate", str(folder), "--record", str(ablations), *data]
