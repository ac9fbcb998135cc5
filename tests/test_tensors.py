"""Whatever holds numbers, as a tensor."""

import numpy as np
import pytest
import torch

from desp.tensors import as_numbers


@pytest.mark.parametrize("dtype", [">i4", ">u2", ">f4", "<i8", "float128"])
def test_numbers_of_any_byte_order_and_length(dtype: str) -> None:
    found = as_numbers(np.arange(3).astype(dtype), "expected numbers")
    assert found.tolist() == [0, 1, 2]


def test_views_that_run_backwards() -> None:
    array = np.arange(6).reshape(2, 3)
    assert torch.equal(as_numbers(array[:, ::-1], "expected numbers"), torch.tensor([[2, 1, 0], [5, 4, 3]]))
