"""CLEVR as parts with images, boxes and states, and how batches are drawn."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from desp.data.base import DeviceSource, collate
from desp.data.clevr import ClevrData, ImageTable, load_clevr
from desp.data.clevr_files import split_files
from desp.data.clevr_scene_file import read_scenes
from desp.data.images import read_image
from desp.errors import DataError
from desp.randomness import make_generator
from tiny_clevr import tiny_scene, write_image, write_scenes, write_tiny_clevr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """40 images for training and validation, 5 for test; the user's own folders are elsewhere."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home-cache"))
    monkeypatch.delenv("DESP_DATA", raising=False)
    return write_tiny_clevr(tmp_path / "data" / "clevr", 40, 5)


# -- parts -----------------------------------------------------------------------------------------------


def test_parts_are_complete_and_always_the_same(folder: Path) -> None:
    data = load_clevr(folder.parent)
    assert (len(data.training), len(data.validation), len(data.test)) == (38, 2, 5)
    names = [f"CLEVR_train_{index:06d}.png" for index in range(40)]
    order = torch.randperm(40, generator=make_generator("clevr split"))
    wanted = [names[place] for place in order]
    assert [*data.validation.names, *data.training.names] == wanted
    assert data.test.names == tuple(f"CLEVR_val_{index:06d}.png" for index in range(5))
    assert data.folder == folder
    assert data.data_label == "CLEVR v1.0"
    again = load_clevr(folder.parent)
    assert again.training.names == data.training.names
    assert again.checksum == data.checksum
    assert len(data.checksum) == 32


def test_images_and_objects_belong_together(folder: Path) -> None:
    data = load_clevr(folder)
    for split, parts in (("train", (data.training, data.validation)), ("val", (data.test,))):
        scenes = read_scenes(split_files(folder, split))
        for part in parts:
            assert part.images.shape[1:] == (3, 128, 128)
            for row, name in enumerate(part.names):
                index = scenes.names.index(name)
                expected = read_image(folder / "images" / split / name, 128)
                assert np.array_equal(part.images[row].numpy(), expected)
                assert torch.equal(part.boxes[row], scenes.boxes[index])
                assert torch.equal(part.states[row], scenes.states[index])
                assert part.sizes[row] == scenes.sizes[index] == index % 11


def test_re_rendered_data_are_named_so(folder: Path) -> None:
    write_scenes(folder, "val", [tiny_scene("val", 0, 3)], note="re-rendered, not the original")
    data = load_clevr(folder)
    assert data.data_label == "re-rendered CLEVR"
    assert data.skips["val"].counts == {"image without a scene": 4}
    assert data.skips["train"].total == 0


def test_the_checksum_is_that_of_all_files(folder: Path) -> None:
    before = load_clevr(folder).checksum
    write_image(folder / "images" / "val" / "CLEVR_val_000001.png", 1, 60, 40)
    changed = load_clevr(folder).checksum
    assert changed != before
    path = folder / "scenes" / "CLEVR_train_scenes.json"
    path.write_text(json.dumps(json.loads(path.read_text()), indent=1))
    assert load_clevr(folder).checksum not in (before, changed)


def test_progress_is_told_for_both_splits_and_only_once(folder: Path) -> None:
    told = []
    load_clevr(folder, lambda *news: told.append(news))
    assert told == [("train", 0, 40), ("train", 40, 40), ("val", 0, 5), ("val", 5, 5)]
    load_clevr(folder, lambda *_: pytest.fail("cached again"))


def test_a_folder_that_cannot_be_written_to_is_cached_in_the_users_own(folder: Path, tmp_path: Path) -> None:
    (folder / "desp-cache-128").touch()  # in the way
    assert len(load_clevr(folder).test) == 5
    (cache,) = (tmp_path / "home-cache" / "desp").iterdir()
    assert cache.name.startswith("clevr-128-")
    load_clevr(folder, lambda *_: pytest.fail("cached again"))


def test_caches_are_in_the_folder_of_the_data(folder: Path, tmp_path: Path) -> None:
    load_clevr(folder)
    assert not (tmp_path / "home-cache").exists()
    assert sorted(path.name.split("-")[0] for path in (folder / "desp-cache-128").iterdir() if path.is_dir()) == [
        "train",
        "val",
    ]


@pytest.mark.parametrize("usable", [1, 2])
def test_training_needs_two_images(folder: Path, usable: int) -> None:
    write_scenes(folder, "train", [tiny_scene("train", index, 3) for index in range(usable)])
    if usable == 2:
        data = load_clevr(folder)
        assert (len(data.training), len(data.validation)) == (1, 1)
        return
    with pytest.raises(
        DataError, match=r"only one of its scenes can be used.*Left out: 39 x image without a scene"
    ):
        load_clevr(folder)


def test_missing_data(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="The data of CLEVR are not there"):
        load_clevr(tmp_path)


# -- tables ----------------------------------------------------------------------------------------------


@pytest.fixture
def data(folder: Path) -> ClevrData:
    return load_clevr(folder)


def numbered() -> ImageTable:
    """Row i has an image of bytes i and i elements, (i, 0) to (i, i - 1)."""
    sizes = torch.arange(6)
    images = sizes.to(torch.uint8).view(6, 1, 1, 1).expand(6, 3, 4, 4).contiguous()
    elements = torch.zeros(6, 7, 2)
    for size in range(6):
        elements[size, :size, 0] = size
        elements[size, :size, 1] = torch.arange(size)
    return ImageTable(images, elements, sizes)


def test_tables_of_both_tasks(data: ClevrData) -> None:
    boxes, state = data.test.table("boxes"), data.test.table("state")
    assert torch.equal(boxes.elements, data.test.boxes)
    assert torch.equal(state.elements, data.test.states)
    assert len(boxes) == len(data.test) == 5
    batch = state.batch()
    assert batch.x.dtype == torch.uint8
    assert batch.sets.sizes.tolist() == data.test.sizes.tolist() == [0, 1, 2, 3, 4]
    assert batch.sets.features == 18


def test_on_the_cpu_images_are_never_copied(data: ClevrData) -> None:
    """Neither into a table, nor by a slice of it, nor onto the device where they are."""
    table = data.training.table("boxes").to("cpu")
    assert table.images.data_ptr() == data.training.images.data_ptr()
    assert table.at(slice(3, 5)).batch().x.data_ptr() == data.training.images[3].data_ptr()
    row = 3 * 128 * 128
    assert data.training.images.data_ptr() == data.validation.images.data_ptr() + 2 * row


def test_examples_are_pairs_that_can_be_collated(data: ClevrData) -> None:
    table = data.test.table("boxes")
    examples = [table.example(index) for index in range(len(table))]
    assert [len(answers) for _, answers in examples] == [1] * 5
    batch = collate([(x, answers[0]) for x, answers in examples], max_size=10, features=4)
    assert torch.equal(batch.x, table.images)
    assert torch.equal(batch.sets.elements, table.elements)


def test_drawn_images_have_their_own_elements_in_any_order(generator: torch.Generator) -> None:
    batch = numbered().draw(300, generator)
    assert batch.x.shape == (300, 3, 4, 4)
    assert batch.x.dtype == torch.uint8
    orders = set()
    sizes = batch.sets.sizes
    assert torch.equal(batch.x, sizes.to(torch.uint8).view(-1, 1, 1, 1).expand_as(batch.x))
    for size, item in zip(sizes.tolist(), batch.sets.to_ragged(), strict=True):
        assert item[:, 0].tolist() == [size] * size
        columns = item[:, 1].tolist()
        assert sorted(columns) == list(range(size))
        if size == 3:
            orders.add(tuple(columns))
    assert len(orders) == 6
    assert not batch.sets.elements[~batch.sets.mask].any()
    assert (batch.sets.mask.int().diff(dim=1) <= 0).all()
    shares = batch.sets.sizes.bincount(minlength=6) / 300
    torch.testing.assert_close(shares, torch.full((6,), 1 / 6), atol=0.07, rtol=0)


def test_a_stream_of_batches_can_be_taken_up_anywhere() -> None:
    source = DeviceSource(numbered().draw, 5, seed=3)
    stream = source.batches(0)
    batches = [next(stream) for _ in range(4)]
    later = next(source.batches(3))
    assert torch.equal(batches[3].x, later.x)
    assert torch.equal(batches[3].sets.elements, later.sets.elements)
    assert not torch.equal(batches[2].sets.elements, later.sets.elements)


class _OnTheDeviceAlone(TorchDispatchMode):
    """Refuses what waits for the device, or has a shape that depends on values: what cannot be captured."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert torch.Tag.data_dependent_output not in function.tags, function
        assert torch.Tag.dynamic_output_shape not in function.tags, function
        return function(*args, **(kwargs or {}))


def test_drawing_can_be_captured(generator: torch.Generator) -> None:
    with _OnTheDeviceAlone():
        numbered().draw(50, generator)
        with pytest.raises(AssertionError, match="local_scalar_dense"):
            numbered().example(3)
