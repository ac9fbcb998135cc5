"""Examples of equal inputs are held out together, and the split of others is what it was."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from desp.data.splitting import group_by_input, take_groups


def test_equal_inputs_have_one_group() -> None:
    inputs = [torch.tensor(values) for values in ([1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [0.0, 1.0], [-0.0, 1.0])]
    assert group_by_input(inputs, "vector", ordered=False) == [0, 1, 0, 3, 3]


def test_the_order_of_a_set_does_not_count_unless_outputs_are_aligned_with_it() -> None:
    one = torch.tensor([[1.0, 2.0, 1.0], [3.0, 4.0, 1.0]])
    assert group_by_input([one, one.flip(0)], "set", ordered=False) == [0, 0]
    assert group_by_input([one, one.flip(0)], "set", ordered=True) == [0, 1]
    assert group_by_input([one, one.flip(0)], "vector", ordered=False) == [0, 1]


def test_images_of_bytes() -> None:
    images = [torch.zeros(3, 2, 2, dtype=torch.uint8), torch.ones(3, 2, 2, dtype=torch.uint8)]
    assert group_by_input([*images, *images], "image", ordered=False) == [0, 1, 0, 1]


@given(st.permutations(range(12)), st.integers(0, 12))
def test_single_examples_are_cut_as_they_come(order: list[int], count: int) -> None:
    taken, rest = take_groups(order, list(range(12)), count, at_least_one=False)
    assert (taken, rest) == (list(order[:count]), list(order[count:]))


@given(st.lists(st.integers(0, 5), min_size=2, max_size=30), st.integers(1, 29), st.randoms())
def test_a_group_is_on_one_side(groups: list[int], count: int, random: object) -> None:
    order = list(range(len(groups)))
    random.shuffle(order)  # type: ignore[attr-defined]
    taken, rest = take_groups(order, groups, min(count, len(groups) - 1), at_least_one=True)
    assert sorted(taken + rest) == sorted(order)
    assert rest
    assert not {groups[item] for item in taken} & {groups[item] for item in rest}
    assert bool(taken) == (len(set(groups)) > 1)


@pytest.mark.parametrize(("at_least_one", "taken"), [(True, [2, 3]), (False, [])])
def test_where_no_group_fits_the_smallest_is_taken(at_least_one: bool, taken: list[int]) -> None:
    order, groups = [0, 1, 2, 3, 4], [0, 0, 1, 1, 0]
    assert take_groups(order, groups, 1, at_least_one=at_least_one)[0] == taken


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.int64])
def test_equal_inputs_of_any_type_are_grouped(dtype: torch.dtype) -> None:
    inputs = [torch.tensor([value]).to(dtype) for value in (1, 2, 1)]
    assert group_by_input(inputs, "vector", ordered=False) == [0, 1, 0]
