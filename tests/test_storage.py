"""Files are whole or not there."""

import json
import math
import os
from pathlib import Path

import pytest

from desp.storage import without_nonfinite, write_atomically, write_json, write_text


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
