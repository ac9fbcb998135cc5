"""Set distances against plain references."""

import itertools
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

from desp.distances import (
    SET_DISTANCES,
    SET_LOSSES,
    assign,
    chamfer,
    chamfer_of_equal_sizes,
    huber_pairs,
    hungarian,
    hungarian_of_sets,
    nearest_hungarian,
)
from desp.errors import DataError
from desp.sets import SetBatch, prefix_mask

chamfer_module = import_module("desp.distances.chamfer")  # the package's attribute of that name is the function
every_distance = pytest.mark.parametrize("distance", SET_DISTANCES.values(), ids=SET_DISTANCES.keys())


def draw(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)


def huber_reference(a: np.ndarray, b: np.ndarray) -> float:
    difference = np.abs(a - b)
    return float(np.where(difference < 1, 0.5 * difference**2, difference - 0.5).mean())


def chamfer_reference(a: np.ndarray, b: np.ndarray) -> float:
    there = [min(huber_reference(one, other) for other in b) for one in a]
    back = [min(huber_reference(one, other) for one in a) for other in b]
    return sum(there) / len(there) + sum(back) / len(back)


def hungarian_reference(a: np.ndarray, b: np.ndarray) -> float:
    orders = itertools.permutations(range(len(b)))
    sums = (sum(huber_reference(a[i], b[j]) for i, j in enumerate(order)) for order in orders)
    return min(sums) / len(a)


REFERENCES = {"chamfer": chamfer_reference, "hungarian": hungarian_reference}


def test_huber_formula_on_both_sides_of_one() -> None:
    a = torch.tensor([[[0.0, 0.0]]])
    b = torch.tensor([[[0.5, 0.5]], [[1.0, 1.0]], [[3.0, 0.0]], [[-4.0, 2.0]]])
    expected = torch.tensor([0.125, 0.5, 2.5 / 2, (3.5 + 1.5) / 2])
    torch.testing.assert_close(huber_pairs(a.expand(4, 1, 2), b).flatten(), expected)


@pytest.mark.parametrize("features", range(1, 7))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("first", "second"), [((3, 5), (3, 7)), ((2, 1, 4), (1, 9, 4)), ((5,), (2, 3)), ((2, 0), (2, 3))]
)
def test_huber_pairs_have_the_same_bits_with_and_without_gradients(
    first: tuple[int, ...], second: tuple[int, ...], dtype: torch.dtype, features: int
) -> None:
    """In whichever layout they are computed."""
    a, b = draw(*first, features, scale=2).to(dtype), draw(*second, features, seed=1, scale=2).to(dtype)
    expected = huber_pairs(a.clone().requires_grad_(), b)
    assert expected.requires_grad
    assert torch.equal(huber_pairs(a, b), expected.detach())


def test_huber_pairs_compares_all_with_all() -> None:
    a, b = draw(2, 3, 4, scale=2), draw(2, 5, 4, seed=1, scale=2)
    pairs = huber_pairs(a, b)
    assert pairs.shape == (2, 3, 5)
    for k, i, j in itertools.product(range(2), range(3), range(5)):
        assert pairs[k, i, j].item() == pytest.approx(huber_reference(a[k, i].numpy(), b[k, j].numpy()))


@pytest.mark.parametrize("name", SET_DISTANCES)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_against_the_definition(name: str, size: int, scale: float) -> None:
    a, b = draw(3, size, 2, scale=scale), draw(3, size, 2, seed=1, scale=scale)
    expected = [REFERENCES[name](one, other) for one, other in zip(a.numpy(), b.numpy(), strict=True)]
    assert SET_DISTANCES[name](a, b).tolist() == pytest.approx(expected)


def test_chamfer_of_different_sizes() -> None:
    a, b = draw(4, 3, 2), draw(4, 7, 2, seed=1)
    expected = [chamfer_reference(one, other) for one, other in zip(a.numpy(), b.numpy(), strict=True)]
    assert chamfer(a, b).tolist() == pytest.approx(expected)


@every_distance
def test_means_not_sums(distance: Callable[..., Tensor]) -> None:
    a, b = draw(2, 4, 3), draw(2, 4, 3, seed=1)
    twice = distance(a.repeat(1, 2, 1), b.repeat(1, 2, 1))
    torch.testing.assert_close(twice, distance(a, b))
    torch.testing.assert_close(distance(a.repeat(1, 1, 2), b.repeat(1, 1, 2)), distance(a, b))


@every_distance
def test_symmetric_and_zero_on_itself(distance: Callable[..., Tensor]) -> None:
    a, b = draw(3, 5, 2), draw(3, 5, 2, seed=1)
    torch.testing.assert_close(distance(a, b), distance(b, a))
    assert (distance(a, b) > 0).all()
    torch.testing.assert_close(distance(a, a[:, torch.randperm(5)]), torch.zeros(3, dtype=a.dtype))


@every_distance
def test_batched_is_single(distance: Callable[..., Tensor]) -> None:
    a, b = draw(4, 5, 2), draw(4, 5, 2, seed=1)
    single = torch.cat([distance(a[k : k + 1], b[k : k + 1]) for k in range(4)])
    torch.testing.assert_close(distance(a, b), single)


@every_distance
def test_empty_batches_and_empty_sets(distance: Callable[..., Tensor]) -> None:
    assert distance(torch.zeros(0, 3, 2), torch.zeros(0, 3, 2)).shape == (0,)
    assert distance(torch.zeros(2, 0, 2), torch.zeros(2, 0, 2)).tolist() == [0, 0]


@every_distance
def test_one_empty_set_is_an_error(distance: Callable[..., Tensor]) -> None:
    with pytest.raises(DataError, match=r"empty|equal size"):
        distance(torch.zeros(1, 0, 2), torch.zeros(1, 2, 2))


@every_distance
def test_gradients_in_both_sets(distance: Callable[..., Tensor]) -> None:
    a, b = draw(2, 4, 2).requires_grad_(), draw(2, 4, 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(distance, (a, b))


def test_gradients_with_masks() -> None:
    a, b = draw(2, 4, 2).requires_grad_(), draw(2, 3, 2, seed=1).requires_grad_()
    left = torch.tensor([[True, False, True, True], [False, True, False, False]])
    right = torch.tensor([[True, True, False], [True, True, True]])
    assert torch.autograd.gradcheck(lambda x, y: chamfer(x, y, left, right), (a, b))


@every_distance
def test_order_does_not_matter(distance: Callable[..., Tensor], assert_invariant: Callable[..., None]) -> None:
    a, b = draw(3, 5, 2), draw(3, 5, 2, seed=1)
    assert_invariant(lambda sets: distance(sets, b), a)
    assert_invariant(lambda sets: distance(a, sets), b)


def test_chamfer_ignores_masked_rows(assert_invariant: Callable[..., None]) -> None:
    a, b = draw(3, 5, 2), draw(3, 4, 2, seed=1)
    presence = torch.tensor([[True, True, False, False, True], [True] * 5, [False] * 4 + [True]])
    assert_invariant(lambda sets, mask: chamfer(sets, b, mask), a, presence)
    assert_invariant(lambda sets, mask: chamfer(b, sets, None, mask), a, presence)
    removed = [chamfer(a[k, presence[k]].unsqueeze(0), b[k : k + 1]).item() for k in range(3)]
    assert chamfer(a, b, presence).tolist() == pytest.approx(removed)


def chamfer_of_present(a: SetBatch, b: SetBatch) -> Tensor:
    return chamfer(a.elements, b.elements, a.mask, b.mask)


def test_chamfer_with_masks_is_that_of_ragged_sets() -> None:
    ragged_a = [draw(size, 2, seed=size) for size in (2, 5, 1)]
    ragged_b = [draw(size, 2, seed=size + 10) for size in (3, 1, 4)]
    batched = chamfer_of_present(SetBatch.from_ragged(ragged_a), SetBatch.from_ragged(ragged_b, max_size=6))
    expected = [
        chamfer_reference(one.numpy(), other.numpy()) for one, other in zip(ragged_a, ragged_b, strict=True)
    ]
    assert batched.tolist() == pytest.approx(expected)


def ragged(sizes: list[int], seed: int) -> tuple[list[Tensor], SetBatch]:
    """Sets of given sizes, and the same with their elements at any rows among six, rubbish in the others."""
    sets = [draw(size, 3, seed=seed + index) for index, size in enumerate(sizes)]
    elements, presence = draw(len(sizes), 6, 3, seed=99, scale=100), torch.zeros(len(sizes), 6, dtype=torch.bool)
    for index, item in enumerate(sets):
        rows = torch.randperm(6, generator=torch.Generator().manual_seed(seed + index))[: len(item)]
        elements[index, rows], presence[index, rows] = item, True
    return sets, SetBatch(elements, presence)


def test_chamfer_of_equal_sizes_is_that_of_ragged_sets() -> None:
    sizes = [0, 1, 3, 5, 6]
    left, a = ragged(sizes, seed=10)
    right, b = ragged(sizes, seed=20)
    found = chamfer_of_equal_sizes(a.elements, b.elements, a.mask, b.mask)
    expected = [
        chamfer_reference(one.numpy(), other.numpy()) for one, other in zip(left[1:], right[1:], strict=True)
    ]
    assert found.tolist() == pytest.approx([0.0, *expected])
    torch.testing.assert_close(found, chamfer(a.elements, b.elements, a.mask, b.mask))


def test_gradients_of_chamfer_of_equal_sizes() -> None:
    sizes = [0, 1, 3, 6]
    (_, a), (_, b) = ragged(sizes, seed=10), ragged(sizes, seed=20)
    inputs = (a.elements.requires_grad_(), b.elements.requires_grad_())
    assert torch.autograd.gradcheck(lambda x, y: chamfer_of_equal_sizes(x, y, a.mask, b.mask), inputs)
    chamfer_of_equal_sizes(*inputs, a.mask, b.mask).sum().backward()
    assert not a.elements.grad[~a.mask].any()
    assert a.elements.grad[1:][a.mask[1:]].any(dim=-1).all()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("sizes", [(5, 7), (1, 4), (342, 342)])
def test_gradients_by_index_are_those_through_all_pairs(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int], masked: bool
) -> None:
    """The way that is taken on a GPU. Zero rows, of which padded sets have many, are equally near."""
    a, b = draw(3, sizes[0], 2), draw(3, sizes[1], 2, seed=1)
    b[:, sizes[1] // 2 :] = 0
    weights = draw(3, seed=2)
    presence = [torch.arange(size).expand(3, -1) < torch.tensor([[1], [size], [0]]) for size in sizes]

    def outcome() -> tuple[Tensor, ...]:
        inputs = a.clone().requires_grad_(), b.clone().requires_grad_()
        values = chamfer(*inputs, *presence) if masked else chamfer(*inputs)
        return values.detach(), *torch.autograd.grad((weights * values).sum(), inputs)

    through_pairs = outcome()
    monkeypatch.setattr(chamfer_module, "_by_index", lambda *_: True)
    value, of_a, of_b = outcome()
    torch.testing.assert_close(value, through_pairs[0])
    torch.testing.assert_close(of_a, through_pairs[1])
    # Of zero rows that are equally near, one gets the whole gradient.
    torch.testing.assert_close(of_b.sum(dim=1), through_pairs[2].sum(dim=1))
    half = sizes[1] // 2
    torch.testing.assert_close(of_b[:, :half], through_pairs[2][:, :half])


def test_second_derivatives_by_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chamfer_module, "_by_index", lambda *_: True)
    a, b = draw(2, 3, 2, scale=0.3).requires_grad_(), draw(2, 4, 2, seed=1, scale=0.3).requires_grad_()
    assert torch.autograd.gradcheck(chamfer, (a, b))
    assert torch.autograd.gradgradcheck(chamfer, (a, b))


def test_by_index_features_may_be_none_and_batches_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chamfer_module, "_by_index", lambda *_: True)
    empty = draw(2, 3, 0).requires_grad_()
    (found,) = torch.autograd.grad(chamfer_module._TakenRows.apply(empty, torch.zeros(2, 1).long()).sum(), empty)
    assert found.shape == (2, 3, 0)
    sets, other = draw(4, 2, 3, 2), draw(2, 5, 2, seed=1)
    gradient = torch.func.grad(lambda a: chamfer(a, other).sum())
    expected = torch.stack([gradient(one) for one in sets])
    torch.testing.assert_close(torch.func.vmap(gradient)(sets), expected)


def test_only_gradients_on_a_gpu_go_by_index(unchecked: None) -> None:
    a, b = draw(1, 2, 2), draw(1, 2, 2).requires_grad_()
    assert not chamfer_module._by_index(a, b)
    on_gpu = cast(Tensor, SimpleNamespace(is_cuda=True, requires_grad=False))
    assert chamfer_module._by_index(on_gpu, b)
    assert not chamfer_module._by_index(on_gpu, a)
    with torch.no_grad():
        assert not chamfer_module._by_index(on_gpu, b)


def test_chamfer_with_masks_empty_rules() -> None:
    empty, full = SetBatch.from_ragged([[]], 2, features=1), SetBatch.from_ragged([[[1.0]]], 2)
    assert chamfer_of_present(empty, empty).tolist() == [0]
    for pair in ((empty, full), (full, empty)):
        with pytest.raises(DataError, match="empty and a non-empty"):
            chamfer_of_present(*pair)


def test_hungarian_of_sets_is_that_of_the_present_elements() -> None:
    ragged_a, ragged_b = (
        [draw(size, 2) for size in (2, 4)],
        [draw(size, 2, seed=1) for size in (2, 4)],
    )
    batched = hungarian_of_sets(SetBatch.from_ragged(ragged_a), SetBatch.from_ragged(ragged_b))
    expected = [hungarian_reference(a.numpy(), b.numpy()) for a, b in zip(ragged_a, ragged_b, strict=True)]
    assert batched.tolist() == pytest.approx(expected)


def test_hungarian_of_sets_of_different_sizes() -> None:
    a, b = SetBatch.from_ragged([[[1.0], [2.0]]]), SetBatch.from_ragged([[[1.0]]])
    with pytest.raises(DataError, match="at least one pair differs"):
        hungarian_of_sets(a, b)
    assert hungarian_of_sets(a, b, pad_with_zeros=True).item() == pytest.approx((0.5 + 0.5) / 2)


def test_hungarian_pads_with_zeros_only_when_asked() -> None:
    a, b = draw(2, 3, 2), draw(2, 5, 2, seed=1)
    with pytest.raises(DataError, match="equal size, got 3 and 5 elements"):
        hungarian(a, b)
    filled = torch.cat([a, torch.zeros(2, 2, 2, dtype=a.dtype)], dim=1)
    torch.testing.assert_close(hungarian(a, b, pad_with_zeros=True), hungarian(filled, b))
    torch.testing.assert_close(hungarian(b, a, pad_with_zeros=True), hungarian(filled, b))


def test_nan_is_named_with_its_place() -> None:
    a = torch.zeros(3, 2, 1)
    a[1, 0, 0] = torch.nan
    with pytest.raises(DataError, match="Assignment 1 of the batch has NaN"):
        hungarian(a, torch.zeros(3, 2, 1))


def test_nan_is_named_with_its_place_in_a_large_batch() -> None:
    costs = torch.rand(70, 40, 40)
    costs[65, 3, 3] = torch.nan
    with pytest.raises(DataError, match="Assignment 65 of the batch has NaN"):
        assign(costs)


def test_losses_of_nan_are_nan_and_others_stay_as_they_are() -> None:
    a, b = draw(3, 4, 2), draw(3, 4, 2, seed=1)
    expected = hungarian(a, b)
    a[1, 2, 0] = torch.nan
    for loss in SET_LOSSES.values():
        assert torch.equal(loss(a, b).isnan(), torch.tensor([False, True, False]))
    torch.testing.assert_close(SET_LOSSES["hungarian"](a, b)[[0, 2]], expected[[0, 2]])
    assert assign(torch.full((1, 3, 3), torch.inf), nan_is_error=False).tolist() == [[0, 1, 2]]


def test_nan_in_a_set_is_named_with_its_place_among_sets_of_other_sizes() -> None:
    sets = [draw(size, 2) for size in (1, 3, 3)]
    sets[2][0, 0] = torch.nan
    padded = torch.nn.utils.rnn.pad_sequence(sets, batch_first=True)
    batch = SetBatch(padded, prefix_mask(torch.tensor([1, 3, 3]), 3))
    with pytest.raises(DataError, match="Assignment 2 of the batch has NaN"):
        hungarian_of_sets(batch, batch)


def test_bfloat16_is_assigned() -> None:
    a, b = draw(2, 3, 2).bfloat16(), draw(2, 3, 2, seed=1).bfloat16()
    torch.testing.assert_close(hungarian(a, b).double(), hungarian(a.double(), b.double()), rtol=0.05, atol=1e-3)


def test_infinity_is_an_error_of_the_data() -> None:
    with pytest.raises(DataError):
        hungarian(torch.full((1, 2, 1), torch.inf), torch.zeros(1, 2, 1))


@every_distance
def test_different_features_are_an_error(distance: Callable[..., Tensor], unchecked: None) -> None:
    with pytest.raises(DataError, match="same features, got 2 and 3"):
        distance(torch.zeros(1, 2, 2), torch.zeros(1, 2, 3))


def test_assignments_are_permutations_and_optimal() -> None:
    costs = draw(5, 6, 6)
    columns = assign(costs)
    assert torch.equal(columns.sort(dim=1).values, torch.arange(6).expand(5, 6))
    for cost, column in zip(costs.numpy(), columns.tolist(), strict=True):
        best = min(sum(cost[i, j] for i, j in enumerate(order)) for order in itertools.permutations(range(6)))
        assert sum(cost[i, j] for i, j in enumerate(column)) == pytest.approx(best)


def test_large_batches_by_a_pool_of_threads_are_the_same() -> None:
    costs = draw(70, 40, 40)  # 70 * 40^3 is above the limit where the pool is worth it
    together, one_by_one = assign(costs), torch.cat([assign(cost.unsqueeze(0)) for cost in costs])
    assert torch.equal(together, one_by_one)


@pytest.mark.parametrize("scale", [0.1, 2.0])
def test_nearest_hungarian_is_the_plain_minimum(scale: float) -> None:
    sets, candidates = draw(6, 4, 2, scale=scale), draw(9, 4, 2, seed=1, scale=scale)
    sets[0] = candidates[3][torch.tensor([2, 0, 3, 1])]
    every = torch.stack([hungarian(sets, one.expand_as(sets)) for one in candidates], dim=1)
    nearest = nearest_hungarian(sets, candidates)
    torch.testing.assert_close(nearest, every.min(dim=1).values)
    assert nearest[0] == 0


def test_nearest_hungarian_names_nan() -> None:
    sets = torch.zeros(2, 3, 1)
    sets[1] = torch.nan
    with pytest.raises(DataError, match="NaN"):
        nearest_hungarian(sets, torch.ones(4, 3, 1))
