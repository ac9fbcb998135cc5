"""Standard output and error of a thread, in a file of its own."""

import io
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Stream = Any  # a TextIO, what stands in the place of standard output, or None where that is closed

_files: dict[int, Stream] = {}
_lock = threading.Lock()


class _ByThread(io.TextIOBase):
    """Writes to the file of the calling thread, if it has one, else to the usual stream."""

    def __init__(self, usual: Stream) -> None:
        self.usual = usual

    def write(self, text: str) -> int:
        """Write; the text is lost where the usual stream is closed."""
        stream = self._stream()
        return len(text) if stream is None else int(stream.write(text))

    def flush(self) -> None:
        """Flush the stream of the calling thread."""
        stream = self._stream()
        if stream is not None:
            stream.flush()

    def isatty(self) -> bool:
        """Whether the stream of the calling thread is a terminal."""
        stream = self._stream()
        return stream is not None and bool(stream.isatty())

    @property
    def encoding(self) -> str:  # type: ignore[override]  # only read, unlike the attribute of the base
        """The encoding of the stream of the calling thread."""
        return getattr(self._stream(), "encoding", None) or "utf-8"

    def _stream(self) -> Stream:
        return _files.get(threading.get_ident(), self.usual)


@contextmanager
def output_by_thread() -> Iterator[None]:
    """Within this, threads may have files of their own (`output_of_this_thread`), also for log messages."""
    usual = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = ours = _ByThread(usual[0]), _ByThread(usual[1])
    handlers = [item for item in logging.getLogger().handlers if isinstance(item, logging.StreamHandler)]
    moved = [item for item in handlers if item.stream is usual[1]]
    for handler in moved:
        handler.setStream(ours[1])
    try:
        yield
    finally:
        sys.stdout, sys.stderr = usual
        for handler in moved:
            handler.setStream(usual[1])


@contextmanager
def output_of_this_thread(log: Path) -> Iterator[None]:
    """Append the output of this thread to a file."""
    with log.open("a", encoding="utf-8", buffering=1) as file:
        with _lock:
            _files[threading.get_ident()] = file
        try:
            yield
        finally:
            with _lock:
                del _files[threading.get_ident()]
