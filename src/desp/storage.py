"""How files are written: nearly all of them whole or not at all.

What cannot be written becomes a `StorageError`, which says what, why, and what to do.
"""

import fcntl
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from desp.errors import RunError
from desp.paths import check_regular, descriptor_of, is_stream, writing

Write = Callable[[Path], object]
"""Fills the file at a path, which is there already and locked: another one must not be renamed onto it."""


# -- whole files -----------------------------------------------------------------------------------------


def write_atomically(path: Path, write: Write) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it into place.

    A crash at any moment leaves either the old file or the new one. The rename itself is made durable by
    syncing the folder, so that a power cut cannot bring back a half-written file. Where `path` is a symbolic link,
    the file that it leads to is replaced, and the link stays.

    Raises:
        StorageError: it cannot be written, or is something other than a file.
    """
    write_together({path: write})


def write_together(files: Mapping[Path, Write], outdated: Iterable[Path] = ()) -> None:
    """Write files that belong together: none gets its name before all are on the disk.

    Args:
        files: how each is written; they get their names in this order.
        outdated: files that the new ones make wrong, removed just before these get their names.

    Raises:
        StorageError: one cannot be written: what was there is still there, `outdated` too. Or a file cannot be
            removed or renamed after that: then some of it is done already.
    """
    with ExitStack() as stack:
        ready = [(path, *stack.enter_context(_prepared(path, write))) for path, write in files.items()]
        for path in outdated:
            remove(path)
        for path, temporary, target in ready:
            with writing(path):
                os.replace(temporary, target)
        for path, _, target in ready:
            with writing(path):
                _sync(target.parent)


@contextmanager
def _prepared(path: Path, write: Write) -> Iterator[tuple[Path, Path]]:
    """A temporary file with all content, and the file whose name it is to get."""
    with writing(path):
        check_regular(path)
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with writing(path):
            with suppress(OSError):  # for `sweep`: whoever can lock it knows that its writer is gone
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            write(temporary)
            temporary.chmod(0o666 & ~_umask())  # mkstemp makes files private; ours are as readable as any other
            _sync(temporary)
        yield temporary, target
    finally:
        os.close(descriptor)
        with suppress(OSError):  # the error that brought us here says more
            temporary.unlink(missing_ok=True)


def with_content(content: bytes) -> Write:
    """Writes `content`; for `write_together`."""
    return lambda path: path.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """As `write_bytes`, in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to `path`: a file atomically, a pipe or a device such as /dev/stdout directly.

    Raises:
        StorageError: it cannot be written, or is a folder, a block device or a socket.
    """
    with writing(path):
        number = descriptor_of(path)
        if number is not None:
            sys.stdout.flush()  # what was printed comes first
            _write_all(number, content)
        elif is_stream(path):
            descriptor = os.open(path, os.O_WRONLY)
            try:
                _write_all(descriptor, content)
            finally:
                os.close(descriptor)
        else:
            write_atomically(path, with_content(content))


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON to `path`, atomically. NaN and infinity become null."""
    write_bytes(path, json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """`value` as indented JSON. NaN and infinity become null."""
    return (json.dumps(without_nonfinite(value), indent=2, allow_nan=False) + "\n").encode("utf-8")


# -- parts of files, and what is done with files ---------------------------------------------------------


def append(path: Path, text: str) -> None:
    """Add `text` to the end of a file; where that fails, the file is as it was.

    Raises:
        StorageError: it cannot be written.
    """
    with writing(path), path.open("ab", buffering=0) as file:
        end = os.fstat(file.fileno()).st_size
        try:
            _write_all(file.fileno(), text.encode("utf-8"))
        except OSError:
            with suppress(OSError):
                os.ftruncate(file.fileno(), end)
            raise


@contextmanager
def open_in_place(path: Path) -> Iterator[BinaryIO]:
    """A file to be written with `write_at`. It is never cut short, as another process may write the same.

    Not mapped to memory, as a full disk would end the process then; so it is an error with a message.

    Raises:
        StorageError: it cannot be opened.
    """
    with writing(path):
        path.open("ab").close()  # where there is none yet
        file = path.open("r+b", buffering=0)
    with file:
        yield file


def write_at(file: BinaryIO, offset: int, content: bytes) -> None:
    """Write at an offset of a file; `content` is on the disk when this returns.

    Raises:
        StorageError: it cannot be written.
    """
    with writing(Path(str(file.name))):
        file.seek(offset)
        _write_all(file.fileno(), content)
        os.fsync(file.fileno())


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, where they are missing.

    Raises:
        StorageError: that is not possible.
    """
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


def remove(path: Path) -> None:
    """Remove a file, if it is there.

    Raises:
        StorageError: that is not possible.
    """
    with writing(path, "removed"):
        path.unlink(missing_ok=True)


def give_second_name(path: Path, other: Path) -> None:
    """Let `other` be the file at `path` as it is now, also when another one gets the name `path`.

    Raises:
        StorageError: that is not possible.
    """
    remove(other)
    try:
        os.link(path, other)
    except OSError:  # not all file systems give a file two names
        write_atomically(other, lambda temporary: shutil.copyfile(path, temporary))


def sweep(folder: Path, *others: str) -> None:
    """Remove temporary files in `folder` whose writers were killed; files that are being written stay.

    Args:
        folder: where.
        *others: patterns of names of leftovers of other writers, to be removed too. Their writers hold no lock, so
            that they may still be writing; only for folders that the caller uses alone.
    """
    for pattern in (".*.*.tmp", *others):
        for leftover in folder.glob(pattern):
            with suppress(OSError), leftover.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                leftover.unlink()


# -- reading, and JSON -----------------------------------------------------------------------------------


def read_object(path: Path, recovery_hint: str) -> dict[str, Any]:
    """The JSON object in `path`.

    Raises:
        RunError: it cannot be read, or is none; `recovery_hint` says how to get a whole one.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RunError(f"{path} is damaged: {error}. {recovery_hint}") from error
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error}. Check its permissions.") from error
    if not isinstance(value, dict):
        raise RunError(f"{path} is damaged: expected a JSON object, got {type(value).__name__}. {recovery_hint}")
    return value


def without_nonfinite(value: Any) -> Any:
    """Replace NaN and infinities by None, recursively: JSON has no word for them."""
    if isinstance(value, dict):
        return {key: without_nonfinite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        # Most of what is written are long lists of whole numbers.
        return [item if type(item) is int else without_nonfinite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
