"""The precision of float32 matrix products, for a while."""

from contextlib import AbstractContextManager

import torch

from desp.process_setting import ProcessSetting
from desp.settings import MatmulPrecision

_PRECISION = ProcessSetting[str](torch.get_float32_matmul_precision, torch.set_float32_matmul_precision)


def matmul_precision(value: MatmulPrecision | None) -> AbstractContextManager[None]:
    """Set the precision of float32 matrix products, and put it back at the end; None leaves it as it is."""
    return _PRECISION.changed_to(value)
