"""Random changes of faces."""

import pytest
import torch

from desp.features.augmentation import FaceAugmentation

NOTHING = FaceAugmentation(flip=0, rotation=0, scale=0, shift=0, colour=0, erase=0)


@pytest.fixture
def images(generator: torch.Generator) -> torch.Tensor:
    return torch.rand(16, 3, 24, 20, generator=generator)


def only(**changes: float) -> FaceAugmentation:
    return FaceAugmentation(**{**vars(NOTHING), **changes})


def test_nothing_is_changed_where_nothing_is_asked_for(images: torch.Tensor, generator: torch.Generator) -> None:
    torch.testing.assert_close(NOTHING(images, generator), images, atol=1e-5, rtol=0)


def test_a_flip_is_a_mirror(images: torch.Tensor, generator: torch.Generator) -> None:
    torch.testing.assert_close(only(flip=1)(images, generator), images.flip(3), atol=1e-5, rtol=0)
    half = only(flip=0.5)(images, generator)
    kept = (half - images).abs().amax(dim=(1, 2, 3)) < 1e-4
    assert 0 < kept.sum() < 16
    torch.testing.assert_close(half[~kept], images.flip(3)[~kept], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["rotation", "scale", "shift"])
def test_affine_maps_are_small(name: str, generator: torch.Generator) -> None:
    """The centre of mass of a spot in the middle stays near it, and the spot stays as bright, nearly."""
    image = torch.zeros(64, 1, 48, 48)
    image[:, :, 22:26, 22:26] = 1
    moved = only(**{name: getattr(FaceAugmentation(), name)})(image, generator)
    assert not torch.allclose(moved, image, atol=0.01)
    places = torch.arange(48.0)
    total = moved.sum(dim=(1, 2, 3))
    assert ((total / 16 - 1).abs() < 0.35).all()
    for axis in (2, 3):
        sums = moved.sum(dim=(1, 5 - axis))
        assert (((sums * places).sum(dim=1) / total - 23.5).abs() < 0.07 * 48).all()


def test_a_rectangle_of_one_colour_is_erased(images: torch.Tensor, generator: torch.Generator) -> None:
    erased = only(erase=1)(images, generator)
    for before, after in zip(images, erased, strict=True):
        changed = ((after - before).abs() > 1e-4).any(dim=0)
        rows, columns = changed.any(dim=1).sum(), changed.any(dim=0).sum()
        assert changed.sum() == rows * columns
        assert rows <= 0.4 * 24 + 1
        assert columns <= 0.4 * 20 + 1
        assert len(after[:, changed].T.unique(dim=0)) <= 1
    assert (erased != images).any()


def test_it_is_a_function_of_the_generator(images: torch.Tensor) -> None:
    first, second, other = (FaceAugmentation()(images, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert first.shape == images.shape
    assert 0 <= first.min() <= first.max() <= 1
