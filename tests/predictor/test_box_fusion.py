"""Samples of boxes pooled into one set, on objects made by hand."""

import math
from itertools import permutations
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from desp.boxes import box_iou, centres_to_corners
from desp.errors import DataError, SettingsError
from desp.predictor import Prediction
from desp.predictor.box_fusion import (
    best_boxes,
    best_prediction,
    filter_batch_by_confidence,
    filter_by_confidence,
    majority_boxes,
    pool_batch,
    pool_boxes,
)
from desp.sets import SetBatch
from desp.settings import DataDescription

seeds = st.integers(0, 10_000)
# Far from each other; the last two overlap with an IoU of 2/3.
OBJECTS = torch.tensor([[0.0, 0, 10, 10], [30, 0, 45, 9], [0, 40, 8, 60], [50, 50, 60, 60], [52, 50, 62, 60]])


def shuffled(boxes: Tensor, generator: torch.Generator) -> Tensor:
    return boxes[torch.randperm(len(boxes), generator=generator)]


def jittered(boxes: Tensor, samples: int, noise: float, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        shuffled(boxes + noise * torch.randn(boxes.shape, generator=generator), generator) for _ in range(samples)
    ]


def random_samples(seed: int, grid: bool = False) -> list[Tensor]:
    """Samples of some of a few objects, moved a little or not at all; boxes on a grid overlap equally often."""
    generator = torch.Generator().manual_seed(seed)
    samples, objects = int(torch.randint(1, 6, (), generator=generator)), 6
    centres = torch.rand(objects, 2, generator=generator) * 20
    sizes = 4 + 6 * torch.rand(objects, 2, generator=generator)
    boxes = centres_to_corners(torch.cat([centres, sizes], dim=1)).double()
    sets = []
    for _ in range(samples):
        kept = boxes[torch.rand(objects, generator=generator) < 0.6]
        moved = kept + torch.randn(kept.shape, generator=generator)
        sets.append((moved / 2).round() * 2 if grid else moved)
    return sets


def as_rows(boxes: Tensor) -> list[list[float]]:
    return sorted(boxes.tolist())


# -- what must come out ----------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [1, 2, 5])
@pytest.mark.parametrize("count", [1, 4, 5])
def test_identical_samples_give_the_set_back(samples: int, count: int) -> None:
    """In any order of elements; overlapping boxes of one sample stay apart."""
    boxes, confidence = pool_boxes(jittered(OBJECTS[:count], samples, noise=0.0))
    assert as_rows(boxes) == as_rows(OBJECTS[:count])
    assert confidence.tolist() == [1.0] * count


@pytest.mark.parametrize("samples", [2, 3, 5, 8])
def test_jittered_copies_become_their_median(samples: int) -> None:
    sets = [OBJECTS[:3] + 0.1 * step for step in range(samples)]
    boxes, confidence = pool_boxes([shuffled(item, torch.Generator().manual_seed(1)) for item in sets])
    expected = OBJECTS[:3] + 0.1 * (samples - 1) / 2
    torch.testing.assert_close(torch.tensor(as_rows(boxes)), torch.tensor(as_rows(expected)))
    assert confidence.tolist() == [1.0] * 3


def test_the_median_is_taken_of_each_column() -> None:
    """And not of whole boxes: no sample has this one. One sample is far off in x2 alone."""
    sets = [[0.0, 2, 10, 10, 7], [1.0, 0, 10, 11, 9], [2.0, 1, 14, 12, 1]]
    boxes, _ = pool_boxes([torch.tensor([item]) for item in sets])
    assert boxes.tolist() == [[1, 1, 10, 11, 7]]


def test_noisy_samples_come_nearer_to_the_truth() -> None:
    sets = jittered(OBJECTS, 9, noise=0.5)
    boxes, confidence = pool_boxes(sets)
    assert confidence.tolist() == [1.0] * len(OBJECTS)
    pooled = box_iou(boxes, OBJECTS).amax(dim=0).mean()
    assert pooled > max(box_iou(item, OBJECTS).amax(dim=0).mean() for item in sets)


def test_an_object_found_in_two_of_five() -> None:
    sets = [OBJECTS[:2], OBJECTS[:3], OBJECTS[:2], OBJECTS[:3], OBJECTS[:1]]
    boxes, confidence = pool_boxes(sets)
    assert torch.equal(boxes, OBJECTS[:3])
    assert confidence.tolist() == pytest.approx([1, 4 / 5, 2 / 5])
    kept, shares = filter_by_confidence(boxes, confidence)
    assert torch.equal(kept, OBJECTS[:2])
    assert shares.tolist() == pytest.approx([1, 4 / 5])


def test_half_of_the_samples_are_no_majority() -> None:
    boxes, confidence = pool_boxes([OBJECTS[:2], OBJECTS[:1]])
    assert confidence.tolist() == [1, 0.5]
    assert len(filter_by_confidence(boxes, confidence)[0]) == 1
    assert len(filter_by_confidence(boxes, confidence, above=0.4)[0]) == 2


def test_close_objects_stay_two() -> None:
    """IoU 2/3 with each other, in all samples, with noise; in some samples only one of them is found."""
    pair = OBJECTS[3:]
    assert float(box_iou(pair[:1], pair[1:])) > 0.5
    sets = jittered(pair, 5, noise=0.1)
    boxes, confidence = pool_boxes(sets)
    torch.testing.assert_close(torch.tensor(as_rows(boxes)), pair, atol=0.3, rtol=0)
    assert confidence.tolist() == [1.0, 1.0]
    boxes, confidence = pool_boxes([*sets, pair[1:], pair[1:]])
    assert len(boxes) == 2
    assert confidence.tolist() == pytest.approx([1.0, 5 / 7])
    torch.testing.assert_close(boxes[0], pair[1], atol=0.3, rtol=0)


@pytest.mark.parametrize(("moved", "groups"), [(2.0, 1), (10 / 3, 1), (3.4, 2), (5.0, 2)])
def test_the_least_iou(moved: float, groups: int) -> None:
    """Moved by a third of its width, a box has half of the union in common with what it was."""
    first = torch.tensor([[0.0, 0, 10, 10]], dtype=torch.float64)
    second = first + torch.tensor([moved - 1e-9, 0, moved - 1e-9, 0], dtype=torch.float64)
    assert len(pool_boxes([first, second])[0]) == groups
    assert len(pool_boxes([first, second], iou=0.01)[0]) == 1
    assert len(pool_boxes([first, second], iou=0.9)[0]) == 2


def test_the_sum_of_overlaps_decides() -> None:
    """Each box alone would take the left group; together they take both."""
    groups = torch.tensor([[0.0, 0, 10, 10], [3, 0, 13, 10]])
    sample = torch.tensor([[0.5, 0, 10.5, 10], [1, 0, 11, 10]])
    assert (box_iou(sample, groups).argmax(dim=1) == 0).all()
    boxes, confidence = pool_boxes([groups, sample])
    assert confidence.tolist() == [1.0, 1.0]
    assert as_rows(boxes) == [[0.25, 0, 10.25, 10], [2, 0, 12, 10]]


ENDS = torch.tensor([[[0.0, 0, 10, 10]], [[0, 4, 10, 14]]])
MIDDLE = torch.tensor([[0.5, 2, 10.5, 12]])


def test_the_sample_that_agrees_best_begins() -> None:
    """A box between two others holds both of them; if these came first, there would be two groups."""
    assert float(box_iou(*ENDS)) < 0.5 < min(float(box_iou(MIDDLE, end)) for end in ENDS)
    for order in permutations([*ENDS, MIDDLE]):
        boxes, confidence = pool_boxes(order)
        assert boxes.tolist() == [[0, 2, 10, 12]]
        assert confidence.tolist() == [1.0]


def test_boxes_that_no_other_sample_has_lower_the_agreement() -> None:
    """With some of them the one in the middle begins no longer."""
    alone = torch.tensor([[100.0, 0, 110, 10], [200, 0, 210, 10], [300, 0, 310, 10]])
    boxes, confidence = pool_boxes([ENDS[0], torch.cat([MIDDLE, alone]), ENDS[1]])
    assert confidence.tolist() == pytest.approx([2 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3])
    assert boxes[boxes[:, 0] < 50].tolist() == [[0.25, 1, 10.25, 11], [0, 4, 10, 14]]


def test_elements_that_overlap_equally_in_any_order() -> None:
    """Both lie as near to the only box of the other sample; the left one takes it, wherever it is listed."""
    both, between = torch.tensor([[0.0, 0, 10, 10], [4, 0, 14, 10]]), torch.tensor([[2.0, 0, 12, 10]])
    for sets in ([both, between], [both.flip(0), between], [between, both], [between, both.flip(0)]):
        boxes, confidence = pool_boxes(sets)
        assert boxes.tolist() == [[1, 0, 11, 10], [4, 0, 14, 10]]
        assert confidence.tolist() == [1.0, 0.5]


def test_samples_that_agree_equally_in_any_order() -> None:
    """Four corners of a square: neighbours overlap enough, in pairs along either side, and all agree equally."""
    corners = [torch.tensor([[x, y, x + 10, y + 10]]) for x in (0.0, 2.5) for y in (0.0, 2.5)]
    expected = pool_boxes(corners)
    assert expected[1].tolist() == [0.5, 0.5]
    for order in permutations(corners):
        assert torch.equal(pool_boxes(order)[0], expected[0])


def test_other_columns() -> None:
    """Corners behind a first column; a class of three that most samples have; the first of equals."""

    def element(depth: float, kind: int) -> Tensor:
        return torch.tensor([[depth, 0, 0, 10, 10, *torch.eye(3)[kind].tolist()]])

    where: dict[str, Any] = {"columns": (1, 5), "categories": ((5, 8),)}
    boxes, _ = pool_boxes([element(depth, kind) for depth, kind in ((1, 2), (5, 0), (3, 2))], **where)
    assert boxes.tolist() == [[3, 0, 0, 10, 10, 0, 0, 1]]
    # Of five, two are of kind 0: the median of every column would be no class at all.
    boxes, _ = pool_boxes([element(0, kind) for kind in (1, 0, 2, 0, 1)], **where)
    assert boxes[0, 5:].tolist() == [1, 0, 0]
    boxes, _ = pool_boxes([element(0, kind) for kind in (1, 2)], **where)
    assert boxes[0, 5:].tolist() == [0, 1, 0]


# -- few, and nothing --------------------------------------------------------------------------------------


def test_one_sample() -> None:
    boxes, confidence = pool_boxes([OBJECTS])
    assert as_rows(boxes) == as_rows(OBJECTS)
    assert confidence.tolist() == [1.0] * 5


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("features", [4, 7])
def test_all_samples_empty(samples: int, features: int) -> None:
    boxes, confidence = pool_boxes([torch.zeros(0, features)] * samples)
    assert (boxes.shape, confidence.shape) == ((0, features), (0,))
    assert filter_by_confidence(boxes, confidence)[0].shape == (0, features)


@pytest.mark.parametrize("columns", [(0, 4), (2, 6)])
def test_empty_samples_need_not_tell_the_features(columns: tuple[int, int]) -> None:
    """As [] does not, beside boxes or alone."""
    boxes, confidence = pool_boxes([torch.zeros(0, 0)] * 2, columns)
    assert (boxes.shape, confidence.shape) == ((0, columns[1]), (0,))


def test_empty_samples_count() -> None:
    boxes, confidence = pool_boxes([torch.zeros(0, 4), OBJECTS[:1], torch.zeros(0, 4), OBJECTS[:1]])
    assert torch.equal(boxes, OBJECTS[:1])
    assert confidence.tolist() == [0.5]


def test_boxes_without_area_stay_alone() -> None:
    flat, turned = torch.tensor([[1.0, 1, 1, 5]]), torch.tensor([[9.0, 9, 5, 5]])
    boxes, confidence = pool_boxes([torch.cat([flat, turned])] * 2)
    assert confidence.tolist() == [0.5] * 4
    assert as_rows(boxes) == as_rows(torch.cat([flat, flat, turned, turned]))


def test_no_images() -> None:
    sets, confidence = pool_batch(torch.zeros(0, 5, 3, 4), torch.zeros(0, 5, 3, dtype=torch.bool))
    assert len(sets) == len(confidence) == 0


def test_precision_and_gradients() -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        boxes, confidence = pool_boxes([OBJECTS.to(dtype).requires_grad_()] * 3)
        assert boxes.dtype == confidence.dtype == dtype
        assert not boxes.requires_grad


# -- whatever comes ----------------------------------------------------------------------------------------


@given(seed=seeds, grid=st.booleans())
def test_no_order_matters(seed: int, grid: bool) -> None:
    """Neither of elements nor of samples, with or without equal overlaps: the same numbers in the same order."""
    sets = random_samples(seed, grid)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(sets), generator=generator).tolist()
    boxes, confidence = pool_boxes(sets)
    again = pool_boxes([shuffled(sets[index], generator) for index in order])
    assert torch.equal(again[0], boxes)
    assert torch.equal(again[1], confidence)


@given(seed=seeds)
def test_every_box_is_counted_once(seed: int) -> None:
    """Shares add up to all boxes; a share is at most 1, and the largest comes first."""
    sets = random_samples(seed)
    _, confidence = pool_boxes(sets)
    assert float(confidence.sum()) * len(sets) == pytest.approx(sum(len(item) for item in sets))
    assert confidence.tolist() == sorted(confidence.tolist(), reverse=True)
    assert all(0 < share <= 1 for share in confidence.tolist())
    assert len(confidence) >= max(len(item) for item in sets)


@given(seed=seeds)
def test_moved_and_enlarged(seed: int) -> None:
    """By a power of two, so that nothing is rounded."""
    sets = random_samples(seed)
    boxes, confidence = pool_boxes(sets)
    larger = pool_boxes([4 * item for item in sets])
    assert torch.equal(larger[0], 4 * boxes)
    assert torch.equal(larger[1], confidence)


@given(seed=seeds)
@settings(max_examples=15)
def test_a_batch_is_many_single_images(seed: int) -> None:
    """Padded with rubbish, and with all samples of one image left empty."""
    images = [random_samples(10 * seed + index) for index in range(3)]
    images = [[*item, *[torch.zeros(0, 4, dtype=torch.float64)] * (5 - len(item))] for item in images]
    images.append([torch.zeros(0, 4, dtype=torch.float64)] * 5)
    padded = SetBatch.from_ragged([sample for item in images for sample in item], max_size=9, features=4)
    rubbish = torch.where(padded.mask.unsqueeze(-1), padded.elements, math.nan)
    sets, confidence = pool_batch(rubbish.view(4, 5, 9, 4), padded.mask.view(4, 5, 9))
    kept = filter_batch_by_confidence(sets, confidence)
    for index, item in enumerate(images):
        boxes, shares = pool_boxes(item)
        assert torch.equal(sets.to_ragged()[index], boxes)
        assert torch.equal(confidence[index][sets.mask[index]], shares)
        assert torch.equal(kept.to_ragged()[index], filter_by_confidence(boxes, shares)[0])
    assert torch.equal(sets.mask, confidence > 0)
    assert not sets.elements[~sets.mask].any()
    assert not kept.elements[~kept.mask].any()
    assert torch.equal(filter_batch_by_confidence(sets, confidence, above=-1.0).mask, sets.mask)


# -- mistakes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([], "at least one set"),
        ([OBJECTS, torch.zeros(2, 5)], "set 1 has 5 features"),
        ([OBJECTS, torch.full((1, 4), math.nan)], "set 1: element 0, feature 0 holds NaN"),
        ([torch.zeros(4)], "set 0: expected two dimensions"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_unusable_sets(sets: list[Tensor], message: str) -> None:
    with pytest.raises(DataError, match=message):
        pool_boxes(sets)


@pytest.mark.parametrize(
    ("shape", "mask", "message"),
    [
        ((2, 0, 3, 4), (2, 0, 3), "with at least one sample"),
        ((2, 3, 4), (2, 3), r"\(images, samples, boxes, features\)"),
        ((2, 2, 3, 4), (2, 2, 4), r"got shapes \(2, 2, 3, 4\) and \(2, 2, 4\)"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_unusable_batches(shape: tuple[int, ...], mask: tuple[int, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        pool_batch(torch.zeros(shape), torch.ones(mask, dtype=torch.bool))


def test_nan_in_a_batch() -> None:
    with pytest.raises(DataError, match="holds NaN or infinity"):
        pool_batch(torch.full((1, 1, 2, 4), math.inf), torch.ones(1, 1, 2, dtype=torch.bool))


@pytest.mark.parametrize("iou", [0.0, -1.0, 1.01, math.nan])
def test_unusable_overlaps(iou: float) -> None:
    with pytest.raises(SettingsError, match="iou must be above 0 and at most 1, got"):
        pool_boxes([OBJECTS], iou=iou)


@pytest.mark.parametrize("columns", [(0, 3), (1, 5), (-1, 3), (4, 0)])
def test_unusable_columns(columns: tuple[int, int]) -> None:
    with pytest.raises(SettingsError, match="columns must be the first of four within the 4 features"):
        pool_boxes([OBJECTS], columns=columns)


# -- what a user gets ------------------------------------------------------------------------------------

CLASSES = DataDescription(boxes=((1, 5),), categories=((5, 7),))


def with_classes(boxes: Tensor, classes: list[int]) -> Tensor:
    """Elements whose box is not in the first columns."""
    return torch.cat([torch.zeros(len(boxes), 1), boxes, torch.eye(2)[classes]], dim=1)


def predicted(sets: list[Tensor], presence: Any = (), modal: int | None = None) -> Prediction:
    return Prediction(sets, torch.zeros(len(sets)), presence=presence, modal_cardinality=modal)


def test_the_best_boxes_are_those_most_samples_agree_on_with_their_most_frequent_class() -> None:
    sure, likely, doubtful = OBJECTS[:1], OBJECTS[1:2], OBJECTS[2:3]
    sets = [
        with_classes(torch.cat([doubtful, likely, sure]), [0, 1, 0]),
        with_classes(torch.cat([likely, sure]), [1, 1]),
        with_classes(sure, [0]),
    ]
    boxes, confidence = best_boxes(predicted(sets), CLASSES, max_size=5)
    torch.testing.assert_close(boxes, with_classes(torch.cat([sure, likely]), [0, 1]))
    assert confidence.tolist() == pytest.approx([1, 2 / 3])
    boxes, confidence = best_boxes(predicted(sets), CLASSES, max_size=1)
    assert (len(boxes), confidence.tolist()) == (1, [1])


@pytest.mark.parametrize("modal", [0, 1, 3, 5])
def test_where_a_cardinality_is_most_probable_so_many_boxes_are_kept(modal: int) -> None:
    """Also those that few samples have; no more than there are."""
    sets = [OBJECTS[:3], OBJECTS[:2], OBJECTS[:1]]
    boxes, confidence = best_boxes(predicted(sets, modal=modal), DataDescription(boxes=((0, 4),)), 5)
    torch.testing.assert_close(boxes, OBJECTS[: min(modal, 3)])
    assert confidence.tolist() == pytest.approx([1, 2 / 3, 1 / 3][:modal])


def test_of_one_sample_the_presence_is_the_confidence() -> None:
    presence = torch.tensor([0.6, 1.2, 0.9])
    boxes, confidence = best_boxes(predicted([OBJECTS[:3]], [presence]), DataDescription(boxes=((0, 4),)), 5)
    assert torch.equal(boxes, OBJECTS[[1, 2, 0]])
    assert confidence.tolist() == pytest.approx([1, 0.9, 0.6])
    _, confidence = best_boxes(predicted([OBJECTS[:3]]), DataDescription(boxes=((0, 4),)), 5)
    assert confidence.tolist() == [1, 1, 1]


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_samples_that_diverged_are_left_out(value: float) -> None:
    """As if there were none of them; of a single one that is left the presence is the confidence."""
    lost, described = torch.full((2, 4), value), DataDescription(boxes=((0, 4),))
    kept = jittered(OBJECTS, 3, noise=0.1)
    expected, shares = best_boxes(predicted(kept), described, 5)
    boxes, confidence = best_boxes(predicted([lost, *kept, lost]), described, 5)
    assert torch.equal(boxes, expected)
    assert torch.equal(confidence, shares)
    presence = [torch.tensor([0.6, 0.7]), torch.tensor([0.8])]
    best = best_prediction(predicted([lost, OBJECTS[:1]], presence), described, 5)
    assert torch.equal(best.sets[0], OBJECTS[:1])
    assert torch.equal(best.presence[0], presence[1])
    boxes, _ = best_boxes(predicted([lost, lost[:1]]), described, 5)
    assert torch.equal(boxes.isfinite(), torch.zeros(2, 4).bool())


@pytest.mark.parametrize("samples", [1, 3])
def test_the_best_of_empty_sets_is_empty(samples: int) -> None:
    boxes, confidence = best_boxes(predicted([torch.zeros(0, 7)] * samples), CLASSES, 5)
    assert (boxes.shape, confidence.shape) == ((0, 7), (0,))


def test_many_images_are_pooled_as_each_of_them() -> None:
    images = [jittered(OBJECTS[:count], 3, noise=0.3, seed=count) for count in (1, 4)]
    batches = [SetBatch.from_ragged(sets, 5) for sets in images]
    elements, mask = torch.stack([b.elements for b in batches]), torch.stack([b.mask for b in batches])
    described = DataDescription(boxes=((0, 4),))
    sets, confidence = majority_boxes(elements, mask, described, max_size=4)
    for index, own in enumerate(images):
        boxes, alone = best_boxes(predicted(own), described, 4)
        torch.testing.assert_close(sets.elements[index][sets.mask[index]], boxes)
        torch.testing.assert_close(confidence[index][sets.mask[index]], alone)
