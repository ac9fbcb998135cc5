"""K predicted sets of boxes for one image pooled into one set, with a confidence for each of its boxes.

Boxes of different samples that overlap enough form a group, which takes at most one box from each sample. A group
becomes one box, and the share of samples in it is the confidence.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from desp.boxes import box_iou
from desp.categories import argmax_one_hot
from desp.distances import match_boxes
from desp.errors import DataError, SettingsError
from desp.predictor.prediction import Prediction
from desp.sets import SetBatch, as_set
from desp.settings import DataDescription

# Agreements that differ by less than this are equal: rounding in a sum must not decide.
SAME_AGREEMENT = 1e-9
MAJORITY = 0.5


def pool_boxes(
    sets: Sequence[Tensor],
    columns: tuple[int, int] = (0, 4),
    iou: float = 0.5,
    categories: Sequence[tuple[int, int]] = (),
) -> tuple[Float[Tensor, "n d"], Float[Tensor, " n"]]:
    """Pool K predicted sets of boxes of one image; see `pool_batch` for how.

    Args:
        sets: K sets (n_k, D), which may be empty.
        columns, iou, categories: as for `pool_batch`.

    Returns:
        One box for each group, most confident first, and their confidences.

    Raises:
        DataError: no sets, different features, NaN or infinity.
        SettingsError: as for `pool_batch`.
    """
    samples = [as_set(item, f"set {index}") for index, item in enumerate(sets)]
    features = next((item.shape[1] for item in samples if len(item)), max([0, *(s.shape[1] for s in samples)]))
    batch = SetBatch.from_ragged(samples, features=features or columns[1])  # [] alone does not tell how many
    pooled, confidence = pool_batch(batch.elements[None], batch.mask[None], columns, iou, categories)
    return pooled.elements[0], confidence[0]


@torch.no_grad()
def pool_batch(
    elements: Float[Tensor, "b k n d"],
    mask: Bool[Tensor, "b k n"],
    columns: tuple[int, int] = (0, 4),
    iou: float = 0.5,
    categories: Sequence[tuple[int, int]] = (),
) -> tuple[SetBatch, Float[Tensor, "b g"]]:
    """Pool K predicted sets of boxes for each of B images.

    1. Samples are ordered by their agreement with the others, highest first: the mean best IoU of the boxes of
       both.
    2. The boxes of the first sample begin one group each. The boxes of every further sample are assigned to the
       groups so far: one to one, with the largest sum of IoUs with the groups' medians, each at least `iou`.
       Boxes that are left begin groups of their own.
    3. A group becomes the median of its boxes in every column, and its confidence is the share of the K samples
       with a box in it. Two boxes of one sample are never in one group, however much they overlap.

    The result depends neither on the order of elements nor on the order of samples: samples of equal agreement are
    ordered by the values of their boxes. A box without area, or of negative size, overlaps with nothing and stays
    alone.

    Args:
        elements: K samples of N boxes with D features, padded; `mask` says which are there.
        columns: range (first, end) of the corners x1 y1 x2 y2 among the features, end exclusive.
        iou: the least IoU of a box with the median of the group that it joins.
        categories: ranges of one-hot columns. They become the most frequent class, the first of equals.

    Returns:
        For each image one box for each group, most confident first, and their confidences; absent rows are 0.

    Raises:
        DataError: no samples, a mask that does not fit, NaN or infinity.
        SettingsError: an `iou` outside (0, 1], or not four columns that exist.
    """
    _check(elements, mask, columns, iou)
    values, rows = elements.detach().cpu().double(), mask.cpu()
    if values.shape[2] == 0:  # at least one row, as a maximum over none is undefined
        values, rows = F.pad(values, (0, 0, 0, 1)), F.pad(rows, (0, 1))
    values = argmax_one_hot(values.masked_fill(~rows.unsqueeze(-1), 0.0), categories)
    values, rows = _canonical(values, rows, columns)
    labels = _grouped(values[..., slice(*columns)], rows, iou)
    members = _members(values, labels, int(labels.max()) + 1 if len(labels) else 0)
    boxes, confidence = _summarised(members, categories)
    present = confidence > 0
    boxes = boxes.masked_fill(~present.unsqueeze(-1), 0.0)
    return SetBatch(boxes.to(elements), present.to(elements.device)), confidence.to(elements)


def filter_by_confidence(
    boxes: Float[Tensor, "n d"], confidence: Float[Tensor, " n"], above: float = MAJORITY
) -> tuple[Float[Tensor, "m d"], Float[Tensor, " m"]]:
    """The boxes, and their confidences, that more than a share `above` of the samples agree on."""
    kept = confidence > above
    return boxes[kept], confidence[kept]


def filter_batch_by_confidence(
    sets: SetBatch, confidence: Float[Tensor, "b g"], above: float = MAJORITY
) -> SetBatch:
    """The same for pooled sets of many images."""
    mask = sets.mask & (confidence > above)
    return SetBatch(sets.elements.masked_fill(~mask.unsqueeze(-1), 0.0), mask)


def majority_boxes(
    elements: Float[Tensor, "b k n d"],
    mask: Bool[Tensor, "b k n"],
    description: DataDescription,
    max_size: int,
) -> tuple[SetBatch, Float[Tensor, "b m"]]:
    """The pooled boxes that more than half of K samples have, for each of B images: CLEVR scores them, and
    `best_boxes` gives them where the method predicts no p(n | x).

    Args:
        elements, mask: as for `pool_batch`.
        description: columns of boxes and categories; if an element has several boxes, the first is matched.
        max_size: the largest cardinality of a returned set.

    Returns:
        The sets, most confident elements first, and the confidence of each.
    """
    pooled, confidence = pool_batch(elements, mask, description.boxes[0], categories=description.categories)
    kept = filter_batch_by_confidence(pooled, confidence)
    most = slice(max_size)
    return SetBatch(kept.elements[:, most], kept.mask[:, most]), confidence[:, most]


def best_boxes(
    prediction: Prediction, description: DataDescription, max_size: int
) -> tuple[Float[Tensor, "n d"], Float[Tensor, " n"]]:
    """One set of boxes of a prediction, most confident first, and the confidence of each.

    Several samples are pooled. If the method predicts p(n | x), the n most confident boxes are kept, for the most
    probable n: where samples disagree on places, a majority would agree on too few. Otherwise the boxes are those
    of `majority_boxes`. A single sample is returned itself; the confidence is its presence, 1 where the method
    samples no presence. Samples that diverged are left out; if all did, the first of them is returned.
    """
    if len(prediction) > 1:
        prediction = prediction.only(prediction.finite_places() or [0])
    if len(prediction) > 1:
        samples = SetBatch.from_ragged(prediction.sets, features=prediction.sets[0].shape[1])  # all may be empty
        elements, mask, modal = samples.elements[None], samples.mask[None], prediction.modal_cardinality
        if modal is None:
            sets, confidence = majority_boxes(elements, mask, description, max_size)
        else:
            sets, confidence = pool_batch(elements, mask, description.boxes[0], categories=description.categories)
        kept = sets.mask[0][:modal]  # the most confident come first
        return sets.elements[0][:modal][kept], confidence[0][:modal][kept]
    (boxes,) = prediction.sets
    presence = prediction.presence[0].to(boxes) if prediction.presence else boxes.new_ones(len(boxes))
    order = presence.argsort(descending=True, stable=True)
    return boxes[order], presence[order].clamp(0, 1)


def best_prediction(prediction: Prediction, description: DataDescription, max_size: int) -> Prediction:
    """The single answer for all samples: for boxes `best_boxes`, with the confidence as presence and no energy;
    for other sets, and where outputs are aligned with inputs, the medoid."""
    if prediction.aligned or not description.boxes:
        return prediction.only_medoid()
    boxes, confidence = best_boxes(prediction, description, max_size)
    energies = torch.full((1,), torch.nan)
    return replace(prediction, sets=[boxes], energies=energies, has_energy=False, presence=[confidence])


def _grouped(boxes: Float[Tensor, "b k n 4"], mask: Bool[Tensor, "b k n"], iou: float) -> Int[Tensor, "b k n"]:
    """The group of every box, -1 for absent rows; samples are taken in their order."""
    labels = torch.full(mask.shape, -1)
    counts = torch.zeros(len(boxes), dtype=torch.int64)
    for sample in range(boxes.shape[1]):
        groups = int(counts.max()) if len(counts) else 0
        medians = _medians(_members(boxes[:, :sample], labels[:, :sample], groups))
        found, joined = match_boxes(boxes[:, sample], medians, iou)  # groups of other images are NaN
        new = mask[:, sample] & ~joined
        fresh = counts.unsqueeze(1) + new.cumsum(dim=1) - 1
        labels[:, sample] = torch.where(joined, found, fresh.masked_fill(~new, -1))
        counts += new.sum(dim=1)
    return labels


def _summarised(
    members: Float[Tensor, "b k g d"], categories: Sequence[tuple[int, int]]
) -> tuple[Float[Tensor, "b g d"], Float[Tensor, "b g"]]:
    """One element for each group, and the share of samples in it, largest first."""
    pooled, votes = _medians(members), members.nansum(dim=1)
    for first, behind in categories:
        pooled[..., first:behind] = argmax_one_hot(votes[..., first:behind], [(0, behind - first)])
    confidence = (~members[..., 0].isnan()).double().mean(dim=1)
    order = confidence.argsort(dim=1, descending=True, stable=True)
    return _rows(pooled, order), confidence.gather(1, order)


def _members(
    values: Float[Tensor, "b s n d"], labels: Int[Tensor, "b s n"], groups: int
) -> Float[Tensor, "b s g d"]:
    """For each group the row of each sample in it, NaN where a sample has none."""
    members = values.new_full((*values.shape[:2], groups + 1, values.shape[3]), torch.nan)
    places = torch.where(labels < 0, groups, labels).unsqueeze(-1).expand_as(values)
    return members.scatter(2, places, values)[:, :, :groups]


def _medians(members: Float[Tensor, "b s g d"]) -> Float[Tensor, "b g d"]:
    """Medians over samples, NaN left out: the mean of both middle values where their number is even."""
    if members.shape[1] == 0:
        return members.sum(dim=1)
    ordered = members.sort(dim=1).values  # NaN last
    counts = (~members.isnan()).sum(dim=1, keepdim=True)
    low, high = (counts - 1).clamp(min=0) // 2, (counts // 2).clamp(max=members.shape[1] - 1)
    return ((ordered.gather(1, low) + ordered.gather(1, high)) / 2).squeeze(1)


def _canonical(values: Tensor, mask: Tensor, columns: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Samples and their elements in an order that depends on their numbers alone, not on their given order."""
    order = _lexicographic(torch.cat([(~mask).unsqueeze(-1).double(), values], dim=-1))
    values, mask = _rows(values, order), mask.gather(2, order)
    agreement = _agreement(values[..., slice(*columns)], mask)
    rank = (agreement / SAME_AGREEMENT).round().unsqueeze(-1)
    order = _lexicographic(torch.cat([-rank, (~mask).double(), values.flatten(2)], dim=-1))
    samples = order.unsqueeze(-1)
    mask = mask.gather(1, samples.expand_as(mask))
    return values.gather(1, samples.unsqueeze(-1).expand_as(values)), mask


def _agreement(boxes: Float[Tensor, "b k n 4"], mask: Bool[Tensor, "b k n"]) -> Float[Tensor, "b k"]:
    """The agreement of each sample with all samples: the sum of mean best IoUs of boxes, both ways.

    Rows of absent boxes are zero and overlap with nothing.
    """
    best_ious = (
        box_iou(sample.unsqueeze(1), boxes).amax(dim=-1) for sample in boxes.unbind(dim=1)
    )  # (b, k, n) each
    sums = torch.stack([item.sum(dim=-1) for item in best_ious], dim=1)
    sizes = mask.sum(dim=2)
    together = sizes.unsqueeze(1) + sizes.unsqueeze(2)
    return torch.where(together == 0, 1.0, (sums + sums.mT) / together.clamp(min=1)).sum(dim=2)


def _lexicographic(keys: Float[Tensor, "*batch n c"]) -> Int[Tensor, "*batch n"]:
    """The order of rows by their first column, then by the second, and so on."""
    return torch.from_numpy(np.lexsort(keys.flip(-1).movedim(-1, 0).numpy()))


def _rows(values: Float[Tensor, "*batch n d"], order: Int[Tensor, "*batch n"]) -> Float[Tensor, "*batch n d"]:
    return values.gather(-2, order.unsqueeze(-1).expand_as(values))


def _check(elements: Tensor, mask: Tensor, columns: tuple[int, int], iou: float) -> None:
    if not 0 < iou <= 1:
        raise SettingsError(f"iou must be above 0 and at most 1, got {iou}.")
    first, behind = columns
    if first < 0 or behind - first != 4 or behind > elements.shape[-1]:
        raise SettingsError(
            f"columns must be the first of four within the {elements.shape[-1]} features and one behind the last, "
            f"e.g. (0, 4), got {columns}."
        )
    if elements.dim() != 4 or elements.shape[1] == 0 or mask.shape != elements.shape[:3]:
        raise DataError(
            "Expected elements (images, samples, boxes, features) with at least one sample, and a mask (images, "
            f"samples, boxes), got shapes {tuple(elements.shape)} and {tuple(mask.shape)}."
        )
    if not torch.isfinite(elements[mask]).all():
        raise DataError("A predicted box holds NaN or infinity. Leave that element out.")
