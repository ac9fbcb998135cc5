"""Locks of folders: one process at a time, also after a process was killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from desp.errors import RunError
from desp.locks import LOCK, exclusive, sole_use

HOLD = """
import os, sys, time
from pathlib import Path
from desp.locks import sole_use

with sole_use(Path(sys.argv[1])):
    child = os.fork() if sys.argv[2] == "fork" else -1
    if child == 0:
        time.sleep(60)  # outlives its parent, with the lock's file open
        os._exit(0)
    print(child, flush=True)
    time.sleep(60)
"""


def start_holder(folder: Path, kind: str = "alone") -> tuple["subprocess.Popen[str]", int]:
    """A process that uses a folder, and its child if it has one."""
    command = [sys.executable, "-c", HOLD, str(folder), kind]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_a_folder_is_made_and_gone_if_nothing_was_put_into_it(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "mine"
    with sole_use(folder):
        assert json.loads((folder / LOCK).read_text()) == {"pid": os.getpid(), "host": socket.gethostname()}
    assert list(tmp_path.iterdir()) == []
    with sole_use(folder):
        (folder / "file").touch()
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_it_may_be_entered_again_by_the_same_thread_only(tmp_path: Path) -> None:
    caught: list[str] = []

    def other() -> None:
        try:
            with sole_use(tmp_path):
                pass
        except RunError as error:
            caught.append(str(error))

    with sole_use(tmp_path), sole_use(tmp_path):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(caught) == 1
    assert f"process {os.getpid()}" in caught[0]
    with sole_use(tmp_path):
        pass


def test_the_other_process_is_named_and_a_killed_one_forgotten(tmp_path: Path) -> None:
    process, _ = start_holder(tmp_path)
    try:
        pid, host = process.pid, socket.gethostname()
        words = rf"is in use: process {pid} on {host} trains or tunes there.*kill {pid}"
        with pytest.raises(RunError, match=words), sole_use(tmp_path):
            pass
        assert (tmp_path / LOCK).exists()  # not ours to remove
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert (tmp_path / LOCK).exists()
    with sole_use(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    assert not (tmp_path / LOCK).exists()


def test_a_child_that_outlives_a_killed_process_keeps_nobody_out(tmp_path: Path) -> None:
    """Workers that load data are forked, and hold all that was open."""
    process, child = start_holder(tmp_path, "fork")
    process.send_signal(signal.SIGKILL)
    process.wait()
    try:
        with sole_use(tmp_path):
            assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate()


def test_a_lock_that_is_only_just_being_written(tmp_path: Path) -> None:
    process, _ = start_holder(tmp_path)
    try:
        (tmp_path / LOCK).write_text("")
        with pytest.raises(RunError, match="is in use by another process"), sole_use(tmp_path):
            pass
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def test_exclusive_waits(tmp_path: Path) -> None:
    order: list[str] = []
    within = threading.Event()

    def second() -> None:
        within.wait()
        with exclusive(tmp_path / "lock"):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with exclusive(tmp_path / "lock"):
        within.set()
        thread.join(timeout=0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
