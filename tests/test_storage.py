"""Files are whole or not there."""

import contextlib
import errno
import json
import math
import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from desp.errors import StorageError
from desp.paths import check_output, descriptor_of, folder_of, resolved_path
from desp.storage import (
    append,
    sweep,
    with_content,
    without_nonfinite,
    write_atomically,
    write_json,
    write_text,
    write_together,
)


def test_text_is_written_and_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.txt"
    write_text(path, "première\n")
    assert path.read_text(encoding="utf-8") == "première\n"
    assert os.listdir(path.parent) == ["file.txt"]


def test_new_files_replace_old_ones(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "a long old text")
    write_text(path, "new")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["file.txt"]


@pytest.mark.parametrize("exception", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, exception: type[BaseException]) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise exception

    with pytest.raises(exception):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_a_failure_leaves_no_file_where_there_was_none(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_json(tmp_path / "file.json", {"a": object()})
    assert os.listdir(tmp_path) == []


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def check(temporary: Path) -> None:
        assert temporary.parent == path.parent
        temporary.write_text("new")
        assert path.read_text() == "old"

    write_atomically(path, check)
    assert path.read_text() == "new"


def test_files_are_as_readable_as_any_other(tmp_path: Path) -> None:
    write_text(tmp_path / "ours.txt", "x")
    (tmp_path / "plain.txt").write_text("x")
    assert (tmp_path / "ours.txt").stat().st_mode == (tmp_path / "plain.txt").stat().st_mode


def test_json_has_null_for_what_it_cannot_say(tmp_path: Path) -> None:
    value = {"a": math.nan, "b": [math.inf, 1.5, (-math.inf, "text")], "c": {"d": None, "e": True, "f": 3}}
    write_json(tmp_path / "file.json", value)
    text = (tmp_path / "file.json").read_text()
    assert json.loads(text) == {
        "a": None,
        "b": [None, 1.5, [None, "text"]],
        "c": {"d": None, "e": True, "f": 3},
    }
    assert text.endswith("}\n")


def test_without_nonfinite_leaves_its_argument_alone() -> None:
    value = {"a": [math.nan]}
    assert without_nonfinite(value) == {"a": [None]}
    assert math.isnan(value["a"][0])


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is made durable and what is renamed, in this order."""
    events: list[tuple[str, str]] = []
    sync, rename = os.fsync, os.replace

    def watched_sync(descriptor: int) -> None:
        target = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        content = f" with {target.read_text()}" if target.is_file() else ""
        events.append(("sync", target.name + content))
        sync(descriptor)

    def watched_rename(source: Path, target: Path) -> None:
        events.append(("rename", f"{Path(source).name} to {Path(target).name}"))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", watched_sync)
    monkeypatch.setattr(os, "replace", watched_rename)
    return events


def test_content_is_durable_before_the_name_and_the_name_at_last(
    tmp_path: Path, on_disk: list[tuple[str, str]]
) -> None:
    """A power cut after the rename, but before the content is on disk, would leave an empty file."""
    folder = tmp_path / "folder"
    write_text(folder / "file.txt", "whole")
    temporary = on_disk[0][1].removesuffix(" with whole")
    assert temporary.startswith(".file.txt.")
    assert on_disk == [
        ("sync", f"{temporary} with whole"),
        ("rename", f"{temporary} to file.txt"),
        ("sync", "folder"),
    ]


# -- links, pipes and devices ----------------------------------------------------------------------------


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "far" / "file.txt", tmp_path / "link.txt"
    write_text(target, "old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert os.listdir(target.parent) == ["file.txt"]


def test_a_link_to_nothing_makes_its_target(tmp_path: Path) -> None:
    link = tmp_path / "link.txt"
    link.symlink_to("missing/file.txt")
    write_text(link, "new")
    assert link.is_symlink()
    assert (tmp_path / "missing" / "file.txt").read_text() == "new"


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = "line\n" * 100_000  # more than a pipe holds
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, content)
    reader.join(timeout=20)
    assert read == [content]
    assert pipe.is_fifo()


def test_a_device_is_written_to_and_stays(tmp_path: Path) -> None:
    link = tmp_path / "nothing"
    link.symlink_to("/dev/null")
    for path in (Path("/dev/null"), link):
        write_text(path, "lost")
        assert path.is_char_device()
    with pytest.raises(
        StorageError, match=r"^/dev/full could not be written: No space left on device\. Make room"
    ):
        write_text(Path("/dev/full"), "more than it holds")


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_is_written_to(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Also where it is a file, as here: it goes on behind what is there."""
    os.write(1, b"before ")
    write_text(Path(name), "within ")
    os.write(1, b"after")
    assert capfd.readouterr().out == "before within after"


def test_other_things_are_never_replaced(tmp_path: Path) -> None:
    folder, place = tmp_path / "folder", tmp_path / "socket"
    folder.mkdir()
    with contextlib.chdir(tmp_path), socket.socket(socket.AF_UNIX) as server:
        server.bind(place.name)  # short, as names of sockets must be
        for path, words in (
            (folder, "is a folder. Pass the name of a file"),
            (place, "is a socket, which no file"),
        ):
            for write in (write_text, lambda path, _: check_output(path)):
                with pytest.raises(StorageError, match=words):
                    write(path, "text")
        assert place.is_socket()
    assert list(folder.iterdir()) == []


def test_block_devices_are_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desp.paths._mode", lambda _: stat.S_IFBLK)
    with pytest.raises(StorageError, match="is a block device, which no file may replace"):
        write_text(tmp_path / "disk", "text")
    assert os.listdir(tmp_path) == []


def test_links_in_a_circle_are_named(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.symlink_to(other)
    other.symlink_to(one)
    for act in (lambda: write_text(one, "text"), lambda: check_output(one), lambda: resolved_path(one / "below")):
        with pytest.raises(StorageError, match="symbolic links lead in a circle"):
            act()
    assert resolved_path(tmp_path / "none" / ".." / "file") == tmp_path.resolve() / "file"


def test_what_paths_are_relative_to(tmp_path: Path) -> None:
    assert folder_of(tmp_path / "file") == tmp_path
    assert folder_of(Path("/dev/stdin")) == folder_of(Path("/dev/null")) == Path()
    assert [descriptor_of(Path(name)) for name in ("/dev/fd/7", "/dev/stdin", "/dev/full")] == [7, 0, None]


# -- disks that are full or read-only --------------------------------------------------------------------

REASONS = {
    errno.ENOSPC: "No space left on device. Make room on its disk",
    errno.EDQUOT: "quota exceeded. Make room on its disk",
    errno.EROFS: "Read-only file system. It can only be read there",
    errno.EACCES: "Permission denied. Change its permissions",
    errno.EIO: "Input/output error. Check the path and its disk",
}


@pytest.mark.parametrize("number", REASONS, ids=lambda number: errno.errorcode[number])
@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_the_error_says_what_and_why_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int
) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(StorageError, match=r"file\.txt could not be written: ") as caught:
        write_text(path, "new")
    assert REASONS[number] in str(caught.value)
    assert caught.value.errno == number
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "text")
    with pytest.raises(StorageError, match="A part of its path is a file"):
        write_text(tmp_path / "file" / "below", "text")


def test_files_that_belong_together_are_all_new_or_all_old(tmp_path: Path) -> None:
    first, second, outdated = tmp_path / "first", tmp_path / "second", tmp_path / "outdated"
    for path in (first, second, outdated):
        write_text(path, "old")

    def fail(temporary: Path) -> None:
        temporary.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StorageError, match="second could not be written"):
        write_together({first: with_content(b"new"), second: fail}, [outdated])
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(
        ("first", "second", "outdated"), "old"
    )
    write_together({first: with_content(b"new"), second: with_content(b"new")}, [outdated, tmp_path / "none"])
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"first": "new", "second": "new"}


def test_half_an_appended_line_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.jsonl"
    append(path, "first\n")
    write = os.write

    def half(descriptor: int, content: bytes) -> int:
        monkeypatch.setattr(os, "write", full)
        return write(descriptor, content[:2])

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(StorageError, match=r"log\.jsonl could not be written: No space left"):
        append(path, "second\n")
    monkeypatch.undo()
    append(path, "third\n")
    assert path.read_text() == "first\nthird\n"


def test_only_what_nobody_writes_any_more_is_swept(tmp_path: Path) -> None:
    abandoned = tmp_path / ".file.txt.k3j2.tmp"
    abandoned.write_text("half")
    (tmp_path / ".notes.tmp").write_text("a user's own")

    def sweep_meanwhile(temporary: Path) -> None:
        temporary.write_text("new")
        sweep(tmp_path)

    write_atomically(tmp_path / "file.txt", sweep_meanwhile)
    assert {path.name for path in tmp_path.iterdir()} == {"file.txt", ".notes.tmp"}
