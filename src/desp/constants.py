"""Tensors of fixed numbers."""

import threading

import torch
from torch import Tensor

Numbers = tuple[int, ...] | tuple[float, ...] | tuple[tuple[int, ...], ...] | tuple[tuple[float, ...], ...]


# Never evicted: captured CUDA graphs hold their addresses.
_made: dict[tuple[Numbers, torch.device, torch.dtype], Tensor] = {}
_lock = threading.Lock()


def constant(numbers: Numbers, device: torch.device, dtype: torch.dtype) -> Tensor:
    """A tensor of these numbers, made once for each device; not to be changed.

    Making a tensor of Python's numbers copies from the host and waits, which cannot be captured in a CUDA graph.
    """
    key = numbers, device, dtype
    with _lock:
        if key not in _made:
            _made[key] = torch.tensor(numbers, device=device, dtype=dtype)
        return _made[key]
