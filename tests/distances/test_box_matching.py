"""Matched boxes against all assignments, tried one by one."""

from itertools import permutations

import torch
from hypothesis import given
from hypothesis import strategies as st

from desp.boxes import box_iou
from desp.distances import match_boxes


def random_boxes(count: int, seed: int) -> torch.Tensor:
    low = torch.rand(1, count, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 0.3
    return torch.cat([low, low + 0.4], dim=-1)


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 10**6), st.sampled_from([0.2, 0.5, 0.8]))
def test_the_sum_of_overlaps_is_the_largest_there_is(n: int, m: int, seed: int, iou: float) -> None:
    boxes, others = random_boxes(n, seed), random_boxes(m, seed + 1)
    places, matched = match_boxes(boxes, others, iou)
    overlaps = box_iou(boxes, others)[0]
    gains = torch.where(overlaps >= iou, overlaps, 0.0)
    found = [(row, int(places[0, row])) for row in range(n) if matched[0, row]]
    assert all(gains[pair] > 0 for pair in found)
    assert len({column for _, column in found}) == len(found)
    wider = torch.cat([gains, torch.zeros(n, n, dtype=torch.float64)], dim=1)  # a box may stay alone
    best = max(
        sum(float(wider[row, column]) for row, column in enumerate(order))
        for order in permutations(range(m + n), n)
    )
    assert abs(sum(float(gains[pair]) for pair in found) - best) < 1e-9


def test_boxes_without_area_match_nothing() -> None:
    boxes = torch.tensor([[[0.0, 0.0, 0.0, 0.0], [0.1, 0.1, 0.5, 0.5]]])
    _, matched = match_boxes(boxes, boxes.clone(), 0.5)
    assert matched.tolist() == [[False, True]]
    _, matched = match_boxes(boxes, torch.full((1, 1, 4), torch.nan), 0.5)
    assert not matched.any()
