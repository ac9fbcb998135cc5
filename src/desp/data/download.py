"""Fetch files from the network: from several mirrors, checked before they count."""

import hashlib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from desp.errors import DataError, DownloadError
from desp.storage import write_atomically

Progress = Callable[[int, int | None], None]
"""Told how much is done, and how much there is in all (None if that is not known)."""

TIMEOUT = 30.0
_CHUNK = 1 << 16
_NETWORK = (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError, OSError)


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


def download(
    target: Path,
    md5: str,
    mirrors: Sequence[str],
    progress: Progress | None = None,
    timeout: float = TIMEOUT,
) -> None:
    """Fetch a file to `target`, unless it is there already.

    It gets its name once it is whole and its checksum is right, so that several processes may fetch it at once.

    Args:
        target: where to; its folder is made if needed, and its name is the one it has on all mirrors.
        md5: its checksum.
        mirrors: addresses of folders that hold it, tried in this order.
        progress: told of bytes.
        timeout: seconds without an answer after which a mirror is given up.

    Raises:
        DownloadError: no mirror gave it; the message lists what each one said.
        DataError: a file of that name is there, and is another one.
    """
    if target.exists():
        check_md5(target, md5, "fetch it again.")
        return
    tried = []
    for mirror in mirrors:
        address = f"{mirror.rstrip('/')}/{target.name}"
        try:
            write_atomically(target, partial(_fetch, address, md5, progress, timeout))
        except _Failed as reason:
            tried.append(f"{address} ({reason})")
            continue
        return
    raise DownloadError(
        f"{target.name} could not be fetched. Tried: {'; '.join(tried) or 'nothing, as no mirror is known'}. "
        f"Check the connection and try again, or put the file into {target.parent} yourself."
    )


def _fetch(address: str, md5: str, progress: Progress | None, timeout: float, path: Path) -> None:
    """Fill `path` with the whole file of the right checksum, or fail."""
    if not address.startswith(("http://", "https://")):
        raise _Failed("not an http address")
    try:
        response: HTTPResponse = urllib.request.urlopen(address, timeout=timeout)  # noqa: S310 - http, see above
    except urllib.error.HTTPError as error:
        error.close()
        raise _Failed(f"answered {error.code}") from error
    except _NETWORK as error:
        raise _Failed(f"no answer: {getattr(error, 'reason', error)}") from error
    length = response.headers.get("Content-Length")
    done, total = 0, int(length) if length is not None and length.isdecimal() else None
    with response, path.open("wb") as file:
        for chunk in _chunks(response):
            file.write(chunk)
            done += len(chunk)
            if progress:
                progress(done, total)
    if total is not None and done < total:
        raise _Failed(f"ended after {done} of {total} bytes")
    found = file_md5(path)
    if found != md5:
        raise _Failed(f"expected the MD5 sum {md5}, got {found}")


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
