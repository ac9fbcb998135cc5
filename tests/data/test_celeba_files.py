"""Where CelebA is found, and whether its files have changed."""

import shutil
from pathlib import Path

import pytest

from desp.data.celeba_files import celeba_files, celeba_folder
from desp.errors import DataError
from tiny_celeba import list_path, read_list, write_face, write_list, write_tiny_celeba


@pytest.mark.parametrize("below", ["", "celeba", "CelebA"])
def test_the_layout_is_found_in_and_below_the_folder(tmp_path: Path, below: str) -> None:
    folder = write_tiny_celeba(tmp_path / "data" / below, 3)
    (folder / "img_align_celeba" / "notes.txt").touch()
    files = celeba_files(tmp_path / "data")
    assert files.folder == folder
    assert files.images == ("000001.jpg", "000002.jpg", "000003.jpg")
    assert all(path.exists() for path in (files.image_folder, files.attribute_file, files.partition_file))


def test_the_folder_may_be_given_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESP_DATA", str(tmp_path))
    assert write_tiny_celeba(tmp_path / "celeba", 1) == celeba_folder()


def test_the_fingerprint_changes_with_every_file(tmp_path: Path) -> None:
    folder = write_tiny_celeba(tmp_path, 3)
    seen = {celeba_files(tmp_path).fingerprint}
    assert seen == {celeba_files(tmp_path).fingerprint}
    write_face(folder / "img_align_celeba" / "000002.jpg", 99)
    seen.add(celeba_files(tmp_path).fingerprint)
    (folder / "img_align_celeba" / "000003.jpg").unlink()
    seen.add(celeba_files(tmp_path).fingerprint)
    for kind in ("attr", "eval"):
        write_list(folder, kind, [*read_list(folder, kind), ""])
        seen.add(celeba_files(tmp_path).fingerprint)
    assert len(seen) == 5


def test_nothing_is_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"not there: expected img_align_celeba, .* in celeba or CelebA below it"):
        celeba_files(tmp_path)
    with pytest.raises(DataError, match=r"downloaded by hand from its official page, https://.* --data-dir DIR"):
        celeba_files(tmp_path / "none")


@pytest.mark.parametrize("name", ["img_align_celeba", "list_attr_celeba.txt", "list_eval_partition.txt"])
def test_something_is_missing(tmp_path: Path, name: str) -> None:
    path = write_tiny_celeba(tmp_path / "celeba", 3) / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(DataError, match=f"celeba are not complete: {name} missing. Wanted is the official layout"):
        celeba_files(tmp_path)


def test_no_images(tmp_path: Path) -> None:
    write_tiny_celeba(tmp_path, 0, rows=4)
    with pytest.raises(DataError, match=r"img_align_celeba holds no JPEG images\. Wanted"):
        celeba_files(tmp_path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = list_path(write_tiny_celeba(tmp_path, 3), "attr")
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match=r"CelebA's files cannot be read \(.*list_attr"):
        celeba_files(tmp_path)
