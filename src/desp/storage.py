"""Files that are either whole or not there at all."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from desp.errors import RunError


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it into place.

    A crash at any moment leaves either the old file or the new one. The rename itself is made durable by
    syncing the folder, so that a power cut cannot bring back a half-written file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes files private; ours are as readable as any other
        _sync(temporary)
        os.replace(temporary, path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`, atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to `path`, atomically."""
    write_atomically(path, lambda temporary: temporary.write_bytes(content))


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON to `path`, atomically. NaN and infinity become null."""
    write_text(path, json.dumps(without_nonfinite(value), indent=2, allow_nan=False) + "\n")


def read_object(path: Path, again: str) -> dict[str, Any]:
    """The JSON object in `path`.

    Raises:
        RunError: it cannot be read, or is none; `again` says how to get a whole one.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RunError(f"{path} is damaged: {error}. {again}") from error
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error}. Check its permissions.") from error
    if not isinstance(value, dict):
        raise RunError(f"{path} is damaged: expected a JSON object, got {type(value).__name__}. {again}")
    return value


def without_nonfinite(value: Any) -> Any:
    """Replace NaN and infinities by None, recursively: JSON has no word for them."""
    if isinstance(value, dict):
        return {key: without_nonfinite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        # Most of what is written are long lists of whole numbers.
        return [item if type(item) is int else without_nonfinite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


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
