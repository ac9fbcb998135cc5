"""Ctrl-C at a moment that suits the training loop."""

import logging
import signal
import threading
from types import FrameType
from typing import Self

logger = logging.getLogger(__name__)


class StopRequest:
    """While entered, the first SIGINT or SIGTERM only sets a flag; a second one interrupts at once.

    The loop looks at the flag between two steps, where everything can be saved.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, object] = {}

    def __enter__(self) -> Self:
        # Signal handlers belong to the main thread; elsewhere the loop just cannot be asked to stop.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous.clear()

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.requested:
            raise KeyboardInterrupt(f"second signal {number}")
        self.requested = True
        logger.warning("stopping after this step, or validation, and saving; a second signal stops at once")
