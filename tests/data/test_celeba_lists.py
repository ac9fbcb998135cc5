"""CelebA's lists: read as they are, and refused where they are wrong."""

import time
from pathlib import Path

import numpy as np
import pytest
import torch

from desp.data.celeba_lists import USED, read_attributes, read_partition
from desp.errors import DataError
from tiny_celeba import NAMES, attribute_values, list_path, read_list, write_list, write_tiny_celeba


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_celeba(tmp_path, 0, rows=30, parts=(0, 1, 2))


def change(folder: Path, kind: str, line: int, old: str, new: str, count: int = 1) -> Path:
    """Change a line of a list, counted from 1."""
    lines = read_list(folder, kind)
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, count)
    write_list(folder, kind, lines)
    return list_path(folder, kind)


def test_attributes_are_read(folder: Path) -> None:
    found = read_attributes(list_path(folder, "attr"))
    assert found.names == NAMES
    assert found.images == tuple(f"{row:06d}.jpg" for row in range(1, 31))
    assert np.array_equal(found.values.numpy(), attribute_values(30))
    some = found.of(("000004.jpg", "000002.jpg"), list_path(folder, "attr"))
    assert torch.equal(some, found.values[[3, 1]])
    assert found.columns(("Smiling", "Bald")).tolist() == [11, 0]
    assert len(USED) == 11


def test_other_ends_of_lines_and_empty_ones(folder: Path) -> None:
    path = list_path(folder, "attr")
    expected = read_attributes(path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n  \n")
    found = read_attributes(path)
    assert (found.names, found.images) == (expected.names, expected.images)
    assert torch.equal(found.values, expected.values)
    path.write_bytes(path.read_bytes().rstrip())
    assert torch.equal(read_attributes(path).values, expected.values)


def test_hundreds_of_thousands_of_rows_in_a_moment(folder: Path) -> None:
    lines = read_list(folder, "attr")
    rows = [f"{number:06d}.jpg {lines[2 + number % 30][12:]}" for number in range(100_000)]
    write_list(folder, "attr", ["100000", lines[1], *rows])
    start = time.perf_counter()
    found = read_attributes(list_path(folder, "attr"))
    assert time.perf_counter() - start < 2
    assert np.array_equal(found.values.numpy()[-30:], attribute_values(30)[np.arange(99_970, 100_000) % 30])


@pytest.mark.parametrize("value", ["0", "2", "11", "-2", "-11", "-", "1.0", "x"])
def test_an_unknown_value(folder: Path, value: str) -> None:
    path = change(folder, "attr", 5, "-1", value)
    with pytest.raises(DataError, match=f"line 5: the values of 000003.jpg must be 1 or -1, got '{value}'"):
        read_attributes(path)


@pytest.mark.parametrize(("new", "columns"), [("", 13), ("-1 -1", 15)])
def test_a_wrong_number_of_columns(folder: Path, new: str, columns: int) -> None:
    path = change(folder, "attr", 6, "-1", new)
    with pytest.raises(DataError, match=f"line 6: expected 14 columns, .* and 13 values, got {columns}"):
        read_attributes(path)


def test_a_wrong_number_of_rows(folder: Path) -> None:
    write_list(folder, "attr", read_list(folder, "attr")[:-4])
    with pytest.raises(DataError, match=r"expected 30 rows, as its first line says, got 26. Get the file anew"):
        read_attributes(list_path(folder, "attr"))


@pytest.mark.parametrize("content", [b"", b"a\nb\n", b"\n\n"])
def test_no_list_of_attributes(folder: Path, content: bytes) -> None:
    list_path(folder, "attr").write_bytes(content)
    with pytest.raises(DataError, match="the first line must be the number of images, got '"):
        read_attributes(list_path(folder, "attr"))


def test_an_attribute_that_is_missing(folder: Path) -> None:
    path = change(folder, "attr", 2, "Goatee", "Beard")
    with pytest.raises(DataError, match=r"must name the attributes, .*; got 13 names without Goatee. Get"):
        read_attributes(path)


def test_two_rows_for_one_image(folder: Path) -> None:
    path = change(folder, "attr", 4, "000002", "000001")
    with pytest.raises(DataError, match="expected one row for each image, got 1 more than that"):
        read_attributes(path)


def test_a_list_that_cannot_be_read(folder: Path) -> None:
    with pytest.raises(DataError, match=r"none.txt cannot be read .* Check the path"):
        read_attributes(folder / "none.txt")


def test_the_split_is_read(folder: Path) -> None:
    images = ("000003.jpg", "000001.jpg", "000030.jpg")
    assert read_partition(list_path(folder, "eval"), images).tolist() == [2, 0, 2]


@pytest.mark.parametrize("value", ["3", "-1", "10", "x"])
def test_an_unknown_part(folder: Path, value: str) -> None:
    path = change(folder, "eval", 7, " 0", f" {value}")
    with pytest.raises(DataError, match=f"line 7: the values of 000007.jpg must be 0, 1 or 2, got '{value}'"):
        read_partition(path, ("000001.jpg",))


def test_a_split_with_other_columns(folder: Path) -> None:
    path = change(folder, "eval", 2, " 1", "")
    with pytest.raises(DataError, match="line 2: expected 2 columns, the name of an image and 1 values, got 1"):
        read_partition(path, ())


def test_images_without_a_row(folder: Path) -> None:
    images = ("000001.jpg", "a.jpg", "b.jpg")
    with pytest.raises(DataError, match=r"attr_celeba\.txt: .* got none for 2 of 3: a\.jpg, b\.jpg\. Use the"):
        read_attributes(list_path(folder, "attr")).of(images, list_path(folder, "attr"))
    with pytest.raises(DataError, match=r"partition\.txt: expected a row for each image, got none for 1 of 2: a"):
        read_partition(list_path(folder, "eval"), images[:2])
