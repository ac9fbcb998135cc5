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
        torch.testing.assert_close(found(image), elements[0], atol=1.01 / SIZE, rtol=0)
        changed += not torch.allclose(elements[0], torch.tensor(box) / SIZE, atol=2 / SIZE)
    assert changed > 10


def test_no_box_leaves_the_image() -> None:
    boxes = [(0, 0, 10, 12), (50, 40, 64, 64)]  # together they fill it
    batch = BoxAugmentation(zoom=1.0, shift=0.5)(drawn(boxes, 200), torch.Generator().manual_seed(1))
    assert float(batch.sets.elements.min()) >= -1e-6
    assert float(batch.sets.elements.max()) <= 1 + 1e-6


def test_a_flip_mirrors_and_nothing_else() -> None:
    plain = {"zoom": 0.0, "stretch": 0.0, "shift": 0.0, "colour": 0.0}
    batch = drawn([(4, 8, 20, 16)], 1)
    same = BoxAugmentation(flip=0.0, **plain)(batch, torch.Generator())
    torch.testing.assert_close(same.x, batch.x.float() / 255, atol=1e-5, rtol=0)
    torch.testing.assert_close(same.sets.elements, batch.sets.elements)
    mirrored = BoxAugmentation(flip=1.0, **plain)(batch, torch.Generator())
    torch.testing.assert_close(mirrored.x, batch.x.flip(3).float() / 255, atol=1e-5, rtol=0)
    torch.testing.assert_close(mirrored.sets.elements[0, 0] * SIZE, torch.tensor([44.0, 8.0, 60.0, 16.0]))


def test_shift_and_zoom_are_bounded_by_their_settings() -> None:
    batch = drawn([(28, 28, 36, 36)], 300)
    moved = BoxAugmentation(flip=0.0, zoom=0.0, stretch=0.0, shift=0.1)(batch, torch.Generator().manual_seed(2))
    centres = (moved.sets.elements[:, 0, :2] + moved.sets.elements[:, 0, 2:]) / 2 - 0.5
    assert 0.08 < float(centres.abs().max()) <= 0.1 + 1e-6
    zoomed = BoxAugmentation(flip=0.0, zoom=0.2, stretch=0.0, shift=0.0)(batch, torch.Generator().manual_seed(2))
    widths = (zoomed.sets.elements[:, 0, 2] - zoomed.sets.elements[:, 0, 0]) * SIZE / 8
    assert 0.15 < float(widths.log().abs().max()) <= 0.2 + 1e-5


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
