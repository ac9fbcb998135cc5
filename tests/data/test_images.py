"""Image files: kept, resized, or refused."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from desp.data.images import MAX_PIXELS, UnusableImage, image_size, read_image
from desp.errors import DataError, MissingExtraError
from tiny_clevr import png_that_claims, write_image


def test_an_image_of_the_right_size_is_kept_bit_for_bit(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", 0, 16, 16)
    expected = np.array(Image.open(tmp_path / "a.png")).transpose(2, 0, 1)
    assert np.array_equal(read_image(tmp_path / "a.png", 16), expected)


def test_a_larger_image_is_resized_without_leaving_pixels_out(tmp_path: Path) -> None:
    """Single bright columns stay visible as their share of what becomes one pixel: nothing is sampled away."""
    pixels = np.zeros((32, 48, 3), dtype=np.uint8)
    pixels[:, 24:] = (200, 100, 0)
    pixels[:, 6, 2] = 240
    Image.fromarray(pixels).save(tmp_path / "a.png")
    resized = read_image(tmp_path / "a.png", 16)
    assert resized.shape == (3, 16, 16)
    assert (resized[:2, :, 10:] == np.array([200, 100])[:, None, None]).all()
    assert (resized[:2, :, :6] == 0).all()
    # The weights of a column sum to a third of one: as many pixels become one.
    assert resized[2, 8, :6].sum() == pytest.approx(240 / 3, abs=3)


@pytest.mark.parametrize("mode", ["RGBA", "L", "P", "1"])
def test_images_of_other_kinds_become_rgb(tmp_path: Path, mode: str) -> None:
    Image.new("RGB", (8, 8), (255, 255, 255)).convert(mode).save(tmp_path / "a.png")
    assert (read_image(tmp_path / "a.png", 8) == 255).all()


def broken_files(tmp_path: Path) -> dict[str, bytes]:
    write_image(tmp_path / "whole.png", 0, 64, 64)
    whole = (tmp_path / "whole.png").read_bytes()
    damaged = bytearray(whole)
    damaged[30:34] = b"\xff\xff\xff\xff"  # the checksum of its header
    return {
        "empty": b"",
        "text": b"not an image",
        "truncated": whole[: len(whole) // 2],
        "only a header": whole[:40],
        "damaged": bytes(damaged),
        "wrong data": whole.replace(b"IDAT", b"IDAX"),
    }


@pytest.mark.parametrize("kind", ["empty", "text", "truncated", "only a header", "damaged", "wrong data"])
def test_broken_images_are_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.png").write_bytes(broken_files(tmp_path)[kind])
    with pytest.raises(UnusableImage, match="the image is broken"):
        read_image(tmp_path / "a.png", 16)


@pytest.mark.parametrize("side", [8001, 10_000, 30_000])
@pytest.mark.parametrize("read", [lambda path: read_image(path, 16), image_size])
def test_huge_images_are_refused_before_they_are_decoded(
    tmp_path: Path, side: int, read: Callable[[Path], object]
) -> None:
    """Pillow says nothing, warns, or fails, by their sizes; here its warning is an error."""
    (tmp_path / "a.png").write_bytes(png_that_claims(side, side))
    with pytest.raises(UnusableImage, match="more than 64 million pixels"):
        read(tmp_path / "a.png")


def test_huge_images_are_refused_where_warnings_are_no_errors(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png_that_claims(10_000, 10_000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(UnusableImage, match=r"more than 64 million pixels \(10000 x 10000\)"):
            read_image(tmp_path / "a.png", 16)


def test_sizes_are_those_of_the_header(tmp_path: Path) -> None:
    for width, height in ((8000, MAX_PIXELS // 8000), (20, 10)):
        (tmp_path / "a.png").write_bytes(png_that_claims(width, height))
        assert image_size(tmp_path / "a.png") == (width, height)


@pytest.mark.parametrize("name", ["missing.png", "folder.png"])
def test_a_file_that_cannot_be_read_is_no_broken_image(tmp_path: Path, name: str) -> None:
    """The next attempt may succeed, so it must not be remembered as broken."""
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(DataError, match=rf"{name} cannot be read \(.*\). Check it, then try again"):
        read_image(tmp_path / name, 16)


def test_without_pillow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "PIL"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"'PIL(.Image)?' is needed to read images.*desp\[viz\]"):
        read_image(tmp_path / "a.png", 16)
