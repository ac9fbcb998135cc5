"""Several chains for each set: the final set of the chain with the lowest energy is kept, or the mean of the
lower half."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from desp.distances import assign, huber_pairs
from desp.samplers.base import ChainInfo
from desp.sets import SetRepresentation
from desp.settings import Aggregate

# The mean hardly moves when sets are matched with it once more.
ROUNDS = 2

Sampled = tuple[Float[Tensor, "b n c"], ChainInfo]


def sample_restarts(
    sample: Callable[[], Sampled],
    energy: Callable[[Float[Tensor, "b n c"]], Float[Tensor, " b"]],
    restarts: int,
    aggregate: Aggregate,
    representation: SetRepresentation,
    *,
    aligned: bool = False,
) -> Sampled:
    """Sample a batch of sets `restarts` times and make one set of them for each of its rows.

    The mean is the Wasserstein barycenter of the half of lower energy: elements of different restarts are matched
    by the best assignment, first to the set of lowest energy, then to the mean so far (Cuturi and Doucet 2014,
    with equal weights). Where the energy cannot distinguish the restarts, the barycenter has the smallest expected
    Hungarian distance to the right set. The upper half is left out because chains that fail are there; in place of
    one that failed in the lower half, the mean has the set that it would be matched with.

    Args:
        sample: samples the batch once, with new noise every time.
        energy: of sampled sets.
        restarts: 1 returns what was sampled.
        aggregate: the set of lowest energy, or the mean. The record is of the lowest in both cases.
        representation: tells which rows of a set are certainly absent.
        aligned: row i of all sets belongs together, so that none is matched.
    """
    if restarts == 1:
        return sample()
    sampled = [sample() for _ in range(restarts)]
    energies = torch.stack([energy(sets) for sets, _ in sampled]).nan_to_num(nan=torch.inf)
    order = energies.argsort(dim=0, stable=True)
    count = (restarts + 1) // 2 if aggregate == "mean" else 1
    lower = torch.stack([sets for sets, _ in sampled]).take_along_dim(order[:count, :, None, None], dim=0)
    result = lower[0]
    if aligned:
        finite = lower.isfinite().all(dim=3).all(dim=2)[..., None, None]
        result = torch.where(finite, lower, result).mean(dim=0)
    elif count > 1:
        for _ in range(ROUNDS):
            result = torch.stack([_arranged(sets, result, representation) for sets in lower]).mean(dim=0)
    rows = torch.arange(len(result), device=result.device)

    def of_lowest(records: list[Tensor]) -> Tensor:
        # (restarts, steps, B, ...) to (B, steps, ...), and back to steps first.
        return torch.stack(records).transpose(1, 2)[order[0], rows].transpose(0, 1)

    return result, ChainInfo.combined([info for _, info in sampled], of_lowest)


def _arranged(sets: Tensor, like: Tensor, representation: SetRepresentation) -> Tensor:
    """The elements of each set in the order of their matches in `like`; `like` where either is not finite."""
    lost = ~(sets.isfinite() & like.isfinite()).all(dim=2).all(dim=1).view(-1, 1, 1)
    costs = huber_pairs(torch.where(lost, 0.0, like), torch.where(lost, 0.0, sets))
    # Absent rows differ by noise alone; to match them as well would take most of the time.
    absent_rows, absent_columns = representation.certainly_absent(like), representation.certainly_absent(sets)
    absent = absent_rows.unsqueeze(2) & absent_columns.unsqueeze(1)
    columns = assign(costs.masked_fill(absent, 0.0))
    return torch.where(lost, like, sets.gather(1, columns.unsqueeze(-1).expand_as(sets)))
