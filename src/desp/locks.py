"""One process at a time: locks that end with the process that holds them, however it ends."""

import errno
import fcntl
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from desp.errors import RunError, StorageError
from desp.paths import writing

LOCK = ".lock"
"""The file in a folder that is in use; it names the process."""

_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
# Folders that threads of this process use already.
_used: set[tuple[str, int]] = set()


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Wait until no other process is within; the end of a process lets the next one in, however it ends.

    On a file system without locks nobody waits. That costs time and nothing else where all write the same bytes to
    the same places.

    Raises:
        StorageError: the file at `path` cannot be made.
    """
    with writing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def sole_use(folder: Path) -> Iterator[None]:
    """Use a folder alone; it is made if needed, and removed if nothing was put into it.

    May be entered again by the thread that uses it.

    Raises:
        RunError: another process uses it.
        StorageError: it cannot be written to.
    """
    key = os.path.realpath(folder), threading.get_ident()
    if key in _used:
        yield
        return
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = _claim(folder)
        _used.add(key)
        try:
            yield
        finally:
            _used.discard(key)
            with suppress(OSError):
                (folder / LOCK).unlink()  # while it is held: nobody else's is removed
            os.close(descriptor)
    finally:
        for path in missing:
            with suppress(OSError):  # it holds something now
                path.rmdir()


def _claim(folder: Path) -> int:
    """The open lock of a folder, held by this process."""
    path = folder / LOCK
    while True:
        with writing(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        kept = False
        try:
            if not _locked(descriptor):
                holder = _read(descriptor)
                if _is_gone(holder) and _is_at(descriptor, path):
                    path.unlink(missing_ok=True)  # a child that outlived it still holds the old file's lock
                    continue
                raise RunError(_in_use(folder, holder))
            if _is_at(descriptor, path):  # else who held it before has removed it meanwhile
                _note(descriptor, path)
                kept = True
                return descriptor
        finally:
            if not kept:
                os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Lock an open file; false if another process holds it. Without locks, the process that it names counts."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        holder = _read(descriptor)
        return not holder or _is_gone(holder)
    return True


def _note(descriptor: int, path: Path) -> None:
    """Write who holds the lock into it; a disk that is too full for that is too full for what is to follow."""
    content = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode()
    try:
        with writing(path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, content, 0)
    except StorageError:
        with suppress(OSError):
            path.unlink()
        raise


def _read(descriptor: int) -> dict[str, Any]:
    """What the lock says of who holds it; nothing where it is only just being written."""
    try:
        found = json.loads(os.pread(descriptor, 4096, 0))
        return {"pid": int(found["pid"]), "host": str(found["host"])}
    except (ValueError, KeyError, TypeError):
        return {}


def _is_gone(holder: dict[str, Any]) -> bool:
    """Whether the process was on this machine and has ended."""
    if holder.get("host") != socket.gethostname():
        return False
    try:
        os.kill(holder["pid"], 0)
    except ProcessLookupError:
        return True
    except OSError:  # of another user
        return False
    return False


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _in_use(folder: Path, holder: dict[str, Any]) -> str:
    if not holder:
        return f"{folder} is in use by another process. Wait until it ends, or choose another folder."
    pid, host = holder["pid"], holder["host"]
    return (
        f"{folder} is in use: process {pid} on {host} trains or tunes there. Wait until it ends, stop it "
        f"(kill {pid}), or choose another folder."
    )
