"""Digits as sets of points: what they hold, how they are drawn, and a cache that is never half there."""

import errno
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import desp.data.cache
import desp.data.mnist_files
from desp.data import GeneratedSource, PointTable, load_mnist
from desp.data.idx import read_idx
from desp.data.mnist import points_of
from desp.data.mnist_files import TEST_IMAGES, TRAIN_IMAGES, TRAIN_LABELS, check_files, data_folder, files_folder
from desp.errors import DataError
from desp.sets import size_groups

PART = "mnist-points"


def everything_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


# -- sets ------------------------------------------------------------------------------------------------


def test_bright_pixels_become_points() -> None:
    images = np.zeros((3, 28, 28), dtype=np.uint8)
    images[0, 3, 5], images[0, 3, 7], images[0, 27, 0] = 34, 255, 33
    images[2, 0, 27] = 200
    points, sizes = points_of(images)
    assert points.tolist() == [[3, 5], [3, 7], [0, 27]]
    assert sizes.tolist() == [2, 0, 1]


def test_sets_are_the_pixels_of_their_images(tiny_mnist: Path) -> None:
    data = load_mnist("mnist", tiny_mnist)
    images = read_idx(tiny_mnist / "mnist" / TEST_IMAGES, (30, 28, 28))
    assert (len(data.training), len(data.test)) == (200, 30)
    table = data.test.table(np.array([4, 0, 9]), data.max_size)
    batch = table.batch()
    assert batch.x.shape == (3, data.max_size, 3)
    for place, index in enumerate((4, 0, 9)):
        expected = torch.from_numpy(np.argwhere(images[index] >= 34)) / 27
        found = batch.sets.to_ragged()[place]
        torch.testing.assert_close(found, expected.to(torch.float32))
        torch.testing.assert_close(batch.x[place, : len(found), :2], found)
        assert batch.x[place, :, 2].tolist() == [1.0] * len(found) + [0.0] * (data.max_size - len(found))
    assert len(batch.sets.to_ragged()[1]) == 0  # the blank image
    assert not batch.x[batch.x[..., 2] == 0].any()


@pytest.mark.parametrize(("sets", "batch"), [(12, 4), (10, 4), (3, 7), (50, 50)])
def test_batches_spread_over_sorted_sets_fit_their_groups(sets: int, batch: int) -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(0, 9, (sets,), generator=generator)
    points = torch.zeros(sets, 9, 2, dtype=torch.uint8)
    points[torch.arange(9) < sizes.unsqueeze(1)] = 1
    points[..., 1] *= torch.arange(sets, dtype=torch.uint8).unsqueeze(1)  # which set it was
    table = PointTable(points, sizes).by_size()
    assert sorted(sizes.tolist()) == table.sizes.tolist()
    groups = size_groups(sizes.tolist(), batch, 3)
    rows = torch.tensor([group.rows for group in groups for _ in range(group.count)])
    counts = torch.zeros(sets)
    for _ in range(400):
        drawn = table.draw_spread(batch, generator).sets
        assert (drawn.sizes <= rows).all()
        assert not drawn.presence[torch.arange(9) >= rows.unsqueeze(1)].any()
        which = (drawn.elements[:, 0, 1] * 27).round().long()[drawn.sizes > 0]
        counts += which.bincount(minlength=sets)
    expected = 400 * batch / sets
    assert (counts[sizes > 0] - expected).abs().max() < 6 * expected**0.5


def test_the_largest_set_fits_exactly(tiny_mnist: Path) -> None:
    data = load_mnist("mnist", tiny_mnist)
    sizes = [*data.training.sizes, *data.test.sizes]
    assert data.max_size == max(sizes) == 16
    with pytest.raises(DataError, match="largest set has 16 points, but at most 15"):
        data.training.table(np.arange(200), 15)


def test_the_split_is_fixed_and_complete(tiny_mnist: Path) -> None:
    training, validation = load_mnist("mnist", tiny_mnist).split
    assert (len(training), len(validation)) == (190, 10)
    assert {*training.tolist(), *validation.tolist()} == set(range(200))
    again = load_mnist("mnist", tiny_mnist).split
    assert again[1].tolist() == validation.tolist()


# -- drawing ---------------------------------------------------------------------------------------------


@pytest.fixture
def table() -> PointTable:
    """Set i has i points, all in row i, columns 0 to i - 1."""
    points = torch.zeros(6, 7, 2, dtype=torch.uint8)
    for size in range(6):
        points[size, :size, 0] = size
        points[size, :size, 1] = torch.arange(size, dtype=torch.uint8)
    return PointTable(points, torch.arange(6))


def test_drawn_sets_are_those_of_the_table(table: PointTable, generator: torch.Generator) -> None:
    batch = table.draw(400, generator)
    assert batch.x.shape == (400, 7, 3)
    orders = set()
    for item in batch.sets.to_ragged():
        pixels = (item * 27).round().int()
        size = len(pixels)
        assert (pixels[:, 0] == size).all()
        assert sorted(pixels[:, 1].tolist()) == list(range(size))
        if size == 3:
            orders.add(tuple(pixels[:, 1].tolist()))
    assert len(orders) == 6  # all orders of three points
    torch.testing.assert_close(batch.x[..., :2], batch.sets.elements)
    assert (batch.x[..., 2] == batch.sets.presence).all()
    # Absent rows are zero, and behind the others.
    assert not batch.sets.elements[~batch.sets.presence].any()
    assert (batch.sets.presence.int().diff(dim=1) <= 0).all()


def test_all_sets_are_drawn_alike(table: PointTable, generator: torch.Generator) -> None:
    shares = table.draw(6000, generator).sets.sizes.bincount(minlength=6) / 6000
    torch.testing.assert_close(shares, torch.full((6,), 1 / 6), atol=0.02, rtol=0)


def test_batches_depend_on_their_number_alone(table: PointTable) -> None:
    source = GeneratedSource(table.draw, 5, seed=3)
    first = source.batches(0)
    _, second = next(first), next(first)
    torch.testing.assert_close(next(source.batches(1)).x, second.x)


# -- where data are --------------------------------------------------------------------------------------


def test_where_data_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DESP_DATA", raising=False)
    assert data_folder() == tmp_path / "home" / "desp"
    monkeypatch.setenv("DESP_DATA", str(tmp_path / "variable"))
    assert data_folder("") == tmp_path / "variable"
    assert data_folder(tmp_path / "given") == tmp_path / "given"


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


# -- the real thing --------------------------------------------------------------------------------------


@pytest.mark.skipif(
    not os.environ.get("DESP_DATA") or not files_folder("mnist").is_dir(), reason="DESP_DATA has no MNIST"
)
def test_real_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESP_CACHE", str(tmp_path))
    data = load_mnist("mnist")
    assert (len(data.training), len(data.test), data.max_size) == (60_000, 10_000, 342)
    assert data.test.labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    assert data.training.sizes.mean() == pytest.approx(133.13, abs=0.01)
    assert data.test.sizes.mean() == pytest.approx(134.35, abs=0.01)
    training, validation = data.split
    assert (len(training), len(validation)) == (57_000, 3000)
