"""CelebA's faces: decoded and cached, split the same way everywhere."""

from pathlib import Path

import pytest
import torch

from desp.data import image_cache
from desp.data.celeba_faces import CelebaFaces, read_faces, split_images
from desp.data.celeba_lists import PARTS
from desp.data.images import read_image
from desp.errors import DataError
from tiny_celeba import NAMES, attribute_values, make_small, write_face, write_tiny_celeba


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_small(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def check(faces: CelebaFaces, numbers: list[int]) -> None:
    """These faces are there, each with its own image and attributes."""
    assert faces.names == tuple(f"{number + 1:06d}.jpg" for number in numbers)
    assert torch.equal(faces.attributes, torch.from_numpy(attribute_values(20))[numbers])
    for name, image in zip(faces.names, faces.images, strict=True):
        expected = read_image(faces.files.image_folder / name, 32)
        assert torch.equal(image, torch.from_numpy(expected))


def test_faces_are_decoded_once(tmp_path: Path) -> None:
    write_tiny_celeba(tmp_path / "celeba", 20)
    told: list[tuple[str, int, int]] = []
    faces = read_faces(tmp_path, lambda *news: told.append(news))
    check(faces, list(range(20)))
    assert faces.attribute_names == NAMES
    assert (told[0], told[-1]) == (("decoding", 0, 20), ("decoding", 20, 20))
    assert (tmp_path / "celeba" / "desp-cache-32").is_dir()
    told.clear()
    check(read_faces(tmp_path, lambda *news: told.append(news)), list(range(20)))
    assert not told


def test_a_subset_has_its_own_split(tmp_path: Path) -> None:
    write_tiny_celeba(tmp_path, 20, rows=20, parts=(0,))
    faces = read_faces(tmp_path)
    assert faces.split == "70/10/20"
    assert [len(faces.rows(part)) for part in PARTS] == [14, 2, 4]
    assert faces.names_of("validation") == ("000003.jpg", "000020.jpg")  # as on every machine
    assert sorted(sum((faces.names_of(part) for part in PARTS), ())) == list(faces.names)


def test_the_official_split_is_used_where_it_has_all_parts(tmp_path: Path) -> None:
    write_tiny_celeba(tmp_path, 20, parts=(0, 0, 2, 1))
    faces = read_faces(tmp_path)
    assert faces.split == "official"
    assert faces.rows("training").tolist() == [row for row in range(20) if row % 4 < 2]
    assert faces.rows("validation").tolist() == list(range(3, 20, 4))
    assert faces.rows("test").tolist() == list(range(2, 20, 4))


def test_the_split_of_ten_thousand() -> None:
    images = tuple(f"{number:06d}.jpg" for number in range(10_000))
    split, parts = split_images(images, torch.zeros(10_000, dtype=torch.int64))
    assert (split, parts.bincount().tolist()) == ("70/10/20", [7000, 1000, 2000])
    assert torch.equal(parts, split_images(images, torch.ones(10_000, dtype=torch.int64))[1])


def test_broken_images_are_left_out_and_counted(tmp_path: Path) -> None:
    images = write_tiny_celeba(tmp_path, 20) / "img_align_celeba"
    (images / "000003.jpg").write_bytes(b"broken")
    (images / "000019.jpg").write_bytes((images / "000019.jpg").read_bytes()[:200])
    for _ in range(2):
        faces = read_faces(tmp_path)
        check(faces, [row for row in range(20) if row not in (2, 18)])
        assert faces.skips.counts == {"the image is broken": 2}
        assert faces.skips.examples["the image is broken"][0].startswith("000003.jpg (cannot identify")
    write_face(images / "000003.jpg", 2)
    assert read_faces(tmp_path).skips.total == 1


def test_a_kill_between_chunks_costs_no_whole_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_cache, "CHUNK", 4)
    write_tiny_celeba(tmp_path, 20)

    def kill(_: str, done: int, __: int) -> None:
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_faces(tmp_path, kill)
    read: list[str] = []
    real = image_cache.read_image
    monkeypatch.setattr(
        image_cache, "read_image", lambda path, side: (read.append(path.name), real(path, side))[1]
    )
    check(read_faces(tmp_path), list(range(20)))
    assert sorted(read) == [f"{number:06d}.jpg" for number in range(9, 21)]


def test_a_damaged_cache_is_made_anew(tmp_path: Path) -> None:
    write_tiny_celeba(tmp_path, 20)
    read_faces(tmp_path)
    for name in ("complete.json", "images.npy"):
        (path,) = (tmp_path / "desp-cache-32").glob(f"images-*/{name}")
        path.write_bytes(b"{}")
        check(read_faces(tmp_path), list(range(20)))


def test_too_few_images(tmp_path: Path) -> None:
    write_tiny_celeba(tmp_path, 9)
    with pytest.raises(DataError, match=r"At least 10 images of CelebA are needed .* got 9"):
        read_faces(tmp_path)


def test_no_image_that_can_be_used(tmp_path: Path) -> None:
    for path in (write_tiny_celeba(tmp_path, 12) / "img_align_celeba").iterdir():
        path.write_bytes(b"broken")
    with pytest.raises(DataError, match="None of the images can be used: 12 x the image is broken: 000001"):
        read_faces(tmp_path)


def test_no_image_of_a_part_that_can_be_used(tmp_path: Path) -> None:
    images = write_tiny_celeba(tmp_path, 12, parts=(0,) * 10 + (1, 2)) / "img_align_celeba"
    (images / "000011.jpg").write_bytes(b"broken")
    with pytest.raises(DataError, match="No image for validation can be used: 1 x the image is broken: 000011"):
        read_faces(tmp_path)


def test_an_image_without_a_row(tmp_path: Path) -> None:
    write_tiny_celeba(tmp_path, 12)
    write_face(tmp_path / "img_align_celeba" / "x.jpg", 0)
    with pytest.raises(DataError, match=r"list_attr_celeba\.txt: expected a row for each image, got none for 1"):
        read_faces(tmp_path)
