"""Several chains for each set: the one that ends lowest is kept, or their mean."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from desp.distances import assign, huber_pairs
from desp.samplers.base import ChainInfo

# The mean hardly moves when sets are matched with it once more.
ROUNDS = 2

Drawn = tuple[Float[Tensor, "b n c"], ChainInfo]


Energies = Callable[[Float[Tensor, "b n c"]], Float[Tensor, " b"]]


def lowest_of(draw: Callable[[], Drawn], energy: Energies, tries: int) -> Drawn:
    """Draw a batch of sets `tries` times and keep, for each of its rows, the set of lowest energy and its record.

    Args:
        draw: draws the batch once, with new noise every time.
        energy: of drawn sets.
        tries: 1 returns what was drawn.
    """
    sets, info = draw()
    if tries == 1:
        return sets, info
    lowest = energy(sets)
    for _ in range(tries - 1):
        others, other_info = draw()
        energies = energy(others)
        better = (energies < lowest) | (lowest.isnan() & ~energies.isnan())
        lowest = torch.where(better, energies, lowest)
        sets = torch.where(better.view(-1, 1, 1), others, sets)
        info = _chosen(better, other_info, info)
    return sets, info


def mean_of(draw: Callable[[], Drawn], energy: Energies, tries: int) -> Drawn:
    """Draw a batch of sets `tries` times and take, for each of its rows, the mean of the lower half as sets.

    This is the Wasserstein mean: elements of different tries belong together by the best assignment, first to the
    set of lowest energy, then to the mean so far (Cuturi and Doucet 2014, with equal weights). Where an energy
    cannot tell sets apart, no set is expected nearer to the right one, by the Hungarian distance. The upper half
    is left out because chains that fail are there. The record is that of the lowest.

    Args:
        draw: draws the batch once, with new noise every time.
        energy: of drawn sets.
        tries: 1 returns what was drawn.
    """
    drawn: list[Tensor] = []
    energies: list[Tensor] = []

    def remembered() -> Drawn:
        sets, info = draw()
        drawn.append(sets)
        return sets, info

    def remembered_energy(sets: Tensor) -> Tensor:
        energies.append(energy(sets))
        return energies[-1]

    mean, info = lowest_of(remembered, remembered_energy, tries)
    half = (tries + 1) // 2
    if half == 1:
        return mean, info
    lower = torch.stack(energies).nan_to_num(nan=torch.inf).argsort(dim=0)[:half]
    kept = torch.stack(drawn).take_along_dim(lower.view(*lower.shape, 1, 1), dim=0)
    for _ in range(ROUNDS):
        mean = torch.stack([_arranged(sets, mean) for sets in kept]).mean(dim=0)
    return mean, info


def _arranged(sets: Tensor, like: Tensor) -> Tensor:
    """The elements of each set in the order of those of `like` they match; `like` where a chain was lost."""
    lost = ~(sets.isfinite() & like.isfinite()).all(dim=2).all(dim=1).view(-1, 1, 1)
    columns = assign(huber_pairs(torch.where(lost, 0.0, like), torch.where(lost, 0.0, sets)))
    return torch.where(lost, like, sets.gather(1, columns.unsqueeze(-1).expand_as(sets)))


def _chosen(better: Tensor, new: ChainInfo, old: ChainInfo) -> ChainInfo:
    """The new record of rows where it is better, the old one elsewhere."""

    def choose(this: Tensor | None, that: Tensor | None) -> Tensor | None:
        if this is None or that is None:
            return that
        return torch.where(better.view(-1, *[1] * (this.dim() - 2)), this, that)

    return ChainInfo(
        choose(new.energies, old.energies),
        choose(new.gradient_norms, old.gradient_norms),
        choose(new.trajectory, old.trajectory),
    )
