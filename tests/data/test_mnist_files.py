"""Where set-MNIST's files are, which are taken, and a cache that is never half there."""

import errno
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import desp.data.cache
import desp.data.mnist_files
from desp.data import load_mnist
from desp.data.mnist_files import (
    TEST_IMAGES,
    TEST_LABELS,
    TRAIN_IMAGES,
    TRAIN_LABELS,
    check_files,
    data_folder,
    fetch_files,
    files_folder,
)
from desp.errors import DataError

PART = "mnist-points"


def everything_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


# -- where data are --------------------------------------------------------------------------------------


def test_where_data_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DESP_DATA", raising=False)
    assert data_folder() == tmp_path / "home" / "desp"
    monkeypatch.setenv("DESP_DATA", str(tmp_path / "variable"))
    assert data_folder("") == tmp_path / "variable"
    assert data_folder(tmp_path / "given") == tmp_path / "given"


def test_where_data_and_caches_are_without_any_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "DESP_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert data_folder() == tmp_path / ".local" / "share" / "desp"
    assert data_folder("~/mine") == tmp_path / "mine"
    assert desp.data.cache.user_folder("XDG_CACHE_HOME", ".cache") == tmp_path / ".cache" / "desp"


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


def test_another_checksum_is_refused(tiny_mnist: Path) -> None:
    path = tiny_mnist / "mnist" / TRAIN_LABELS
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(DataError, match=f"{path}: expected the MD5 sum .* Move it away, then: desp data mnist"):
        load_mnist("mnist", tiny_mnist)
    assert everything_in(tiny_mnist) == {f"mnist/{name}" for name in desp.data.mnist_files.CHECKSUMS["mnist"]}


def test_checksums_can_be_given(tiny_mnist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = desp.data.mnist_files.CHECKSUMS["mnist"]
    monkeypatch.setitem(desp.data.mnist_files.CHECKSUMS, "mnist", dict.fromkeys(own, "0" * 32))
    with pytest.raises(DataError, match="expected the MD5 sum 0000"):
        check_files(tiny_mnist / "mnist", "mnist")
    assert len(load_mnist("mnist", tiny_mnist, checksums=own).training) == 200


def test_one_checksum_stands_for_all_files(tmp_path: Path) -> None:
    """Runs keep it, and are refused where it differs: it must not change with the order of files, or at all."""
    sums = {}
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
        sums[name] = desp.data.mnist_files.file_md5(tmp_path / name)
    assert check_files(tmp_path, "mnist", sums) == "1d10e75c561d90cc2805804438d755cc"
    assert check_files(tmp_path, "mnist", dict(sorted(sums.items()))) == "1d10e75c561d90cc2805804438d755cc"
    (tmp_path / "a").write_text("other")
    other = {**sums, "a": desp.data.mnist_files.file_md5(tmp_path / "a")}
    assert check_files(tmp_path, "mnist", other) != "1d10e75c561d90cc2805804438d755cc"


@pytest.mark.parametrize(
    ("variant", "expected"),
    [("mnist", "a43fdca3848d49cd5a4f7367d5b89444"), ("fashion", "bc8995efe385b0bbc81c4211677df8c4")],
)
def test_official_checksums_are_those_of_earlier_runs(
    variant: Any, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in desp.data.mnist_files.CHECKSUMS[variant]:
        (tmp_path / name).touch()
    monkeypatch.setattr(desp.data.mnist_files, "check_md5", lambda *_: None)
    assert check_files(tmp_path, variant) == expected


@pytest.mark.parametrize(("variant", "mirrors"), [("mnist", 2), ("fashion", 2)])
def test_what_is_missing_is_fetched_from_the_variants_mirrors(
    variant: Any, mirrors: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def download(remote: Any, folder: Path, progress: Any) -> None:
        progress(3, 7)
        assert folder == tmp_path / variant
        assert remote.md5 == desp.data.mnist_files.CHECKSUMS[variant][remote.name]
        asked[remote.name] = remote.mirrors

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


# -- the cache -------------------------------------------------------------------------------------------


def test_the_cache_lies_beside_the_files(tiny_mnist: Path) -> None:
    told: list[tuple[int, int]] = []
    data = load_mnist("mnist", tiny_mnist, progress=lambda done, total: told.append((done, total)))
    assert data.cache == tiny_mnist / "mnist" / PART
    assert told == [(200, 230), (230, 230)]
    assert isinstance(data.training.points, np.memmap)
    again = load_mnist("mnist", tiny_mnist, progress=lambda *_: pytest.fail("computed a second time"))
    np.testing.assert_array_equal(again.training.points, data.training.points)
    assert again.checksum == data.checksum


def test_a_read_only_folder_is_left_alone(tiny_mnist: Path, tmp_path: Path) -> None:
    folder = tiny_mnist / "mnist"
    folder.chmod(0o555)
    try:
        data = load_mnist("mnist", tiny_mnist)
    finally:
        folder.chmod(0o755)
    assert data.cache == tmp_path / "home-cache" / "desp" / PART
    assert not (folder / PART).exists()


def test_a_cache_folder_can_be_named(tiny_mnist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESP_CACHE", str(tmp_path / "mine"))
    assert load_mnist("mnist", tiny_mnist).cache == tmp_path / "mine" / PART
    assert not (tiny_mnist / "mnist" / PART).exists()


def test_a_cache_says_what_it_holds(tiny_mnist: Path) -> None:
    """Another version would be made again, on every machine."""
    data = load_mnist("mnist", tiny_mnist)
    record = json.loads((data.cache / "cache.json").read_text())
    assert (record["version"], record["source"]) == (1, data.checksum)
    kinds = ("points", "offsets", "labels")
    assert record["arrays"].keys() == {f"{part}_{kind}" for part in ("training", "test") for kind in kinds}


def test_variants_share_a_cache_folder(
    tiny_fashion: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESP_CACHE", str(tmp_path / "mine"))
    for progress in (None, lambda *_: pytest.fail("computed a second time")):
        assert len(load_mnist("mnist", tiny_fashion, progress=progress).test) == 30
        assert len(load_mnist("fashion", tiny_fashion, progress=progress).test) == 20


def test_another_process_replaces_the_cache(tiny_mnist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was computed is used even if the files are gone for a moment."""
    real = desp.data.cache._keep

    def keep(place: Path, *rest: Any) -> bool:
        kept = real(place, *rest)
        place.rename(place.with_name("moved"))
        return kept

    monkeypatch.setattr(desp.data.cache, "_keep", keep)
    assert len(load_mnist("mnist", tiny_mnist).training) == 200


def test_nowhere_to_write(tiny_mnist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    monkeypatch.setenv("DESP_CACHE", str(locked / "below"))
    with pytest.raises(DataError, match=r"cannot be written to\. Name a folder that can: DESP_CACHE=DIR"):
        load_mnist("mnist", tiny_mnist)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def change(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def forget_version(path: Path) -> None:
    record = path.with_name("cache.json")
    record.write_text(json.dumps({**json.loads(record.read_text()), "version": 0}))


def forget_source(path: Path) -> None:
    record = path.with_name("cache.json")
    record.write_text(json.dumps({**json.loads(record.read_text()), "source": "other"}))


def scribble(path: Path) -> None:
    path.with_name("cache.json").write_text("[")


@pytest.mark.parametrize("harm", [shorten, change, os.remove, forget_version, forget_source, scribble])
def test_a_bad_cache_is_noticed_and_made_again(
    tiny_mnist: Path, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    first = load_mnist("mnist", tiny_mnist)
    expected = np.array(first.training.points)
    harm(first.cache / "training_points.npy")
    with caplog.at_level(logging.WARNING):
        again = load_mnist("mnist", tiny_mnist)
    np.testing.assert_array_equal(again.training.points, expected)
    assert "is made again" in caplog.text
    caplog.clear()
    load_mnist("mnist", tiny_mnist)
    assert caplog.text == ""


@pytest.mark.parametrize("files_before", [0, 3])
def test_a_full_disk_leaves_no_cache(tiny_mnist: Path, monkeypatch: pytest.MonkeyPatch, files_before: int) -> None:
    before = everything_in(tiny_mnist)
    real, calls = np.save, []

    def full(path: Path, array: Any, **options: Any) -> None:
        calls.append(path)
        if len(calls) > files_before:
            Path(path).write_bytes(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        real(path, array, **options)

    monkeypatch.setattr(desp.data.cache.np, "save", full)
    with pytest.raises(DataError, match=r"No space left on device.*Nothing was left behind. Free some space"):
        load_mnist("mnist", tiny_mnist)
    assert everything_in(tiny_mnist) == before
    assert [path.name for path in (tiny_mnist / "mnist").iterdir() if path.is_dir()] == []
    monkeypatch.undo()


def test_an_interrupted_build_leaves_no_cache(tiny_mnist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = np.save, []

    def interrupted(path: Path, array: Any, **options: Any) -> None:
        calls.append(path)
        if len(calls) == 4:
            raise KeyboardInterrupt
        real(path, array, **options)

    with monkeypatch.context() as patch:
        patch.setattr(desp.data.cache.np, "save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            load_mnist("mnist", tiny_mnist)
    assert [path for path in (tiny_mnist / "mnist").iterdir() if path.is_dir()] == []
    assert len(load_mnist("mnist", tiny_mnist).training) == 200


def test_a_failed_rebuild_leaves_the_old_cache(tiny_mnist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = load_mnist("mnist", tiny_mnist).cache
    forget_version(cache / "training_points.npy")
    before = everything_in(cache)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(desp.data.cache.np, "save", full)
        with pytest.raises(DataError, match="No space left"):
            load_mnist("mnist", tiny_mnist)
    assert everything_in(cache) == before


def test_images_of_another_shape_are_refused(tiny_mnist: Path) -> None:
    labels = (tiny_mnist / "mnist" / TRAIN_LABELS).read_bytes()
    path = tiny_mnist / "mnist" / TRAIN_IMAGES
    path.write_bytes(labels)
    sums = {
        **desp.data.mnist_files.CHECKSUMS["mnist"],
        TRAIN_IMAGES: desp.data.mnist_files.CHECKSUMS["mnist"][TRAIN_LABELS],
    }
    with pytest.raises(DataError, match=r"expected an array of shape any x 28 x 28, but its header says 200"):
        load_mnist("mnist", tiny_mnist, checksums=sums)
