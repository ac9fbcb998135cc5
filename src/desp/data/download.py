"""Fetch files from the network: several mirrors, resumed where they stopped, checked before they count."""

import hashlib
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from desp.errors import DataError, DownloadError

if sys.platform != "win32":
    import fcntl

Progress = Callable[[int, int | None], None]
"""Told how much is done, and how much there is in all (None if that is not known)."""

TIMEOUT = 30.0
_CHUNK = 1 << 16
_NETWORK = (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError, OSError)


@dataclass(frozen=True)
class RemoteFile:
    """A file that several places offer.

    Attributes:
        name: of the file, there and here.
        md5: its checksum.
        mirrors: addresses of folders that hold it, tried in this order.
    """

    name: str
    md5: str
    mirrors: tuple[str, ...]


class _Failed(Exception):
    """A mirror did not give the file; the message says why."""


def file_md5(path: Path) -> str:
    """The MD5 sum of a file. It tells damage, not malice."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def check_md5(path: Path, expected: str, again: str) -> None:
    """Refuse a file with another checksum.

    Raises:
        DataError: it differs; `again` says how to get the right one.
    """
    found = file_md5(path)
    if found != expected:
        raise DataError(
            f"{path}: expected the MD5 sum {expected}, got {found}. It is damaged, or another file of the same "
            f"name. Move it away, then: {again}"
        )


def download(remote: RemoteFile, folder: Path, progress: Progress | None = None, timeout: float = TIMEOUT) -> Path:
    """Fetch a file into `folder`, and return its path; nothing is fetched if it is there already.

    What arrives goes to ``NAME.part`` and gets its name once it is whole and its checksum is right. A part that is
    left over, from an earlier call or another mirror, is continued.

    Args:
        remote: what to fetch.
        folder: where to; made if needed.
        progress: told of bytes.
        timeout: seconds without an answer after which a mirror is given up.

    Raises:
        DownloadError: no mirror gave it; the message lists what each one said.
        DataError: a file of that name is there, and is another one.
    """
    target = folder / remote.name
    if target.exists():
        check_md5(target, remote.md5, "fetch it again.")
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with _alone_in(folder):
        return target if target.exists() else _from_mirrors(remote, target, progress, timeout)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process downloads into `folder`: two of them would write to the same part."""
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # which releases the lock


def _from_mirrors(remote: RemoteFile, target: Path, progress: Progress | None, timeout: float) -> Path:
    """Ask one mirror after the other."""
    folder, part, tried = target.parent, target.with_name(f"{remote.name}.part"), []
    for mirror in remote.mirrors:
        address = f"{mirror.rstrip('/')}/{remote.name}"
        try:
            _fetch_whole(address, part, remote.md5, progress, timeout)
        except _Failed as reason:
            tried.append(f"{address} ({reason})")
            continue
        os.replace(part, target)
        return target
    raise DownloadError(
        f"{remote.name} could not be fetched. Tried: {'; '.join(tried) or 'nothing, as no mirror is known'}. "
        "Check the connection and try again, which goes on where it stopped; or put the file "
        f"into {folder} yourself."
    )


def _fetch_whole(address: str, part: Path, md5: str, progress: Progress | None, timeout: float) -> None:
    """Fill `part` with the whole file of the right checksum, or fail."""
    for resumed in (part.exists() and part.stat().st_size > 0, False):
        _fetch(address, part, progress, timeout)
        found = file_md5(part)
        if found == md5:
            return
        # What was there before may have been the damaged part; if so, the second time is from the beginning.
        part.unlink()
        if not resumed:
            raise _Failed(f"expected the MD5 sum {md5}, got {found}")


def _fetch(address: str, part: Path, progress: Progress | None, timeout: float) -> None:
    """Add to `part` what is missing; whatever arrives before a failure stays."""
    if not address.startswith(("http://", "https://")):
        raise _Failed("not an http address")
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310
    try:
        response: HTTPResponse = urllib.request.urlopen(request, timeout=timeout)  # noqa: S310 - http, see above
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # nothing is missing, or the part is longer than the file: its checksum will tell
            return
        raise _Failed(f"answered {error.code}") from error
    except _NETWORK as error:
        raise _Failed(f"no answer: {getattr(error, 'reason', error)}") from error
    with response:
        goes_on = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        done = have if goes_on else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length is not None and length.isdecimal() else None
        with part.open("ab" if goes_on else "wb") as file:
            for chunk in _chunks(response):
                file.write(chunk)
                done += len(chunk)
                if progress:
                    progress(done, total)
            file.flush()
            os.fsync(file.fileno())
    if total is not None and done < total:
        raise _Failed(f"ended after {done} of {total} bytes")


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    """What a server sends. Only its failures are caught, not those of the disk that it is written to."""
    while True:
        try:
            chunk = response.read(_CHUNK)
        except _NETWORK as error:
            raise _Failed(f"broke off: {error}") from error
        if not chunk:
            return
        yield chunk
