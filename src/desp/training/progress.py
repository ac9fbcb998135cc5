"""Callbacks of the training loop, its log of JSON lines, and stopping by a signal."""

import json
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any

from desp.storage import append, without_nonfinite, write_bytes

logger = logging.getLogger(__name__)

stop_event: ContextVar[threading.Event | None] = ContextVar("stop_event", default=None)
"""Set, it makes training in this thread save and stop; in the main thread signals do that."""


class TrainingCallback:
    """A training callback: override the events you need. All methods do nothing by default."""

    def on_start(self, steps_done: int, steps: int | None) -> None:
        """Training begins.

        Args:
            steps_done: steps done already: 0, or more where a run is resumed.
            steps: after how many it ends, or sooner if time is over; None where validation tells.
        """

    def on_length(self, steps: int | None) -> None:
        """Where `training.steps` is None, it is decided now: training ends after `steps`."""

    def on_step(self, step: int) -> None:
        """`step` steps are done, or under way on the device; called after each, so be quick."""

    def on_log(self, step: int, numbers: dict[str, float]) -> None:
        """Means over the steps since the last call, every `log_every` steps, at validations and checkpoints;
        `learning_rate` is that of the last step."""

    def on_validation_start(self, step: int) -> None:
        """A validation begins, which may take a while."""

    def on_validation_standard_error(self, step: int, standard_error: float | None) -> None:
        """The standard error of the score that `on_validation_end` is about to get; None if it is not known."""

    def on_validation_end(self, step: int, score: float, best: bool) -> None:
        """A validation gave `score`; `best`: better than all before, whatever weights are kept in the end."""

    def on_rollback(self, step: int, to_step: int) -> None:
        """Training failed by step `step` (the first is 1) and rolled back to `to_step`; a warning says why."""

    def on_end(self) -> None:
        """Training is over, for whatever reason."""


class CallbackGroup(TrainingCallback):
    """Several callbacks as one, called in their order."""

    def __init__(self, *callbacks: TrainingCallback) -> None:
        self.callbacks = callbacks

    def __getattribute__(self, name: str) -> Any:
        """Each event goes to all callbacks, those of later versions too."""
        if not name.startswith("on_"):
            return super().__getattribute__(name)
        return lambda *arguments, **named: [getattr(item, name)(*arguments, **named) for item in self.callbacks]


def joined(*callbacks: TrainingCallback | None) -> TrainingCallback | None:
    """All callbacks that are not None as one, called in their order; None if there are none."""
    there = [item for item in callbacks if item is not None]
    return CallbackGroup(*there) if len(there) > 1 else next(iter(there), None)


def add_to_log(path: Path, record: dict[str, Any]) -> None:
    """Append one record to a log of JSON lines."""
    append(path, json.dumps(without_nonfinite(record)) + "\n")


def rewind_log(path: Path, step: int, validated: int) -> None:
    """Keep only lines up to `step`, so that a resumed log reads as if never interrupted.

    Damaged lines are left out, with a warning; a crash may leave half a line at the end, which is none.

    Args:
        path: the log.
        step: the step that training goes on from.
        validated: the step of its last validation; one that was logged later, and not saved, is done again.
    """
    *lines, _ = path.read_bytes().split(b"\n") if path.exists() else [b""]
    records = [_record(line) for line in lines]
    if damaged := records.count(None):
        logger.warning("%s: left out %d damaged lines; the log has a gap there, training has none", path, damaged)
    kept = [
        line + b"\n"
        for line, record in zip(lines, records, strict=True)
        if record and record["step"] <= (validated if "validation_score" in record else step)
    ]
    write_bytes(path, b"".join(kept))


def _record(line: bytes) -> dict[str, Any] | None:
    """A line of a log; None if it is damaged."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("step"), int) else None


@contextmanager
def deferred_signals() -> Iterator[Callable[[], bool]]:
    """While entered, the first SIGINT or SIGTERM only sets a flag; a second one interrupts at once.

    What is yielded reads the flag; the loop calls it between two steps, where everything can be saved. In threads
    other than the main one, `stop_event` is the flag, if there is one.
    """
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        if received:
            raise KeyboardInterrupt(f"second signal {number}")
        received.append(number)
        logger.warning("stopping after this step, or validation, and saving; a second signal stops at once")

    # Signal handlers belong to the main thread.
    on_main = threading.current_thread() is threading.main_thread()
    event = None if on_main else stop_event.get()
    numbers = (signal.SIGINT, signal.SIGTERM) if on_main else ()
    previous = {number: signal.signal(number, note) for number in numbers}
    try:
        yield lambda: bool(received) or (event is not None and event.is_set())
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
