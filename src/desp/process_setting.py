"""Settings that torch has once for the whole process, changed for a while."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V")


@dataclass(eq=False)  # each entry is one of its own
class _Entered(Generic[V]):
    value: V


class ProcessSetting(Generic[V]):
    """A value of the process, which several threads may change for a while.

    The last one to enter decides for all; once all have left, it is as before.

    Args:
        read: gives the present value.
        write: changes it.
    """

    def __init__(self, read: Callable[[], V], write: Callable[[V], None]) -> None:
        self._read, self._write = read, write
        self._lock = threading.Lock()
        # The value before anyone entered, then the values of all who are inside.
        self._entered: list[_Entered[V]] = []

    @contextmanager
    def changed_to(self, value: V | None) -> Iterator[None]:
        """Within this it is `value`; None: as it is."""
        with self._lock:
            present = self._read()
            if not self._entered:
                self._entered.append(_Entered(present))
            own = _Entered(present if value is None else value)
            self._entered.append(own)
            self._write(own.value)
        try:
            yield
        finally:
            with self._lock:
                self._entered.remove(own)
                self._write(self._entered[-1].value)
                if len(self._entered) == 1:
                    self._entered.clear()
