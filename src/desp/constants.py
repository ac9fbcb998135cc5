"""Tensors of fixed numbers."""

from functools import cache

import torch
from torch import Tensor

Numbers = tuple[int, ...] | tuple[float, ...] | tuple[tuple[int, ...], ...] | tuple[tuple[float, ...], ...]


@cache  # never evicted: captured CUDA graphs hold their addresses
def constant(numbers: Numbers, device: torch.device, dtype: torch.dtype) -> Tensor:
    """A tensor of these numbers, made once for each device; not to be changed.

    Making a tensor of Python's numbers copies from the host and waits, which cannot be captured in a CUDA graph.
    """
    return torch.tensor(numbers, device=device, dtype=dtype)
