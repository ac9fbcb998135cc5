"""Several runs from one command, some at the same time: each in a process or in a thread of its own."""

import logging
import shlex
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Self, TypeVar

from desp.runs.thread_output import output_of_this_thread

logger = logging.getLogger(__name__)

SECONDS_TO_SAVE = 60


class Work(ABC):
    """Commands for one run folder, one after the other."""

    @property
    @abstractmethod
    def folder(self) -> Path:
        """The run folder."""

    @property
    def log(self) -> Path | None:
        """The file that output is appended to; None: it goes where ours goes."""
        return self.folder.with_name(f"{self.folder.name}.log")

    @abstractmethod
    def commands(self) -> Iterable[list[str]]:
        """The commands that are left to do."""

    def carry_out(self, workers: "Workers", on_command: Callable[[Self, list[str]], None]) -> str | None:
        """Do what is left, and tell of each command before; returns what went wrong, or None."""
        for command in self.commands():
            on_command(self, command)
            status = workers.call(command, self.log)
            if status != 0:
                ended = f"`desp {shlex.join(command)}` ended with status {status}"
                return ended if self.log is None else f"{ended}: {_last_line(self.log)} (see {self.log})"
        return None


W = TypeVar("W", bound=Work)


def _say_nothing(work: Work, command: list[str]) -> None:
    """Nobody wants to know what begins."""


def run_side_by_side(
    jobs: Sequence[W],
    at_once: int,
    on_done: Callable[[W, str | None], None],
    workers: "Workers | None" = None,
    *,
    on_command: Callable[[W, list[str]], None] = _say_nothing,
) -> None:
    """Carry out all jobs; on Ctrl-C or SIGTERM those under way save themselves and end.

    Args:
        jobs: what to do.
        at_once: how many at the same time.
        on_done: called with every job that ended, and what went wrong or None.
        workers: what runs commands; by default each is a process of its own.
        on_command: called with a job and each of its commands before that begins, in the thread that waits for it.
    """
    workers = workers or Processes()
    with _interrupted_by_sigterm(), ThreadPoolExecutor(max_workers=at_once) as pool:
        futures = {pool.submit(job.carry_out, workers, on_command): job for job in jobs}
        try:
            for future in as_completed(futures):
                error = future.exception()
                if error is not None:  # of this job alone, whatever it is: the others go on
                    logger.error("%s failed", futures[future].folder, exc_info=error)
                on_done(futures[future], future.result() if error is None else f"{type(error).__name__}: {error}")
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            workers.stop()
            raise


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """While entered, SIGTERM is a KeyboardInterrupt: if this process just ended, its children would go on."""

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


class Workers(ABC):
    """What runs commands."""

    @abstractmethod
    def call(self, command: list[str], log: Path | None) -> int:
        """Run a command of ours to its end, with its output appended to `log`, or where ours goes; returns its
        status."""

    @abstractmethod
    def stop(self) -> None:
        """Ask all commands under way to save themselves and end; others are not begun any more."""


class Processes(Workers):
    """A process for each command.

    Processes are in sessions of their own, so that Ctrl-C in the terminal does not reach them: they get one signal
    from `stop`, and a second one would interrupt them in the middle of a step.
    """

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopping = False
        self._lock = threading.Lock()

    def call(self, command: list[str], log: Path | None) -> int:
        """Run a command in a process of its own."""
        with nullcontext() if log is None else log.open("ab") as output:
            with self._lock:
                if self._stopping:
                    return 130
                process = subprocess.Popen(  # noqa: S603 - our own command
                    [sys.executable, "-m", "desp", *command],
                    stdout=output,
                    stderr=None if output is None else subprocess.STDOUT,
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


class Threads(Workers):
    """Commands in threads of this process, each on a CUDA stream of its own where there is a GPU.

    Kernels of several streams run on a GPU at the same time, kernels of several processes take turns.

    Args:
        run: runs a command, and raises SystemExit where a process would exit.
    """

    def __init__(self, run: Callable[[list[str]], None]) -> None:
        self.run, self._stopping = run, threading.Event()

    def call(self, command: list[str], log: Path | None) -> int:
        """Run a command in the thread that calls."""
        from desp.training.progress import stop_event  # loads torch, which trains here

        if self._stopping.is_set():
            return 130
        with ExitStack() as stack:
            if log is not None:
                stack.enter_context(output_of_this_thread(log))
            stack.enter_context(_own_stream())
            token = stop_event.set(self._stopping)
            try:
                self.run(command)
            except SystemExit as end:
                return end.code if isinstance(end.code, int) else int(end.code is not None)
            finally:
                stop_event.reset(token)
        return 0

    def stop(self) -> None:
        """Ask all training under way to save itself and end; what follows training is done to its end."""
        self._stopping.set()


def _own_stream() -> AbstractContextManager[object]:
    import torch  # not before something is trained

    return torch.cuda.stream(torch.cuda.Stream()) if torch.cuda.is_available() else nullcontext()


def _last_line(log: Path) -> str:
    """What a command said last, which is why it failed."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return text.strip().rsplit("\n", 1)[-1][:600]
