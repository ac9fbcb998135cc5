"""Where CLEVR's files are, and when they count as others."""

import os
from pathlib import Path

import pytest

from desp.data.clevr_files import clevr_folder, split_files
from desp.errors import DataError
from tiny_clevr import tiny_scene, write_image, write_scenes, write_tiny_clevr


@pytest.mark.parametrize("below", ["", "clevr", "CLEVR_v1.0"])
def test_the_layout_may_begin_below(tmp_path: Path, below: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_tiny_clevr(tmp_path / "data" / below, 2, 1)
    assert clevr_folder(tmp_path / "data") == folder
    monkeypatch.setenv("DESP_DATA", str(tmp_path / "data"))
    assert clevr_folder() == folder


def test_other_images_do_not_hide_it(tmp_path: Path) -> None:
    (tmp_path / "images" / "train").mkdir(parents=True)
    assert clevr_folder(write_tiny_clevr(tmp_path / "clevr", 2, 1).parent) == tmp_path / "clevr"


def test_missing_data_tell_the_layout_and_where_they_come_from(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        clevr_folder(tmp_path)
    message = str(caught.value)
    assert f"expected the folders images and scenes in {tmp_path}, or in clevr or CLEVR_v1.0 below it" in message
    for words in (
        "images/val/*.png",
        "scenes/CLEVR_train_scenes.json",
        "by hand from its official page",
        "--data-dir",
    ):
        assert words in message


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    write_tiny_clevr(tmp_path, 2, 1)
    (tmp_path / "scenes" / "CLEVR_val_scenes.json").unlink()
    with pytest.raises(DataError, match=r"are not complete: scenes/CLEVR_val_scenes.json missing. Wanted is"):
        clevr_folder(tmp_path)


def test_a_folder_without_images(tmp_path: Path) -> None:
    write_scenes(tmp_path, "train", [])
    (tmp_path / "images" / "train").mkdir(parents=True)
    (tmp_path / "images" / "train" / "notes.txt").touch()
    with pytest.raises(DataError, match=f"{tmp_path / 'images' / 'train'} holds no PNG images"):
        split_files(tmp_path, "train")


def test_a_folder_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "train").touch()
    with pytest.raises(DataError, match=r"files cannot be read .*Check the path"):
        split_files(tmp_path, "train")


def test_only_files_are_images(tmp_path: Path) -> None:
    images = write_tiny_clevr(tmp_path, 2, 1) / "images" / "train"
    (images / "folder.png").mkdir()
    (images / "broken.png").symlink_to(tmp_path / "nowhere")
    (images / "notes.txt").touch()
    assert split_files(tmp_path, "train").images == ("CLEVR_train_000000.png", "CLEVR_train_000001.png")


def test_the_fingerprint_changes_with_the_files(tmp_path: Path) -> None:
    folder = write_tiny_clevr(tmp_path, 3, 1)
    images = folder / "images" / "train"
    seen = [split_files(folder, "train").fingerprint]
    assert len(seen[0]) == 32

    def changed() -> bool:
        seen.append(split_files(folder, "train").fingerprint)
        return len(set(seen)) == len(seen)

    os.utime(images / "CLEVR_train_000001.png", (1, 1))
    os.utime(folder / "scenes" / "CLEVR_train_scenes.json", (1, 1))
    assert split_files(folder, "train").fingerprint == seen[0]  # copies have other times
    write_image(images / "CLEVR_train_000001.png", 1, 30, 20)
    assert changed()
    (images / "CLEVR_train_000001.png").rename(images / "renamed.png")
    assert changed()
    write_image(images / "added.png", 1)
    assert changed()
    write_scenes(folder, "train", [tiny_scene("train", 0, 3)])
    assert changed()
    assert split_files(folder, "val").fingerprint not in seen
