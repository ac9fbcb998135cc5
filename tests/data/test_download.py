"""Downloads from a server of our own: checked, and given up with a list of what was tried."""

import errno
import hashlib
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from desp.data.mnist_files import download, file_md5
from desp.errors import DataError

CONTENT = os.urandom(200_000)
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


class Server(ThreadingHTTPServer):
    """Gives `CONTENT` below /good; /broken ends early, /other gives something else, /plain names no length."""

    asked: list[str]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        kind = self.path.split("/")[1]
        self.server.asked.append(kind)
        if kind not in ("good", "broken", "other", "plain"):
            self.send_error(404)
            return
        content = CONTENT[::-1] if kind == "other" else CONTENT
        self.send_response(200)
        if kind != "plain":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if kind == "broken" else content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server(("127.0.0.1", 0), Handler)
    running.asked = []
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def mirrors(server: Server, *kinds: str) -> list[str]:
    return [f"http://127.0.0.1:{server.server_port}/{kind}" for kind in kinds]


def fetch(server: Server, folder: Path, *kinds: str, **options: Any) -> Path:
    """Download the file from mirrors of these kinds."""
    download(folder / "file.gz", MD5, mirrors(server, *kinds), **options)
    return folder / "file.gz"


def test_a_file_arrives_whole(server: Server, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    path = fetch(server, tmp_path / "new", "good", progress=lambda done, total: told.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert os.listdir(path.parent) == ["file.gz"]
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_length_is_not_needed(server: Server, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    path = fetch(server, tmp_path, "plain", progress=lambda done, total: told.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), None)


def test_the_next_mirror_is_asked(server: Server, tmp_path: Path) -> None:
    path = fetch(server, tmp_path, "missing", "broken", "good")
    assert path.read_bytes() == CONTENT
    assert server.asked == ["missing", "broken", "good"]


def test_a_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"other/file.gz .expected the MD5 sum {MD5}, got"):
        fetch(server, tmp_path, "other")
    assert os.listdir(tmp_path) == []


def test_the_error_lists_what_was_tried(server: Server, tmp_path: Path) -> None:
    with socket.socket() as closed:  # bound and not listening: nobody answers there
        closed.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{closed.getsockname()[1]}"
        places = (dead, *mirrors(server, "missing/", "broken"), "file:///etc")
        with pytest.raises(DataError) as caught:
            download(tmp_path / "file.gz", MD5, places)
    message = str(caught.value)
    assert f"{dead}/file.gz (no answer" in message
    assert "missing/file.gz (answered 404)" in message
    assert "broken/file.gz (ended after 100000 of 200000 bytes)" in message
    assert "file:///etc/file.gz (not an http address)" in message
    assert "Check the connection" in message
    assert os.listdir(tmp_path) == []


def test_without_mirrors_nothing_is_tried(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no mirror is known"):
        download(tmp_path / "file.gz", MD5, ())


def test_a_full_disk_is_not_blamed_on_the_mirror(server: Server, tmp_path: Path) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left") as caught:
        fetch(server, tmp_path, "good", "plain", progress=full)
    assert not isinstance(caught.value, DataError)
    assert os.listdir(tmp_path) == []
    assert server.asked == ["good"]


def test_a_mirror_is_given_some_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def silent(_: object, timeout: float) -> None:
        waited.append(timeout)
        raise TimeoutError("timed out")

    monkeypatch.setattr("urllib.request.urlopen", silent)
    file = (tmp_path / "file.gz", MD5, ("http://one", "http://two"))
    for mirror in ("one", "two"):
        with pytest.raises(DataError, match=rf"{mirror}/file\.gz .no answer: timed out"):
            download(*file)
    assert waited == [30] * 4


def test_a_file_is_on_the_disk_before_it_gets_its_name(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def noting(module: Any, name: str) -> None:
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *rest: done.append(name) or real(*rest))

    noting(os, "fsync")
    noting(os, "replace")
    fetch(server, tmp_path, "good")
    assert done[:2] == ["fsync", "replace"]


def test_md5_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    assert file_md5(tmp_path / "file") == MD5
