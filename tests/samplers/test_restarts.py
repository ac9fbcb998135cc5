"""The mean of several restarts, by hand."""

from itertools import permutations

import torch
from torch import Tensor

from desp.distances import huber_pairs
from desp.samplers import ChainInfo, sample_restarts
from desp.sets import SetRepresentation
from desp.settings import RepresentationSettings

RESTARTS, ROWS = 9, 10


def arranged(item: Tensor, like: Tensor) -> Tensor:
    """The elements of one set (N, C) in the order that is nearest to `like`, by trying all."""
    costs = huber_pairs(like.unsqueeze(0), item.unsqueeze(0))[0].tolist()
    orders = permutations(range(len(item)))
    best = min(orders, key=lambda order: sum(costs[row][place] for row, place in enumerate(order)))
    return item[list(best)]


def mean_matched_with(like: Tensor, ends: Tensor) -> Tensor:
    """The mean of sets (K, B, N, C), element by element as they match those of `like` (B, N, C)."""
    of_rows = zip(ends.unbind(1), like, strict=True)
    return torch.stack([torch.stack([arranged(end, row) for end in some]).mean(dim=0) for some, row in of_rows])


def test_elements_are_matched_with_the_lowest_set_and_once_more_with_the_mean() -> None:
    ends = torch.rand(RESTARTS, ROWS, 4, 2, generator=torch.Generator().manual_seed(0))
    left, scores = iter(ends), iter(range(RESTARTS))
    padding = SetRepresentation(RepresentationSettings("zero", scaling="none"))
    padding.threshold = -1  # no row is absent
    found, _ = sample_restarts(
        lambda: (next(left), ChainInfo()),
        lambda sets: torch.full((len(sets),), float(next(scores))),
        RESTARTS,
        "mean",
        padding,
    )
    lower = ends[:5]  # of nine
    once = mean_matched_with(ends[0], lower)
    twice = mean_matched_with(once, lower)
    torch.testing.assert_close(found, twice)
    for other in (once, mean_matched_with(twice, lower)):
        assert not torch.allclose(found, other)


def test_where_the_lowest_end_is_lost_the_others_are_not_matched_with_it() -> None:
    """Energies that overflowed are all infinite, so that the first of them counts as the lowest."""
    ends = torch.rand(4, 2, 3, 2, generator=torch.Generator().manual_seed(0))
    ends[0, 1, 2] = torch.inf
    left = iter(ends)
    padding = SetRepresentation(RepresentationSettings("zero", scaling="none"))
    found, _ = sample_restarts(
        lambda: (next(left), ChainInfo()), lambda sets: torch.full((len(sets),), torch.inf), 4, "mean", padding
    )
    assert found[0].isfinite().all()
    assert not found[1].isfinite().all()


def test_a_chain_that_diverged_does_not_spoil_the_mean_of_aligned_sets() -> None:
    ends = torch.rand(5, 2, 3, 2, generator=torch.Generator().manual_seed(0))
    ends[1, 0, 2] = torch.nan  # among the lower half of the first set
    left, scores = iter(ends), iter(range(5))
    padding = SetRepresentation(RepresentationSettings())
    found, _ = sample_restarts(
        lambda: (next(left), ChainInfo()),
        lambda sets: torch.full((len(sets),), float(next(scores))),
        5,
        "mean",
        padding,
        aligned=True,
    )
    torch.testing.assert_close(found[0], (2 * ends[0, 0] + ends[2, 0]) / 3)
    torch.testing.assert_close(found[1], ends[:3, 1].mean(dim=0))


def test_a_record_of_several_has_only_what_all_of_them_have() -> None:
    energies, norms = torch.rand(3, 2), torch.rand(3, 2)
    joined = ChainInfo.combined([ChainInfo(energies, norms), ChainInfo(energies)], torch.cat)
    assert torch.equal(joined.energies, torch.cat([energies, energies]))
    assert (joined.gradient_norms, joined.trajectory) == (None, None)
