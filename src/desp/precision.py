"""The precision of float32 matrix products, for a while."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from desp.settings import MatmulPrecision


@dataclass(eq=False)  # each entry is one of its own
class _Entered:
    precision: str


_lock = threading.Lock()
_entered: list[_Entered] = []
"""The precision before anyone entered, and those of all who are inside."""


@contextmanager
def matmul_precision(value: MatmulPrecision | None) -> Iterator[None]:
    """Set the precision of float32 matrix products, and put it back at the end; None leaves it as it is.

    torch has one precision for the whole process. Where threads enter with the same one, it stays until the last
    of them leaves.
    """
    with _lock:
        current = torch.get_float32_matmul_precision()
        if not _entered:
            _entered.append(_Entered(current))
        own = _Entered(value or current)
        _entered.append(own)
        torch.set_float32_matmul_precision(own.precision)
    try:
        yield
    finally:
        with _lock:
            _entered.remove(own)
            torch.set_float32_matmul_precision(_entered[-1].precision)
            if len(_entered) == 1:
                _entered.clear()
