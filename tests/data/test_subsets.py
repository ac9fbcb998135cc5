"""Sets of items of which some do not belong: valid answers against brute force, and what is drawn."""

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from desp.data.subsets import (
    MIN_SHARED,
    ItemPool,
    attribute_bits,
    candidate_subsets,
    draw_sets,
    valid_subsets,
)
from desp.errors import DataError
from desp.randomness import make_generator

NAMES = tuple("abcdef")


def brute_force(items: list[set[int]]) -> set[frozenset[int]]:
    """Valid answers, as the definition has them."""
    found = set()
    for size in range(3, len(items) + 1):
        for inliers in combinations(range(len(items)), size):
            shared = set.intersection(*(items[item] for item in inliers))
            others = [items[item] for item in range(len(items)) if item not in inliers]
            if len(shared) >= MIN_SHARED and not any(shared <= other for other in others):
                found.add(frozenset(inliers))
    return found


def as_sets(valid: Tensor, size: int) -> set[frozenset[int]]:
    members = candidate_subsets(size)[valid]
    return {frozenset(row.nonzero().flatten().tolist()) for row in members}


def pool(count: int = 200, probability: float = 0.5, attributes: int = 6) -> ItemPool:
    generator = make_generator("pool")
    has = torch.rand(count, attributes, generator=generator) < probability
    return ItemPool.of(torch.rand(count, 3, generator=generator), has, NAMES[:attributes])


def test_candidates_of_five_items() -> None:
    members = candidate_subsets(5)
    assert members.shape == (16, 5)
    assert members[0].all()
    assert (members.sum(dim=1) >= 3).all()
    assert len({tuple(row) for row in members.tolist()}) == 16


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(3, 6),
    attributes=st.integers(1, 7),
    data=st.data(),
)
def test_valid_answers_are_those_of_the_definition(size: int, attributes: int, data: st.DataObject) -> None:
    rows = st.lists(st.booleans(), min_size=attributes, max_size=attributes)
    has = torch.tensor(data.draw(st.lists(rows, min_size=size, max_size=size)))
    valid = valid_subsets(attribute_bits(has).unsqueeze(0), attributes)[0]
    items = [set(row.nonzero().flatten().tolist()) for row in has]
    assert as_sets(valid, size) == brute_force(items)


def test_worked_examples() -> None:
    """The pair (0, 1) alone; two pairs, each shared by three of five."""
    one = torch.tensor([[1, 1, 0], [1, 1, 0], [1, 1, 0], [1, 0, 0], [0, 1, 0]]).bool()
    two = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]).bool()
    found = [as_sets(valid_subsets(attribute_bits(has)[None], has.shape[1])[0], 5) for has in (one, two)]
    assert found == [{frozenset({0, 1, 2})}, {frozenset({0, 1, 2}), frozenset({0, 3, 4})}]


def test_batches_are_scored_one_by_one() -> None:
    bits = torch.randint(64, (50, 5), generator=make_generator(1))
    together = valid_subsets(bits, 6)
    assert torch.equal(together, torch.cat([valid_subsets(row[None], 6) for row in bits]))
    assert together.any()


def test_a_permutation_of_items_permutes_the_answers() -> None:
    bits = torch.randint(64, (40, 5), generator=make_generator(2))
    order = [3, 0, 4, 1, 2]
    for row in bits:
        moved = as_sets(valid_subsets(row[order][None], 6)[0], 5)
        assert {frozenset(order[item] for item in answer) for answer in moved} == as_sets(
            valid_subsets(row[None], 6)[0], 5
        )


# -- drawing ---------------------------------------------------------------------------------------------


def test_drawn_sets_have_different_items_and_a_valid_answer() -> None:
    items = pool()
    drawn = draw_sets(items, 3000, make_generator(3))
    assert all(len(set(row)) == 5 for row in drawn.items.tolist())
    valid = valid_subsets(items.bits[drawn.items], 6)
    answer = (drawn.inliers.unsqueeze(1) == candidate_subsets(5)).all(dim=2)
    assert (answer.sum(dim=1) == 1).all()
    assert (valid & answer).any(dim=1).all()


def test_numbers_of_outliers_and_their_places_are_uniform() -> None:
    drawn = draw_sets(pool(), 6000, make_generator(4))
    outliers = (~drawn.inliers).sum(dim=1)
    shares = torch.bincount(outliers, minlength=4) / len(outliers)
    torch.testing.assert_close(shares, torch.tensor([1 / 3, 1 / 3, 1 / 3, 0]), atol=0.03, rtol=0)
    places = (~drawn.inliers).float().mean(dim=0)
    torch.testing.assert_close(places, torch.full((5,), 0.2), atol=0.03, rtol=0)


def test_all_inliers_and_all_outliers_of_a_pair_are_drawn_alike() -> None:
    """Of two attributes there is one pair: 30 items have both, 10 lack one, 10 the other, 10 both."""
    has = torch.tensor([[1, 1]] * 30 + [[1, 0]] * 10 + [[0, 1]] * 10 + [[0, 0]] * 10).bool()
    items = ItemPool.of(torch.zeros(60, 1), has, ("a", "b"))
    drawn = draw_sets(items, 20_000, make_generator(5))
    assert (drawn.items < 30).equal(drawn.inliers)
    counts = torch.bincount(drawn.items.flatten(), minlength=60).double()
    for part in (counts[:30], counts[30:]):
        assert float(part.std() / part.mean()) < 0.06


def test_every_pair_with_enough_items_is_used() -> None:
    """Items 0 to 10 share a and b, 11 to 30 share b and c; ten share c and d, which is one too few."""
    has = torch.zeros(60, 4, dtype=torch.bool)
    has[:11, :2] = True
    has[11:31, 1:3] = True
    has[31:41, 2:] = True
    items = ItemPool.of(torch.zeros(60, 1), has, NAMES[:4])
    assert items.pairs.tolist() == [[0, 1], [1, 2]]
    assert items.counts.tolist() == [11, 20]
    drawn = draw_sets(items, 4000, make_generator(6))
    first = (drawn.items.masked_fill(~drawn.inliers, 0) < 11).all(dim=1)
    assert float(first.float().mean()) == pytest.approx(0.5, abs=0.04)


def test_the_same_seed_draws_the_same_sets() -> None:
    first, second, other = (draw_sets(pool(), 20, make_generator(seed)) for seed in (7, 7, 8))
    assert torch.equal(first.items, second.items)
    assert torch.equal(first.inliers, second.inliers)
    assert not torch.equal(first.items, other.items)


def test_few_items_are_drawn_without_repetition() -> None:
    """Eleven items with both attributes, and two without: outliers are always these two."""
    has = torch.tensor([[1, 1]] * 11 + [[0, 0]] * 2).bool()
    drawn = draw_sets(ItemPool.of(torch.zeros(13, 1), has, ("a", "b")), 500, make_generator(9))
    assert all(len(set(row)) == 5 for row in drawn.items.tolist())
    assert set(drawn.items[~drawn.inliers].tolist()) == {11, 12}


@pytest.mark.parametrize(
    ("have", "lack"), [(10, 50), (50, 1), (0, 5)], ids=["too few share it", "too few lack it", "nobody"]
)
def test_pools_without_a_usable_pair(have: int, lack: int) -> None:
    has = torch.tensor([[1, 1]] * have + [[0, 0]] * lack).bool()
    with pytest.raises(DataError, match=rf"more than 10 items share.*of {have + lack} items at most {have} share"):
        ItemPool.of(torch.zeros(have + lack, 1), has, ("a", "b"))


def test_a_single_attribute_has_no_pair() -> None:
    with pytest.raises(DataError, match="at most 0 share one"):
        ItemPool.of(torch.zeros(40, 1), torch.ones(40, 1, dtype=torch.bool), ("a",))


def test_too_many_attributes() -> None:
    with pytest.raises(DataError, match="up to 62 attributes, got 63"):
        attribute_bits(torch.zeros(2, 63, dtype=torch.bool))


def test_a_random_view_of_each_item(generator: torch.Generator) -> None:
    attributes = torch.ones(20, 2, dtype=torch.bool)
    attributes[:4, 0] = False
    numbers = torch.arange(20.0)
    views = torch.stack([numbers, numbers + 100]).unsqueeze(-1)
    items = torch.arange(20).view(4, 5).repeat(50, 1)
    plain = ItemPool.of(views[0], attributes, NAMES[:2]).features_of(items, generator)
    assert torch.equal(plain.squeeze(-1), items.float())
    pool = ItemPool.of(views, attributes, NAMES[:2])
    assert len(pool) == 20
    drawn = pool.features_of(items, generator).squeeze(-1)
    assert torch.equal(drawn % 100, items.float())
    assert 0.4 < (drawn >= 100).double().mean() < 0.6
