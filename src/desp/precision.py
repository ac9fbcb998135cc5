"""The precision of float32 matrix products, for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from desp.settings import MatmulPrecision


@contextmanager
def matmul_precision(value: MatmulPrecision | None) -> Iterator[None]:
    """Set the precision of float32 matrix products, and put it back at the end; None leaves it as it is."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(value or before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
