"""Augmentations: random changes of training batches, on the device, that keep examples valid.

Each is a function of a batch and a generator (`desp.data.base.Augmentation`). No shape depends on what is drawn,
so that it can be recorded as a part of a training step.
"""

import torch

from desp.data.base import Augmentation, Batch
from desp.sets import SetBatch


def translate_points(fraction: float, grid: int) -> Augmentation:
    """Translate sets of points on a grid by whole steps, for auto-encoders: the input is the set itself.

    Args:
        fraction: of the sets that are translated, each to any place that has room for all its points; all places
            are as likely.
        grid: places along each axis; coordinates are 0, 1 / (grid - 1), ..., 1.
    """

    def augment(batch: Batch, generator: torch.Generator) -> Batch:
        elements, presence = batch.sets.elements, batch.sets.presence
        absent = ~presence.unsqueeze(-1)
        places = (elements * (grid - 1)).round().to(torch.int16)
        lowest = places.masked_fill(absent, grid - 1).amin(dim=1, keepdim=True)
        room = grid - 1 - places.amax(dim=1, keepdim=True) + lowest
        share = torch.rand(lowest.shape, generator=generator, device=elements.device)
        target = (share * (room + 1)).to(torch.int16).minimum(room)
        chosen = torch.rand(len(elements), 1, 1, generator=generator, device=elements.device) < fraction
        moved = torch.where(chosen & ~absent, places - lowest + target, places)
        sets = SetBatch(moved.to(elements.dtype) / (grid - 1), presence)
        return Batch(sets.with_presence(), sets)

    return augment
