"""Whatever holds numbers, as a tensor."""

import numpy as np
import pytest
import torch

from desp.tensors import as_numbers


@pytest.mark.parametrize("dtype", [">i4", ">u2", ">f4", "<i8", "float128"])
def test_numbers_of_any_byte_order_and_length(dtype: str) -> None:
    found = as_numbers(np.arange(3).astype(dtype), "expected numbers")
    assert found.tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool"])
def test_what_a_mask_hides_is_not_a_number(dtype: str) -> None:
    array = np.ma.masked_array(np.ones((2, 2), dtype), mask=[[False, False], [False, True]])
    assert as_numbers(array, "expected numbers").isnan().tolist() == [[False, False], [False, True]]
    whole = as_numbers(np.ma.masked_array(np.arange(3)), "expected numbers")
    assert whole.tolist() == [0, 1, 2]
    assert whole.dtype == torch.int64


def test_views_that_run_backwards() -> None:
    array = np.arange(6).reshape(2, 3)
    assert torch.equal(as_numbers(array[:, ::-1], "expected numbers"), torch.tensor([[2, 1, 0], [5, 4, 3]]))
