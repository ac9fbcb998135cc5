"""Subset anomaly detection (paper, section 5.5): which subsets of a set are valid answers, and how sets are drawn.

Items have binary attributes. A subset of at least three items of a set is a valid answer, its members the inliers,
if they share at least two attributes and no other item of the set has all of what they share. Often more than one
subset is valid.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from desp.errors import DataError
from desp.sets import prefix_mask

SET_SIZE = 5
MIN_INLIERS = 3
MIN_SHARED = 2
# A pair of attributes is used where more items than this have both.
PAIR_THRESHOLD = 10
MAX_ATTRIBUTES = 62


@lru_cache
def _candidates(size: int, device: torch.device) -> Bool[Tensor, "s n"]:
    """Subsets of `size` items that have enough members, the largest first."""
    counts = range(size, MIN_INLIERS - 1, -1)
    chosen = [subset for count in counts for subset in combinations(range(size), count)]
    return torch.tensor([[item in subset for item in range(size)] for subset in chosen], device=device)


def candidate_subsets(size: int, device: torch.device | str = "cpu") -> Bool[Tensor, "s n"]:
    """All subsets that can be valid answers for `size` items, by their members; 16 of 5 items."""
    return _candidates(size, torch.device(device))


def attribute_bits(attributes: Bool[Tensor, "m a"]) -> Int[Tensor, " m"]:
    """The attributes of each item as the bits of one number.

    Raises:
        DataError: there are too many.
    """
    count = attributes.shape[1]
    if count > MAX_ATTRIBUTES:
        raise DataError(f"Items can have up to {MAX_ATTRIBUTES} attributes, got {count}. Use fewer of them.")
    places = torch.arange(count, device=attributes.device)
    return (attributes.to(torch.int64) << places).sum(dim=1)


def valid_subsets(bits: Int[Tensor, "b n"], attributes: int) -> Bool[Tensor, "b s"]:
    """Which of `candidate_subsets` are valid answers for sets of items.

    Args:
        bits: the items' attributes, from `attribute_bits`.
        attributes: how many there are.
    """
    members = candidate_subsets(bits.shape[1], bits.device)
    everything = (1 << attributes) - 1
    shared = torch.full((len(bits), len(members)), everything, dtype=bits.dtype, device=bits.device)
    for item in range(bits.shape[1]):  # a loop over few items, as there is no reduction by "and"
        own = bits[:, item, None].expand_as(shared)
        shared = torch.where(members[:, item], shared & own, shared)
    places = torch.arange(attributes, device=bits.device)
    enough = ((shared.unsqueeze(-1) >> places) & 1).sum(dim=-1) >= MIN_SHARED
    has_all = (bits.unsqueeze(1) & shared.unsqueeze(2)) == shared.unsqueeze(2)
    return enough & ~(has_all & ~members).any(dim=2)


@dataclass(frozen=True)
class ItemPool:
    """Items from which sets are drawn.

    Attributes:
        features: (M, H), inputs of a model; (V, M, H) where there are V views of each item.
        attributes: (M, A), binary; they decide which items belong together.
        names: of the attributes.
        pairs: (P, 2), the pairs of attributes that sets are drawn for.
        counts: (P,), how many items have both attributes.
        order: (P, M), all items, for each pair the items that have both attributes first.
        bits: (M,), the attributes of each item as the bits of one number.
    """

    features: Float[Tensor, "*v m h"]
    attributes: Bool[Tensor, "m a"]
    names: tuple[str, ...]
    pairs: Int[Tensor, "p 2"]
    counts: Int[Tensor, " p"]
    order: Int[Tensor, "p m"]
    bits: Int[Tensor, " m"]

    @classmethod
    def of(cls, features: Tensor, attributes: Bool[Tensor, "m a"], names: tuple[str, ...]) -> Self:
        """The pool of all items.

        Raises:
            DataError: no pair of attributes has enough items with both, or enough without.
        """
        pairs = torch.tensor(list(combinations(range(attributes.shape[1]), 2)), dtype=torch.int64).view(-1, 2)
        both = attributes[:, pairs[:, 0]] & attributes[:, pairs[:, 1]]  # (M, P)
        counts = both.sum(dim=0)
        others = len(attributes) - counts
        used = (counts > PAIR_THRESHOLD) & (others >= SET_SIZE - MIN_INLIERS)
        if not used.any():
            best = int(counts.max()) if len(counts) else 0
            raise DataError(
                f"Sets are drawn for pairs of attributes that more than {PAIR_THRESHOLD} items share and some "
                f"lack, but of {len(attributes)} items at most {best} share one. Use more items."
            )
        order = (~both[:, used]).to(torch.int8).argsort(dim=0, stable=True).T.contiguous()
        return cls(features, attributes, names, pairs[used], counts[used], order, attribute_bits(attributes))

    def to(self, device: torch.device | str) -> Self:
        """The same pool elsewhere."""
        moved = ("features", "attributes", "pairs", "counts", "order", "bits")
        return replace(self, **{name: getattr(self, name).to(device) for name in moved})

    def __len__(self) -> int:
        return len(self.attributes)

    def words(self, mask: Bool[Tensor, " a"]) -> tuple[str, ...]:
        """The names of the attributes in a mask."""
        return tuple(name for name, has in zip(self.names, mask.tolist(), strict=True) if has)

    def features_of(self, items: Int[Tensor, "b n"], generator: torch.Generator) -> Float[Tensor, "b n h"]:
        """Features of items by their numbers; where there are several views, a random one of each."""
        if self.features.dim() == 2:
            return self.features[items]
        views = torch.randint(len(self.features), items.shape, generator=generator, device=items.device)
        return self.features[views, items]


@dataclass(frozen=True)
class DrawnSets:
    """Sets of items with one valid answer each.

    Attributes:
        items: (B, N), numbers of items in the pool.
        inliers: (B, N), the answer that they were drawn for.
    """

    items: Int[Tensor, "b n"]
    inliers: Bool[Tensor, "b n"]


def draw_sets(pool: ItemPool, count: int, generator: torch.Generator) -> DrawnSets:
    """Draw sets of five different items on the generator's device: 0, 1 or 2 outliers, with equal probability.

    A pair of attributes is drawn uniformly; inliers have both, outliers lack one or both. No shape depends on what
    is drawn, so a CUDA graph can capture it.
    """
    device = generator.device
    pair = torch.randint(len(pool.pairs), (count,), generator=generator, device=device)
    have = pool.counts[pair]
    outliers = torch.randint(SET_SIZE - MIN_INLIERS + 1, (count,), generator=generator, device=device)
    inside = _distinct(have, SET_SIZE, generator)
    outside = have.unsqueeze(1) + _distinct(len(pool) - have, SET_SIZE - MIN_INLIERS, generator)
    places = torch.cat([outside, outside.new_zeros(count, MIN_INLIERS)], dim=1)
    is_outlier = prefix_mask(outliers, SET_SIZE)
    items = pool.order[pair.unsqueeze(1), torch.where(is_outlier, places, inside)]
    shuffled = torch.rand(count, SET_SIZE, generator=generator, device=device).argsort(dim=1)
    return DrawnSets(items.gather(1, shuffled), ~is_outlier.gather(1, shuffled))


def _distinct(totals: Int[Tensor, " b"], count: int, generator: torch.Generator) -> Int[Tensor, "b k"]:
    """`count` different whole numbers below each total, all choices equally probable.

    Number k is drawn among those that are left, and moved past the earlier ones in ascending order.
    """
    chosen: list[Tensor] = []
    for number in range(count):
        left = totals - number
        draw = torch.rand(totals.shape, generator=generator, device=totals.device, dtype=torch.float64)
        value = torch.minimum((draw * left).long(), left - 1)
        if chosen:
            for earlier in torch.stack(chosen).sort(dim=0).values:
                value = value + (value >= earlier)
        chosen.append(value)
    return torch.stack(chosen, dim=1)
