"""Whatever holds numbers, as a tensor."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from desp.errors import DataError
from desp.tensors import as_numbers, first_bad_value


@pytest.mark.parametrize("dtype", [">i4", ">u2", ">f4", "<i8", "float128"])
def test_numbers_of_any_byte_order_and_length(dtype: str) -> None:
    found = as_numbers(np.arange(3).astype(dtype), "a list", "numbers")
    assert found.tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool", "complex64", "object"])
def test_what_a_mask_hides_is_not_a_number(dtype: str) -> None:
    array = np.ma.masked_array(np.ones((2, 2), dtype), mask=[[False, False], [False, True]])
    assert as_numbers(array, "a list", "numbers").isnan().tolist() == [[False, False], [False, True]]
    whole = as_numbers(np.ma.masked_array(np.arange(3)), "a list", "numbers")
    assert whole.tolist() == [0, 1, 2]
    assert whole.dtype == torch.int64


def test_views_that_run_backwards() -> None:
    array = np.arange(6).reshape(2, 3)
    assert torch.equal(as_numbers(array[:, ::-1], "a list", "numbers"), torch.tensor([[2, 1, 0], [5, 4, 3]]))


ARRAYS = [np.ones(2), np.zeros(2)]


@pytest.mark.parametrize("value", [ARRAYS, tuple(ARRAYS), [ARRAYS], [ARRAYS[0], [0.0, 0.0]]])
def test_lists_of_arrays_are_read_without_a_warning(value: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.set_warn_always(True)
        try:
            numbers = as_numbers(value, "a list", "numbers")
        finally:
            torch.set_warn_always(False)
    assert numbers.dtype == torch.float64
    assert numbers.reshape(2, 2).tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_an_array_of_objects_that_are_all_numbers() -> None:
    assert as_numbers(np.array([[1, 2.5]], dtype=object), "a list", "numbers").tolist() == [[1.0, 2.5]]


@pytest.mark.parametrize(
    ("value", "at", "text"),
    [
        ([1.0, "big"], (1,), "text, 'big'"),
        ([[1, 2], [3, None]], (1, 1), "null (None)"),
        (np.array([[1, 2], ["a", 4]], dtype=object), (1, 0), "text, 'a'"),
        (np.array(["1", "2"]), (0,), "text, '1'"),
        ([[1, 2], 5], (1,), "a number, 5, not a list"),
        ([1, [2]], (1,), "a list, [2], not a number"),
        ([[1], {"x": 1}], (1,), "a value of type dict"),
        ([1, 2**63], (1,), "a whole number of more than 64 bits, 9223372036854775808"),
        ([[1, 2], [3, 4], [5]], (2,), "a list of another length"),
        ([np.zeros(2), np.zeros(1)], (1,), "a list of another length"),
        ([torch.zeros(2, 2), torch.zeros(2, 1)], (1, 0), "a list of another length"),
        (None, (), "null (None)"),
        ("abc", (), "text, 'abc'"),
        (np.array("2020-01-01", dtype="datetime64[D]"), (), "a value of type date"),
    ],
)
def test_the_first_bad_value_is_found(value: Any, at: tuple[int, ...], text: str) -> None:
    bad = first_bad_value(value)
    assert bad is not None
    assert (bad.place, bad.what) == (at, text)
    with pytest.raises(DataError):
        as_numbers(value, "a list", "numbers")


@pytest.mark.parametrize("value", [1, True, [], [[], []], [1.5, np.float32(1)], np.ones((2, 0)), torch.ones(2)])
def test_numbers_alone_hold_no_bad_value(value: Any) -> None:
    assert first_bad_value(value) is None


def test_long_values_are_cut_and_deep_lists_end() -> None:
    with pytest.raises(DataError, match=r"^a list holds text, 'x{12}\.\.\.x{13}', at \[1\]\. Expected numbers"):
        as_numbers([1, "x" * 10_000], "a list", "numbers")
    deep: Any = "end"
    for _ in range(500):
        deep = [deep]
    with pytest.raises(DataError, match="not a number"):
        as_numbers(deep, "a list", "numbers")


def test_lists_of_fixed_depth_name_levels() -> None:
    rows = [[[0.0, 1.0]], [[0.0]]]
    with pytest.raises(
        DataError, match=r"^a list: person 1, step 0 has 1 axis, the first has 2\. Expected numbers"
    ):
        as_numbers(rows, "a list", "numbers", ("person", "step", "axis"))
    with pytest.raises(DataError, match=r"^a list: person 0 is a number, 3, not a list"):
        as_numbers([3, "a"], "a list", "numbers", ("person", "step"))
