"""Whatever holds numbers, read as a tensor; and where a tensor is not finite."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from desp.errors import DataError

LARGEST = torch.finfo(torch.float32).max
"""Largest float32."""


def as_numbers(value: Any, expected: str) -> Tensor:
    """A number, an array, a tensor or nested lists as a tensor, without gradient; not copied if it is one already.

    Args:
        value: what was given.
        expected: words for what it must be, which begin the message.

    Raises:
        DataError: it holds no numbers, or not as many in each row.
    """
    if isinstance(value, np.ma.MaskedArray):
        value = _with_nan(value)
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        value = value.copy()  # a row of a memory map; torch warns about memory it must not write to
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not _known_to_torch(value.dtype):
        value = value.astype(np.float64)
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
        value = value.astype(value.dtype.newbyteorder("="), copy=False)
    if isinstance(value, np.ndarray) and min(value.strides, default=0) < 0:  # such as x[:, ::-1]
        value = value.copy()
    if isinstance(value, list | tuple) and value and all(isinstance(item, Tensor) for item in value):
        value = _stacked(value, expected)
    try:
        numbers = torch.as_tensor(value)
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{expected}, got {type(value).__name__} ({reason}).") from error
    if numbers.is_meta:
        raise DataError(f"{expected}, got a tensor on the device 'meta', which holds no numbers.")
    numbers = numbers.detach() if numbers.requires_grad else numbers
    return numbers if numbers.layout == torch.strided else numbers.to_dense()


def _with_nan(value: Any) -> Any:
    """A masked array with NaN, which is refused wherever numbers are needed, in place of what is missing."""
    if not np.ma.is_masked(value) or value.dtype.kind not in "biuf":
        return np.asarray(value.data)
    return value.astype(np.float64).filled(np.nan)


def _known_to_torch(dtype: np.dtype[Any]) -> bool:
    """Whether floats are of this machine's byte order, and no longer than float64."""
    return dtype.isnative and dtype.itemsize <= 8


def _stacked(tensors: "list[Tensor] | tuple[Tensor, ...]", expected: str) -> Tensor:
    shapes = sorted({tuple(item.shape) for item in tensors})
    if len(shapes) > 1:
        raise DataError(f"{expected}, got tensors of different shapes {shapes}.")
    return torch.stack(list(tensors))


def nonfinite_places(numbers: Tensor) -> Tensor:
    """Where NaN, infinity or numbers beyond float32 are, as rows of indices (K, dimensions)."""
    if not numbers.is_floating_point():
        return torch.empty(0, numbers.dim(), dtype=torch.int64)
    wrong = ~(numbers.abs() <= LARGEST) if numbers.dtype == torch.float64 else ~torch.isfinite(numbers)
    return wrong.nonzero()


NOT_FINITE = f"NaN or infinity (beyond {LARGEST:.1e})"
