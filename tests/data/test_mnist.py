"""Digits as sets of points: what they hold, and how they are drawn."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from desp.data import DeviceSource, PointTable, load_mnist
from desp.data.mnist import PIXELS, points_of, translate_points
from desp.data.mnist_files import TEST_IMAGES, TEST_LABELS, TRAIN_IMAGES, files_folder, read_idx
from desp.randomness import make_generator

# -- sets ------------------------------------------------------------------------------------------------


def test_bright_pixels_become_points() -> None:
    images = np.zeros((3, 28, 28), dtype=np.uint8)
    images[0, 3, 5], images[0, 3, 7], images[0, 27, 0] = 34, 255, 33
    images[2, 0, 27] = 200
    table = points_of(images, 3)
    assert table.points.tolist() == [[[3, 5], [3, 7], [0, 0]], [[0, 0]] * 3, [[0, 27], [0, 0], [0, 0]]]
    assert table.sizes.tolist() == [2, 0, 1]


def test_sets_are_the_pixels_of_their_images(tiny_mnist: Path) -> None:
    data = load_mnist("mnist", tiny_mnist)
    images = read_idx(tiny_mnist / "mnist" / TEST_IMAGES, (30, 28, 28))
    assert (len(data.training), len(data.validation), len(data.test)) == (190, 10, 30)
    table = data.test.at(torch.tensor([4, 0, 9]))
    batch = table.batch()
    assert batch.x.shape == (3, data.test.points.shape[1], 3)
    for place, index in enumerate((4, 0, 9)):
        expected = torch.from_numpy(np.argwhere(images[index] >= 34)) / 27
        found = batch.sets.to_ragged()[place]
        torch.testing.assert_close(found, expected.to(torch.float32))
        torch.testing.assert_close(batch.x[place, : len(found), :2], found)
        assert batch.x[place, :, 2].tolist() == [1.0] * len(found) + [0.0] * (
            data.test.points.shape[1] - len(found)
        )
    assert len(batch.sets.to_ragged()[1]) == 0  # the blank image
    assert not batch.x[batch.x[..., 2] == 0].any()


def test_the_largest_set_fits_exactly(tiny_mnist: Path) -> None:
    data = load_mnist("mnist", tiny_mnist)
    sizes = [*data.training.sizes, *data.validation.sizes, *data.test.sizes]
    assert data.test.points.shape[1] == max(sizes) == 16
    assert data.training.points.shape[1] == data.test.points.shape[1] == 16
    assert data.labels.tolist() == [index % 10 for index in range(30)]


@pytest.mark.parametrize("larger", [TRAIN_IMAGES, TEST_IMAGES])
def test_the_largest_set_may_be_in_either_part(
    tiny_mnist: Path, monkeypatch: pytest.MonkeyPatch, larger: str
) -> None:
    images = {name: np.zeros((3, 28, 28), dtype=np.uint8) for name in (TRAIN_IMAGES, TEST_IMAGES)}
    images[larger][1, 4, :20] = 200
    arrays = {**images, TEST_LABELS: np.arange(3, dtype=np.uint8)}
    monkeypatch.setattr("desp.data.mnist.read_idx", lambda path, _: arrays[path.name])
    data = load_mnist("mnist", tiny_mnist)
    assert data.test.points.shape[1] == data.training.points.shape[1] == 20
    assert (len(data.training), len(data.validation)) == (2, 1)  # never none


def test_images_at_once_do_not_matter(tiny_mnist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = load_mnist("mnist", tiny_mnist).training.batch().x
    monkeypatch.setattr("desp.data.mnist._IMAGES_AT_ONCE", 7)
    assert torch.equal(load_mnist("mnist", tiny_mnist).training.batch().x, expected)


def test_the_split_is_fixed_and_complete(tiny_mnist: Path) -> None:
    data, again = load_mnist("mnist", tiny_mnist), load_mnist("mnist", tiny_mnist)
    whole = points_of(read_idx(tiny_mnist / "mnist" / TRAIN_IMAGES, (200, 28, 28)), data.test.points.shape[1])
    order = torch.randperm(200, generator=make_generator("mnist split"))  # as in all earlier runs
    assert torch.equal(data.validation.points, whole.points[order[:10]])
    assert torch.equal(data.training.points, whole.points[order[10:]])
    assert torch.equal(again.training.points, data.training.points)


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
    assert (batch.x[..., 2] == batch.sets.mask).all()
    # Absent rows are zero, and behind the others.
    assert not batch.sets.elements[~batch.sets.mask].any()
    assert (batch.sets.mask.int().diff(dim=1) <= 0).all()


def test_all_sets_are_drawn_alike(table: PointTable, generator: torch.Generator) -> None:
    shares = table.draw(6000, generator).sets.sizes.bincount(minlength=6) / 6000
    torch.testing.assert_close(shares, torch.full((6,), 1 / 6), atol=0.02, rtol=0)


def test_some_drawn_sets_are_translated_and_else_the_same(table: PointTable, generator: torch.Generator) -> None:
    batch, same = translate_points(0.5, PIXELS)(table.draw(4000, generator), generator), 0
    places = set()
    for item in batch.sets.to_ragged():
        pixels = (item * 27).round().int()
        size = len(pixels)
        if size == 0:
            continue
        assert len(pixels[:, 0].unique()) == 1
        first = int(pixels[:, 1].min())
        assert sorted((pixels[:, 1] - first).tolist()) == list(range(size))
        assert bool((pixels >= 0).all())
        assert bool((pixels <= 27).all())
        same += int(first == 0 and int(pixels[0, 0]) == size)
        if size == 5:
            places.add((int(pixels[0, 0]), first))
    # 28 rows, and 24 columns at which five points may begin; 667 draws, half of them translated, find 250 or more.
    assert len(places) > 200
    assert {row for row, _ in places} == set(range(28))
    assert {column for _, column in places} == set(range(24))
    assert same / 4000 == pytest.approx(0.5 * 5 / 6, abs=0.03)
    assert not batch.sets.elements[~batch.sets.mask].any()
    torch.testing.assert_close(batch.x[..., :2], batch.sets.elements)


def test_without_translations_batches_are_as_before(table: PointTable) -> None:
    """Where none is translated, the rest is the same."""
    generators = [torch.Generator().manual_seed(5) for _ in range(3)]
    plain, rare = table.draw(50, generators[0]), table.draw(50, generators[1])
    rare = translate_points(1e-9, PIXELS)(rare, generators[1])
    torch.testing.assert_close(plain.x, rare.x)
    torch.randint(6, (50,), generator=generators[2])
    torch.rand(50, 7, generator=generators[2])
    assert torch.equal(generators[0].get_state(), generators[2].get_state())
    assert not torch.equal(generators[1].get_state(), generators[2].get_state())


def test_batches_depend_on_their_number_alone(table: PointTable) -> None:
    source = DeviceSource(table.draw, 5, seed=3)
    first = source.batches(0)
    _, second = next(first), next(first)
    torch.testing.assert_close(next(source.batches(1)).x, second.x)


# -- the real thing --------------------------------------------------------------------------------------


@pytest.mark.skipif(
    not os.environ.get("DESP_DATA") or not files_folder("mnist").is_dir(), reason="DESP_DATA has no MNIST"
)
def test_real_mnist() -> None:
    data = load_mnist("mnist")
    assert (len(data.training), len(data.validation), len(data.test)) == (57_000, 3000, 10_000)
    assert data.labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    sizes = torch.cat([data.training.sizes, data.validation.sizes])
    assert (data.test.points.shape[1], float(sizes.double().mean())) == (342, pytest.approx(133.13, abs=0.01))
    assert data.test.sizes.double().mean() == pytest.approx(134.35, abs=0.01)
