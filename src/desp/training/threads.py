"""How many CPU threads a training takes."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Elements times the square of the width: a gradient has about eight operations for each.
SMALL_GRADIENT = 6_000_000


@contextmanager
def suitable_threads(device: torch.device, batch_size: int, max_size: int, hidden: int) -> Iterator[None]:
    """One thread where gradients are too small to share out; as many as before afterwards.

    Two are no faster there, and where another program takes one of their cores each waits for the other, many
    times slower than one alone.
    """
    before = torch.get_num_threads()
    if device.type == "cpu" and batch_size * max_size * hidden**2 < SMALL_GRADIENT:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
