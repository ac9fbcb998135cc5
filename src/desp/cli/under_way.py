"""What runs side by side are doing: a line for each that begins or ends, and on a terminal what is under way."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from desp.runs.log import last_step
from desp.runs.side_by_side import Work

W = TypeVar("W", bound=Work)


class RunsUnderWay(Generic[W]):
    """Lines on standard output; below them, on a terminal, what each run under way is doing, and its step.

    Args:
        name: what to call a run.
        total: how many runs there are.
        spinning: whether to show what is under way; not where a run shows its own progress.
    """

    def __init__(self, name: Callable[[W], str], total: int, *, spinning: bool = True) -> None:
        self._name, self._total, self._done = name, total, 0
        self._console, self._spinner = Console(stderr=True), Spinner("dots")
        self._spinning = spinning and self._console.is_terminal
        self._doing: dict[W, str] = {}
        self._lock, self._live = threading.Lock(), Live()

    def __enter__(self) -> Self:
        self._show()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()

    def begin(self, work: W, command: list[str]) -> None:
        """Note that a command begins; the first of a run is told, with the place of its output."""
        first = work not in self._doing
        self._doing[work] = command[0]
        if first:
            self._say(f"{self._name(work)}: begins; {_output(work)}")

    def end(self, work: W, words: str) -> None:
        """Tell how a run ended."""
        self._doing.pop(work, None)
        self._done += 1
        self._say(f"{self._name(work)}: {words}")

    def _say(self, line: str) -> None:
        with self._lock:
            self._live.stop()
            print(line, flush=True)
            self._show()

    def _show(self) -> None:
        """Begin anew: one that goes on would write over the lines."""
        if self._spinning:
            # Standard output is left alone: it may be a file, and threads may have files of their own.
            self._live = Live(
                console=self._console,
                get_renderable=self._now,
                refresh_per_second=5,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def _now(self) -> Spinner:
        doing = [f"{self._name(work)}: {_progress(work, command)}" for work, command in list(self._doing.items())]
        self._spinner.update(text=Text("; ".join([f"{self._done} of {self._total} done", *doing])))
        return self._spinner


def _output(work: Work) -> str:
    return f"folder: {work.folder}" if work.log is None else f"log: {work.log}"


def _progress(work: Work, command: str) -> str:
    step = last_step(work.folder / "log.jsonl") if command == "train" else None
    return command if step is None else f"{command}, step {step:,}"
