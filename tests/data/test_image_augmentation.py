"""Images and boxes change together: a bright rectangle stays inside its box, whatever is drawn."""

import pytest
import torch

from desp.data.base import Batch
from desp.data.image_augmentation import BoxAugmentation
from desp.sets import SetBatch

SIZE = 64


def drawn(boxes: list[tuple[int, int, int, int]], copies: int = 20) -> Batch:
    """Black images with white rectangles, and their boxes; one row is absent."""
    images = torch.zeros(copies, 3, SIZE, SIZE, dtype=torch.uint8)
    for left, top, right, bottom in boxes:
        images[:, :, top:bottom, left:right] = 255
    elements = torch.tensor([*boxes, (0, 0, 0, 0)], dtype=torch.float32).expand(copies, -1, -1) / SIZE
    mask = torch.tensor([True] * len(boxes) + [False]).expand(copies, -1)
    return Batch(images, SetBatch(elements.clone(), mask))


def found(image: torch.Tensor) -> torch.Tensor:
    """The box of what is bright."""
    rows, columns = (torch.nonzero((image[0] > 0.5).any(dim=axis)).flatten() for axis in (1, 0))
    return torch.stack([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]) / SIZE


@pytest.mark.parametrize("box", [(20, 24, 36, 40), (4, 8, 20, 16), (30, 2, 60, 62)])
def test_boxes_stay_on_what_they_enclose(box: tuple[int, int, int, int]) -> None:
    augment = BoxAugmentation(colour=0.0)
    batch = augment(drawn([box]), torch.Generator().manual_seed(0))
    changed = 0
    for image, elements in zip(batch.x, batch.sets.elements, strict=True):
        torch.testing.assert_close(found(image), elements[0])  # whole pixels: edges stay where boxes are
        assert set(image.unique().tolist()) == {0.0, 1.0}
        changed += not torch.allclose(elements[0], torch.tensor(box) / SIZE, atol=2 / SIZE)
    assert changed > 10


def test_no_box_leaves_the_image() -> None:
    boxes = [(0, 0, 10, 12), (50, 40, 64, 64)]  # together they fill it
    batch = BoxAugmentation(shift=0.5)(drawn(boxes, 200), torch.Generator().manual_seed(1))
    assert float(batch.sets.elements.min()) >= -1e-6
    assert float(batch.sets.elements.max()) <= 1 + 1e-6


def test_a_flip_mirrors_and_nothing_else() -> None:
    plain = {"shift": 0.0, "colour": 0.0}
    batch = drawn([(4, 8, 20, 16)], 1)
    same = BoxAugmentation(flip=0.0, **plain)(batch, torch.Generator())
    torch.testing.assert_close(same.x, batch.x.float() / 255, atol=1e-5, rtol=0)
    torch.testing.assert_close(same.sets.elements, batch.sets.elements)
    mirrored = BoxAugmentation(flip=1.0, **plain)(batch, torch.Generator())
    torch.testing.assert_close(mirrored.x, batch.x.flip(3).float() / 255, atol=1e-5, rtol=0)
    torch.testing.assert_close(mirrored.sets.elements[0, 0] * SIZE, torch.tensor([44.0, 8.0, 60.0, 16.0]))


def test_shifts_are_bounded_by_their_setting() -> None:
    batch = drawn([(28, 28, 36, 36)], 300)
    moved = BoxAugmentation(flip=0.0, shift=0.1)(batch, torch.Generator().manual_seed(2))
    centres = (moved.sets.elements[:, 0, :2] + moved.sets.elements[:, 0, 2:]) / 2 - 0.5
    assert 0.08 < float(centres.abs().max()) <= 0.1 + 1e-6
    assert {-1.0, 0.0, 1.0} <= set((centres * SIZE).round().unique().tolist())


def test_axes_of_an_oblong_image_have_their_own_size() -> None:
    images = torch.zeros(50, 3, 32, SIZE, dtype=torch.uint8)
    images[:, :, 8:16, 40:48] = 255
    elements = torch.tensor([[[40 / SIZE, 8 / 32, 48 / SIZE, 16 / 32]]]).repeat(50, 1, 1)
    sets = SetBatch(elements, torch.ones(50, 1, dtype=torch.bool))
    changed = BoxAugmentation(colour=0.0)(Batch(images, sets), torch.Generator().manual_seed(6))
    for image, (box,) in zip(changed.x, changed.sets.elements, strict=True):
        left, top, right, bottom = (box * torch.tensor([SIZE, 32, SIZE, 32])).round().long().tolist()
        assert image[:, top:bottom, left:right].min() == 1
        assert image.sum() == 3 * 64


def test_what_comes_in_is_like_the_border() -> None:
    batch = drawn([(28, 28, 36, 36)], 50)
    batch.x[:, :, :, 0] = 100
    moved = BoxAugmentation(flip=0.0, shift=0.2, colour=0.0)(batch, torch.Generator().manual_seed(7))
    shifts = ((moved.sets.elements[:, 0, 0] * SIZE).round() - 28).long().tolist()
    for image, shift in zip(moved.x, shifts, strict=True):
        assert int((image[0, 0] > 0.3).sum()) == max(0, shift + 1)


def test_colours_stay_in_range_and_differ_between_images() -> None:
    batch = drawn([(20, 24, 36, 40)], 8)
    images = BoxAugmentation()(batch, torch.Generator().manual_seed(3)).x
    assert float(images.min()) >= 0
    assert float(images.max()) <= 1
    assert images.mean(dim=(2, 3)).std(dim=0).min() > 0.005


def test_further_features_and_absent_rows_stay() -> None:
    batch = drawn([(20, 24, 36, 40)], 3)
    more = SetBatch(torch.cat([batch.sets.elements, torch.ones(3, 2, 2)], dim=-1), batch.sets.mask)
    changed = BoxAugmentation()(Batch(batch.x, more), torch.Generator().manual_seed(4)).sets
    assert torch.equal(changed.elements[:, 0, 4:], torch.ones(3, 2))
    assert torch.equal(changed.elements[:, 1], torch.zeros(3, 6))
    assert torch.equal(changed.mask, more.mask)


def test_images_without_boxes_are_changed_too() -> None:
    batch = drawn([], 4)
    changed = BoxAugmentation()(batch, torch.Generator().manual_seed(5))
    assert torch.isfinite(changed.x).all()
