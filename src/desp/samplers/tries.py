"""Several chains for each set, of which the one that ends lowest is kept."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from desp.samplers.base import ChainInfo

Drawn = tuple[Float[Tensor, "b n c"], ChainInfo]


def lowest_of(
    draw: Callable[[], Drawn], energy: Callable[[Float[Tensor, "b n c"]], Float[Tensor, " b"]], tries: int
) -> Drawn:
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
