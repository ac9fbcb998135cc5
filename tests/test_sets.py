"""Ragged sets, padded tensors, and the two ways to write absence."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from desp.errors import DataError
from desp.randomness import make_generator
from desp.sets import SetBatch, SetRepresentation, as_set
from desp.settings import RepresentationSettings

SHOWN = st.floats(0.125, 1.0, width=32)  # far enough from zero to count as present with zero padding

ZERO = SetRepresentation(RepresentationSettings("zero", scaling="none"))
PRESENCE = SetRepresentation(RepresentationSettings())
ANY = SetRepresentation(RepresentationSettings("zero", presence_rule="any_beyond", scaling="none"))


@st.composite
def ragged_sets(draw: st.DrawFn) -> list[torch.Tensor]:
    """One to five sets of zero to six elements, with the same features."""
    features = draw(st.integers(1, 4))
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=5))
    return [torch.from_numpy(draw(hnp.arrays(np.float32, (size, features), elements=SHOWN))) for size in sizes]


def assert_same_sets(given_sets: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    assert len(given_sets) == len(expected)
    for one, other in zip(given_sets, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@given(sets=ragged_sets(), spare=st.integers(0, 3))
def test_ragged_survives_padding(sets: list[torch.Tensor], spare: int) -> None:
    largest, features = max(map(len, sets)), sets[0].shape[1]
    batch = SetBatch.from_ragged(sets, max_size=largest + spare, features=features)

    assert batch.elements.shape == (len(sets), largest + spare, features)
    assert (len(batch), batch.max_size, batch.features) == tuple(batch.elements.shape)
    assert batch.sizes.tolist() == [len(item) for item in sets]
    assert not batch.elements[~batch.mask].any()
    assert_same_sets(batch.to_ragged(), sets)


@pytest.mark.parametrize(
    "padding",
    [
        ZERO,
        ANY,
        SetRepresentation(RepresentationSettings("zero", threshold=0.0, scaling="none")),
        PRESENCE,
    ],
    ids=["every", "any", "no threshold", "presence"],
)
@given(sets=ragged_sets())
def test_sets_survive_both_paddings(padding: Any, sets: list[torch.Tensor]) -> None:
    features = sets[0].shape[1]
    batch = SetBatch.from_ragged(sets, features=features)
    values = padding.to_tensor(batch)
    assert values.shape == (*batch.elements.shape[:2], padding.channels(features))
    decoded = padding.from_tensor(values)
    assert torch.equal(decoded.mask, batch.mask)
    assert torch.equal(decoded.elements, batch.elements)


@given(sets=ragged_sets(), seed=st.integers(0, 100))
def test_packed_moves_present_elements_to_the_front(sets: list[torch.Tensor], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    batch = SetBatch.from_ragged(sets, max_size=max(map(len, sets)) + 2, features=sets[0].shape[1])
    order = torch.randperm(batch.max_size, generator=generator)
    mixed = SetBatch(batch.elements[:, order] + (~batch.mask[:, order, None]) * 7.0, batch.mask[:, order])

    packed = mixed.packed()

    assert_same_sets(packed.to_ragged(), mixed.to_ragged())
    assert packed.sizes.tolist() == [len(item) for item in sets]
    assert torch.equal(packed.mask, batch.mask)
    assert not packed.elements[~packed.mask].any()


def test_zero_sets_elements_that_are_absent() -> None:
    batch = SetBatch(torch.full((1, 2, 2), 5.0), torch.tensor([[True, False]]))
    assert ZERO.to_tensor(batch).tolist() == [[[5, 5], [0, 0]]]
    assert PRESENCE.to_tensor(batch).tolist() == [[[5, 5, 1], [0, 0, 0]]]


@pytest.mark.parametrize(
    ("rule", "threshold", "expected"),
    [
        ("all_above", 0.015, [True, False, False, False]),
        ("any_beyond", 0.015, [True, True, False, True]),
        ("all_above", 0.3, [True, False, False, False]),
        ("any_beyond", 0.3, [True, True, False, False]),
    ],
)
def test_zero_padding_thresholds(rule: Any, threshold: float, expected: list[bool]) -> None:
    values = torch.tensor([[[0.5, 0.5], [0.5, 0.01], [0.01, -0.01], [-0.2, 0.2]]])
    padding = SetRepresentation(
        RepresentationSettings(padding="zero", threshold=threshold, presence_rule=rule, scaling="none")
    )
    decoded = padding.from_tensor(values)
    assert decoded.mask.tolist() == [expected]
    assert torch.equal(decoded.elements[decoded.mask], values[decoded.mask])
    assert not decoded.elements[~decoded.mask].any()


def test_presence_padding_threshold_is_exclusive_and_drops_the_column() -> None:
    values = torch.tensor([[[1.0, 0.6], [2.0, 0.5], [3.0, 0.2]]])
    decoded = SetRepresentation(RepresentationSettings(padding="presence", threshold=0.5)).from_tensor(values)
    assert decoded.mask.tolist() == [[True, False, False]]
    assert decoded.elements.tolist() == [[[1.0], [0.0], [0.0]]]
    lower = SetRepresentation(RepresentationSettings(padding="presence", threshold=0.1)).from_tensor(values)
    assert lower.mask.all()


@pytest.mark.parametrize(
    "padding",
    [
        ZERO,
        ANY,
        PRESENCE,
    ],
)
def test_means_of_certainly_absent_rows_are_absent(padding: SetRepresentation) -> None:
    rows = 0.02 * torch.randn(1, 4000, 3, generator=make_generator(0))
    rows[..., -1] *= 25 if padding.has_presence else 1
    absent = padding.certainly_absent(rows)
    assert 0 < int(absent.sum()) < 4000
    assert not padding.from_tensor(rows).mask[absent].any()
    first, second = rows[:, absent[0]], rows[:, absent[0]].flip(1)
    assert not padding.from_tensor((first + second) / 2).mask.any()
    zeros = padding.to_tensor(SetBatch(torch.zeros(1, 2, 2), torch.tensor([[True, False]])))
    assert padding.certainly_absent(zeros)[0].tolist() == [not padding.has_presence, True]


@pytest.mark.parametrize("padding", [ZERO, PRESENCE])
def test_absent_rows_are_zero_even_where_a_chain_diverged(padding: Any) -> None:
    diverged = torch.tensor([[[torch.nan, torch.nan, 0.0], [torch.inf, 0.0, 0.0]]])
    decoded = padding.from_tensor(diverged)
    assert not decoded.mask.any()
    assert torch.equal(decoded.elements, torch.zeros_like(decoded.elements))


@pytest.mark.parametrize(
    "value",
    [[[1, 2], [3, 4]], np.array([[1, 2], [3, 4]]), torch.tensor([[1, 2], [3, 4]]), ((1, 2), (3, 4))],
    ids=["lists", "numpy", "torch", "tuples"],
)
def test_whole_numbers_become_floats(value: Any) -> None:
    elements = as_set(value)
    assert elements.dtype == torch.float32
    assert elements.tolist() == [[1, 2], [3, 4]]


def test_empty_lists_take_the_batch_features() -> None:
    batch = SetBatch.from_ragged([[], [[1.0, 2.0]], np.zeros((0, 2))])
    assert batch.elements.shape == (3, 1, 2)
    assert batch.sizes.tolist() == [0, 1, 0]
    assert SetBatch.from_ragged([[], []], features=3).elements.shape == (2, 0, 3)


@pytest.mark.parametrize(
    ("sets", "options", "message"),
    [
        ([], {}, "at least one set"),
        ([[[1.0]], [[float("nan")]]], {}, "set 1: element 0, feature 0 holds NaN"),
        ([[[1.0, 2.0], [2.0, float("inf")]]], {}, "set 0: element 1, feature 1 holds NaN or infinity"),
        ([[[1.0, 2.0]], [[1.0]]], {}, "set 1 has 1 features an element, expected 2"),
        ([[[1.0, 2.0]]], {"features": 3}, "set 0 has 2 features an element, expected 3"),
        ([[[1.0], [2.0]]], {"max_size": 1}, "set 0 has 2 elements, but at most 1"),
        ([[], []], {}, "Pass features=D"),
        ([[1.0, 2.0]], {}, r"set 0: expected two dimensions .* got shape \(2,\)"),
        ([3.0], {}, r"set 0: expected two dimensions .* got shape \(\)"),
        ([[[[1.0]]]], {}, r"got shape \(1, 1, 1\)"),
        ([[["a"]]], {}, "set 0: element 0, feature 0 is text, 'a'. Expected a list of equally long lists"),
        ([np.array([["a"]])], {}, "set 0: element 0, feature 0 is text, 'a'"),
        ([np.array([[None]])], {}, r"set 0: element 0, feature 0 is null \(None\)"),
        ([[[1.0], [2.0, 3.0]]], {}, "element 1 has 2 features, the first has 1. Expected a list of equally long"),
        ([None], {}, r"set 0: expected a list .*, got null \(None\)\. An empty set is written \[\]\."),
        ([[[True, False]]], {}, r"expected real numbers, got torch\.bool"),
        ([torch.ones(1, 1, dtype=torch.complex64)], {}, r"expected real numbers, got torch\.complex64"),
    ],
)
def test_bad_sets_are_named(sets: list[Any], options: dict[str, int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        SetBatch.from_ragged(sets, **options)


def test_as_set_names_the_place() -> None:
    with pytest.raises(DataError, match="line 7: element 1, feature 0 holds NaN"):
        as_set([[1.0], [float("nan")]], "line 7")


def test_elements_without_features_are_refused() -> None:
    with pytest.raises(DataError):
        SetBatch.from_ragged([[[], []]])


def test_precision_of_the_sets_is_kept() -> None:
    assert SetBatch.from_ragged([np.ones((2, 2))]).elements.dtype == torch.float64
    assert SetBatch.from_ragged([np.ones((2, 2), np.float32)]).elements.dtype == torch.float32


DOUBLE, SINGLE = torch.tensor([[0.1]], dtype=torch.float64), torch.tensor([[0.25]], dtype=torch.float32)


@pytest.mark.parametrize(
    ("sets", "dtype"),
    [
        ([SINGLE, DOUBLE], torch.float64),
        ([DOUBLE, SINGLE], torch.float64),
        ([[[3]], DOUBLE], torch.float64),
        ([[], DOUBLE, SINGLE], torch.float64),
        ([SINGLE.half(), SINGLE.bfloat16()], torch.float32),
        ([SINGLE.half(), SINGLE, SINGLE.half()], torch.float32),
    ],
)
def test_sets_of_several_precisions_take_the_one_that_holds_all(sets: list[Any], dtype: torch.dtype) -> None:
    batch = SetBatch.from_ragged(sets)
    assert batch.elements.dtype == dtype
    for item, back in zip(sets, batch.to_ragged(), strict=True):
        assert back.tolist() == (item if isinstance(item, list) else item.tolist())  # no digit is lost


def test_the_first_sets_are_the_first() -> None:
    batch = SetBatch.from_ragged([[[1.0]], [[2.0], [3.0]], [[4.0]]])
    first = batch.first(2)
    assert_same_sets(first.to_ragged(), batch.to_ragged()[:2])
    assert first.sizes.tolist() == [1, 2]


def test_the_default_thresholds_of_presence() -> None:
    """Zero padding keeps what exceeds 0.015, presence what exceeds one half."""
    zero, presence = (
        SetRepresentation(RepresentationSettings(padding=kind, scaling="none")) for kind in ("zero", "presence")
    )
    values = torch.tensor([[[0.016, 0.016], [0.0149, 0.5], [0.5, 0.0149]]])
    assert zero.from_tensor(values).mask.tolist() == [[True, False, False]]
    values = torch.tensor([[[9.0, 0.51], [9.0, 0.5], [9.0, 0.49]]])
    assert presence.from_tensor(values).mask.tolist() == [[True, False, False]]
    assert presence.certainly_absent(torch.tensor([[[9.0, 0.126], [9.0, 0.125]]])).tolist() == [[False, True]]
    at_threshold = torch.tensor([[[0.015, -0.015], [0.0, -0.016], [0.016, 0.0]]])
    assert zero.certainly_absent(at_threshold).tolist() == [[True, False, False]]


def test_to_moves_both_tensors() -> None:
    moved = SetBatch.from_ragged([[[1.0]]]).to("meta")
    assert moved.elements.device.type == moved.mask.device.type == "meta"
