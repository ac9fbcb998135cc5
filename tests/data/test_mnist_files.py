"""Where set-MNIST's files are, and which are taken."""

from pathlib import Path
from typing import Any

import pytest

import desp.data.mnist_files
from desp.data import load_mnist
from desp.data.mnist_files import (
    TEST_IMAGES,
    TEST_LABELS,
    TRAIN_IMAGES,
    TRAIN_LABELS,
    check_files,
    fetch_files,
    files_folder,
)
from desp.errors import DataError


def everything_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_files_may_lie_in_the_folder_itself(tiny_mnist: Path) -> None:
    assert files_folder("mnist", tiny_mnist) == tiny_mnist / "mnist"
    assert files_folder("mnist", tiny_mnist / "mnist") == tiny_mnist / "mnist"
    assert files_folder("fashion", tiny_mnist) == tiny_mnist / "fashion"


def test_files_of_the_other_variant_are_not_taken_for_ours(tiny_mnist: Path) -> None:
    """They have the same names: nobody shall be told to remove them."""
    digits = tiny_mnist / "mnist"
    assert files_folder("fashion", digits) == digits / "fashion"
    with pytest.raises(DataError, match=f"The data of 'fashion' are not there: .* in {digits / 'fashion'}"):
        load_mnist("fashion", digits)


def test_the_variable_is_honoured(tiny_mnist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESP_DATA", str(tiny_mnist))
    assert len(load_mnist("mnist").test) == 30


def test_missing_files_tell_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"expected train-images.* desp data mnist --data-dir {tmp_path}. If"):
        load_mnist("mnist", tmp_path)


def test_missing_files_are_fetched_to_where_the_others_are(tiny_mnist: Path) -> None:
    """Those in the folder itself are completed there, and not in the folder above."""
    folder = (tiny_mnist / "mnist").rename(tiny_mnist / "downloads")
    (folder / TEST_LABELS).unlink()
    with pytest.raises(DataError, match=f"{TEST_LABELS} in {folder}. .* desp data mnist --data-dir {folder}. If"):
        load_mnist("mnist", folder)


def test_another_checksum_is_refused(tiny_mnist: Path) -> None:
    path = tiny_mnist / "mnist" / TRAIN_LABELS
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(DataError, match=f"{path}: expected the MD5 sum .* Move it away, then: desp data mnist"):
        load_mnist("mnist", tiny_mnist)
    assert everything_in(tiny_mnist) == {f"mnist/{name}" for name in desp.data.mnist_files.CHECKSUMS["mnist"]}


def test_one_checksum_stands_for_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs keep it, and are refused where it differs: it must not change with the order of files, or at all."""

    def checksum(sums: dict[str, str]) -> str:
        monkeypatch.setitem(desp.data.mnist_files.CHECKSUMS, "mnist", sums)
        return check_files(tmp_path, "mnist")

    sums = {}
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
        sums[name] = desp.data.mnist_files.file_md5(tmp_path / name)
    assert checksum(sums) == "1d10e75c561d90cc2805804438d755cc"
    assert checksum(dict(sorted(sums.items()))) == "1d10e75c561d90cc2805804438d755cc"
    (tmp_path / "a").write_text("other")
    other = {**sums, "a": desp.data.mnist_files.file_md5(tmp_path / "a")}
    assert checksum(other) != "1d10e75c561d90cc2805804438d755cc"


@pytest.mark.parametrize(
    ("variant", "expected"),
    [("mnist", "a43fdca3848d49cd5a4f7367d5b89444"), ("fashion", "bc8995efe385b0bbc81c4211677df8c4")],
)
def test_official_checksums_are_those_of_earlier_runs(
    variant: Any, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = desp.data.mnist_files.CHECKSUMS[variant]
    for name in sums:
        (tmp_path / name).touch()
    monkeypatch.setattr(desp.data.mnist_files, "file_md5", lambda path: sums[path.name])
    assert check_files(tmp_path, variant) == expected


@pytest.mark.parametrize(("variant", "mirrors"), [("mnist", 2), ("fashion", 2)])
def test_what_is_missing_is_fetched_from_the_variants_mirrors(
    variant: Any, mirrors: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def download(target: Path, md5: str, mirrors: tuple[str, ...], progress: Any) -> None:
        progress(3, 7)
        assert target.parent == tmp_path / variant
        assert md5 == desp.data.mnist_files.CHECKSUMS[variant][target.name]
        asked[target.name] = mirrors

    monkeypatch.setattr(desp.data.mnist_files, "download", download)
    (tmp_path / variant).mkdir()
    (tmp_path / variant / TRAIN_LABELS).touch()
    told: list[Any] = []
    assert fetch_files(variant, tmp_path, lambda *news: told.append(news)) == tmp_path / variant
    assert told == [(name, 3, 7) for name in asked]
    assert [*asked] == [TRAIN_IMAGES, TEST_IMAGES, TEST_LABELS]
    (addresses,) = set(asked.values())
    assert len(addresses) == mirrors
    assert all(("fashion" in address) == (variant == "fashion") for address in addresses)


def test_official_checksums_are_complete() -> None:
    for sums in desp.data.mnist_files.CHECKSUMS.values():
        assert len(sums) == len(set(sums.values())) == 4
        assert all(len(md5) == 32 for md5 in sums.values())


def test_images_of_another_shape_are_refused(tiny_mnist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = (tiny_mnist / "mnist" / TRAIN_LABELS).read_bytes()
    (tiny_mnist / "mnist" / TRAIN_IMAGES).write_bytes(labels)
    sums = desp.data.mnist_files.CHECKSUMS["mnist"]
    monkeypatch.setitem(sums, TRAIN_IMAGES, sums[TRAIN_LABELS])
    with pytest.raises(DataError, match=r"expected an array of shape any x 28 x 28, but its header says 200"):
        load_mnist("mnist", tiny_mnist)


def test_variants_have_files_of_their_own(tiny_fashion: Path) -> None:
    assert len(load_mnist("mnist", tiny_fashion).test) == 30
    assert len(load_mnist("fashion", tiny_fashion).test) == 20


def test_loading_writes_nothing(tiny_mnist: Path) -> None:
    before = everything_in(tiny_mnist)
    load_mnist("mnist", tiny_mnist)
    assert everything_in(tiny_mnist) == before


def test_an_empty_folder_of_a_variant_hides_no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / TRAIN_LABELS).write_bytes(b"labels")
    sums = {"mnist": {TRAIN_LABELS: desp.data.mnist_files.file_md5(tmp_path / TRAIN_LABELS)}}
    monkeypatch.setattr(desp.data.mnist_files, "CHECKSUMS", sums)
    assert files_folder("mnist", tmp_path) == tmp_path
