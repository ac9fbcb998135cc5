"""What a path stands for: a file, a pipe, an open file; and what to say where nothing can be written to it."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from desp.errors import StorageError

STDIN, STDOUT = Path("/dev/stdin"), Path("/dev/stdout")

_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_ROOM = "Make room on its disk, then run the command again."
_PERMISSIONS = "Change its permissions, or choose another place."
_ADVICE = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EROFS: "It can only be read there: choose another place, or mount it for writing.",
    errno.EACCES: _PERMISSIONS,
    errno.EPERM: _PERMISSIONS,
    errno.ELOOP: "Its symbolic links lead in a circle: mend them, or choose another place.",
    errno.ENOTDIR: "A part of its path is a file: choose another place.",
    errno.EEXIST: "A part of its path is a file: choose another place.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
}


def descriptor_of(path: Path) -> int | None:
    """The number of the open file that a path such as /dev/stdout or /dev/fd/3 stands for; None of other paths."""
    found = _DESCRIPTOR.fullmatch(str(path))
    return int(found[1]) if found else _STREAMS.get(str(path))


def folder_of(path: Path) -> Path:
    """What paths in a file are relative to: its folder; of a pipe or a device, the current one."""
    return Path() if descriptor_of(path) is not None or is_stream(path) else path.parent


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file, a pipe or an open file such as /dev/stdin, to be read; the last stays open."""
    number = descriptor_of(path)
    with path.open("rb") if number is None else open(number, "rb", closefd=False) as file:
        yield file


def check_output(path: Path) -> None:
    """Check, before any work is done, that `path` can be the name of a file that is written.

    Raises:
        StorageError: it is a folder, a block device or a socket, or its links lead in a circle.
    """
    with writing(path):
        if descriptor_of(path) is None and not is_stream(path):
            check_regular(path)


def resolved_path(path: Path) -> Path:
    """The absolute path, symbolic links resolved.

    Raises:
        StorageError: its links lead in a circle.
    """
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StorageError(
                f"{path} cannot be used: its symbolic links lead in a circle. Mend them, or pass another path."
            ) from error
    return Path(os.path.realpath(path))


@contextmanager
def writing(path: Path, done: str = "written") -> Iterator[None]:
    """While entered, what goes wrong with the disk becomes an error that says what to do.

    Args:
        path: what is written, as the user knows it.
        done: what is done with it.

    Raises:
        StorageError: an OSError, in words. A pipe whose reader is gone stays a BrokenPipeError.
    """
    try:
        yield
    except (StorageError, BrokenPipeError):
        raise
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "Check the path and its disk, then run the command again.")
        reason = error.strerror or str(error)
        raise StorageError(f"{path} could not be {done}: {reason}. {advice}", error.errno) from error


def is_stream(path: Path) -> bool:
    """Whether something is written to rather than replaced: a pipe or a character device."""
    mode = _mode(path)
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def check_regular(path: Path) -> None:
    """Check that `path` is a file, or could be one.

    Raises:
        StorageError: it is something else.
    """
    mode, opened = _mode(path), descriptor_of(path) is not None
    if not opened and (mode == 0 or stat.S_ISREG(mode)):
        return
    if stat.S_ISDIR(mode):
        raise StorageError(f"{path} is a folder. Pass the name of a file.")
    kinds = ((stat.S_ISBLK, "a block device"), (stat.S_ISSOCK, "a socket"), (stat.S_ISFIFO, "a pipe"))
    kind = "an open file" if opened else next((name for test, name in kinds if test(mode)), "a device")
    raise StorageError(f"{path} is {kind}, which no file may replace. Pass the name of a file.")


def _mode(path: Path) -> int:
    """What is at the end of all links; 0 if there is nothing."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
