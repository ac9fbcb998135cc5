"""Hungarian distance: the cheapest one-to-one assignment, by scipy in a pool of threads."""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from desp.capture import on_host
from desp.distances.pairwise import check_same_batch, huber_pairs
from desp.errors import DataError
from desp.sets import SetBatch, prefix_mask

Array = np.ndarray[tuple[int, ...], np.dtype[Any]]

# Below this many multiplications a batch is solved faster by one thread than by handing it out.
MIN_COST_FOR_POOL = 2_000_000
# In how many parts a batch is handed out: enough to keep all cores busy to the end.
PARTS = 32


def hungarian(
    a: Float[Tensor, "b n d"],
    b: Float[Tensor, "b m d"],
    *,
    pad_with_zeros: bool = False,
    nan_is_error: bool = True,
) -> Float[Tensor, " b"]:
    """Mean distance of the pairs of the best assignment (paper, L_H, as mean), differentiable in both sets.

    Args:
        a, b: sets of equal size; all rows take part, padding included.
        pad_with_zeros: allow different sizes by adding zero vectors to the smaller set.
        nan_is_error: refuse sets with NaN or infinity; else their distance is NaN or infinity, as in a loss, which
            training looks at.

    Raises:
        DataError: different sizes without `pad_with_zeros`, or NaN in a set where that is an error.
    """
    check_same_batch(a, b)
    if a.shape[1] != b.shape[1]:
        if not pad_with_zeros:
            raise DataError(
                f"Hungarian distance needs sets of equal size, got {a.shape[1]} and {b.shape[1]} elements. "
                "Pass pad_with_zeros=True to fill the smaller one with zero vectors."
            )
        size = max(a.shape[1], b.shape[1])
        a, b = _pad(a, size), _pad(b, size)
    if a.shape[1] == 0:
        return a.new_zeros(a.shape[0])
    pairs = huber_pairs(a, b)
    columns = assign(pairs, nan_is_error=nan_is_error)
    return pairs.gather(2, columns.unsqueeze(-1)).squeeze(-1).mean(dim=1)


def hungarian_of_sets(a: SetBatch, b: SetBatch, *, pad_with_zeros: bool = False) -> Float[Tensor, " b"]:
    """Hungarian distance of the present elements of two batches of sets.

    The mean is over the pairs of each assignment: as many as the larger of the two sets has elements.

    Raises:
        DataError: sets of different sizes without `pad_with_zeros`.
    """
    check_same_batch(a.elements, b.elements)
    if not pad_with_zeros and bool((a.sizes != b.sizes).any()):
        raise DataError(
            "Hungarian distance needs sets of equal size, and at least one pair differs. "
            "Pass pad_with_zeros=True to fill the smaller one with zero vectors."
        )
    size = max(a.max_size, b.max_size)
    pairs = huber_pairs(_pad(a.packed().elements, size), _pad(b.packed().elements, size))
    counts = torch.maximum(a.sizes, b.sizes)
    used = prefix_mask(counts, size)
    # Padding rows of both sets match each other at cost 0 and are never matched with elements.
    mixed = used.unsqueeze(2) != used.unsqueeze(1)
    forbidden = pairs.detach().amax(dim=(1, 2), keepdim=True) * (size + 1) + 1 if pairs.numel() else 0.0
    costs = torch.where(mixed, forbidden, pairs * (used.unsqueeze(2) & used.unsqueeze(1)))
    chosen = pairs.gather(2, assign(costs).unsqueeze(-1)).squeeze(-1)
    return (chosen * used).sum(dim=1) / counts.clamp(min=1)


@torch.no_grad()
def assign(costs: Float[Tensor, "b n n"], *, nan_is_error: bool = True) -> Int[Tensor, "b n"]:
    """The column of every row in the cheapest assignment; with NaN or infinity among the costs, where that is no
    error, every row's own.

    scipy releases the interpreter lock, so a pool of threads solves large batches on all cores. Costs on a GPU are
    copied in parts, and the first are solved while the others are copied. In a step that is captured, replays do
    all that between two CUDA graphs.

    Raises:
        DataError: NaN or infinity among the costs, where that is an error.
    """
    fixed = costs.detach()  # what is captured keeps it, and must not keep what gradients need
    columns = torch.zeros(costs.shape[:2], dtype=torch.int64, device=costs.device)
    on_host(lambda: columns.copy_(_assigned(fixed, nan_is_error)))
    return columns


def _assigned(costs: Float[Tensor, "b n n"], nan_is_error: bool) -> Int[Tensor, "b n"]:
    """The same on the CPU, whatever the device of `costs`, for which it waits."""
    costs = costs.float() if costs.dtype == torch.bfloat16 else costs  # numpy has no bfloat16
    heavy = costs.shape[0] > 1 and costs.shape[0] * costs.shape[1] ** 3 > MIN_COST_FOR_POOL
    if heavy:
        parts = costs.split(math.ceil(len(costs) / PARTS))
        firsts = range(0, len(costs), len(parts[0]))
        jobs = [
            _pool().submit(_solve, _to_host(part), nan_is_error, first)
            for part, first in zip(parts, firsts, strict=True)
        ]
        solutions = [columns for job in jobs for columns in job.result()]
    else:
        solutions = _solve(_to_host(costs), nan_is_error)
    columns = np.stack(solutions) if solutions else np.zeros(costs.shape[:2], dtype=np.int64)
    return torch.from_numpy(columns)


def _to_host(costs: Tensor) -> Callable[[], Array]:
    """Begin to copy costs to the host; the function that is returned waits for them, in whichever thread."""
    if not costs.is_cuda:
        return costs.numpy
    copied, done = torch.empty(costs.shape, dtype=costs.dtype, pin_memory=True), torch.cuda.Event()
    copied.copy_(costs, non_blocking=True)
    done.record(torch.cuda.current_stream(costs.device))

    def wait() -> Array:
        done.synchronize()
        return copied.numpy()

    return wait


def _solve(host: Callable[[], Array], nan_is_error: bool, first: int = 0) -> list[Array]:
    """The columns of every assignment; `first` is the place of the first one in the batch."""
    costs = host()
    finite = [bool(np.isfinite(item).all()) for item in costs]
    if nan_is_error and not all(finite):
        raise DataError(
            f"Assignment {first + finite.index(False)} of the batch has NaN or infinity among its costs: "
            "one of its two sets holds one."
        )
    own = np.arange(costs.shape[1])
    return [linear_sum_assignment(item)[1] if sound else own for item, sound in zip(costs, finite, strict=True)]


@torch.no_grad()
def nearest_hungarian(sets: Float[Tensor, "b n d"], candidates: Float[Tensor, "m n d"]) -> Float[Tensor, " b"]:
    """The smallest Hungarian distance of each set to any of `candidates`, exactly.

    The mean over nearest neighbours, in either direction, never exceeds the Hungarian distance. Candidates are
    therefore tried in the order of that bound, and a set is done once the next bound exceeds its best distance:
    one or two assignments a set in place of M.
    """
    repeated = sets.unsqueeze(1)
    pairs = huber_pairs(repeated, candidates.unsqueeze(0))  # (B, M, N, N)
    bounds = torch.maximum(pairs.amin(dim=-1).mean(dim=-1), pairs.amin(dim=-2).mean(dim=-1))
    order = bounds.argsort(dim=1)
    best = torch.full((len(sets),), torch.inf, dtype=sets.dtype, device=sets.device)
    for place in range(len(candidates)):
        column = order[:, place]
        # A set with NaN is never "done" by comparison, so it reaches `assign`, which names the problem.
        open_ = (~(bounds.gather(1, column.unsqueeze(1)).squeeze(1) >= best)).nonzero().squeeze(1)
        if len(open_) == 0:
            break
        costs = pairs[open_, column[open_]]
        value = costs.gather(2, assign(costs).unsqueeze(-1)).squeeze(-1).mean(dim=1)
        best[open_] = torch.minimum(best[open_], value)
    return best


def _pad(sets: Tensor, size: int) -> Tensor:
    return torch.nn.functional.pad(sets, (0, 0, 0, size - sets.shape[1]))


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="desp-assign")
