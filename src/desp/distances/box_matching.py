"""Boxes of two sets matched one to one by how much they overlap."""

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from desp.boxes import box_iou
from desp.distances.hungarian import assign


def match_boxes(
    boxes: Float[Tensor, "b n 4"], others: Float[Tensor, "b m 4"], iou: float
) -> tuple[Int[Tensor, "b n"], Bool[Tensor, "b n"]]:
    """The assignment with the largest sum of IoUs, each at least `iou`.

    Boxes without area, such as absent rows have, and boxes with NaN overlap with nothing and match none.

    Returns:
        For each of `boxes` the index of its match in `others`, and whether it is matched: else the index means
        nothing, and may be beyond `others`.
    """
    overlaps = box_iou(boxes, others)
    gains = overlaps.masked_fill(overlaps < iou, 0.0)
    # What gains nothing is no match, so that boxes may stay alone, and a square is filled up with it.
    size = max(gains.shape[1:])
    square = F.pad(gains, (0, size - gains.shape[2], 0, size - gains.shape[1]))
    found = assign(-square)
    gained = square.gather(2, found.unsqueeze(-1)).squeeze(-1)
    return found[:, : boxes.shape[1]], gained[:, : boxes.shape[1]] > 0
