"""Scores of reconstructed sets, written with presence as last column (set-MNIST)."""

from collections.abc import Callable, Iterable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from desp.distances import chamfer, hungarian
from desp.metrics.base import Metric
from desp.metrics.sizes import RIGHT_SIZE, right_size, size_rmse

SetDistance = Callable[[Tensor, Tensor], Tensor]
"""(B, N, C), (B, N, C) -> (B,)"""
PRESENT = 0.5
RELEASED_THRESHOLD = 0.015
RELEASED_BATCH = 100
# Pairs of elements whose distances are computed at once: some 150 MB, a hundred sets of 342 points.
PAIRS_AT_ONCE = 12_000_000
_RMSE = "root mean square error of cardinalities by"
_RULE = "the counting rule of the paper's code (row, column and presence all above .015)"
RECONSTRUCTION_METRICS = (
    Metric("chamfer", 1e-5, "lower", "Chamfer distance to the input"),
    Metric("hungarian", 1e-5, "lower", "Hungarian distance to the input"),
    Metric("size_rmse_released", 1.0, "lower", f"{_RMSE} {_RULE}, mean over batches of 100 sets"),
    Metric("size_rmse", 1.0, "lower", f"{_RMSE} another counting rule (presence above .5), over all sets"),
    RIGHT_SIZE,
)


def distance_each(
    distance: SetDistance, predicted: Float[Tensor, "m n c"], true: Float[Tensor, "m n c"]
) -> Float[Tensor, " m"]:
    """Distance of each pair of sets, all rows included, in parts that fit into memory."""
    return torch.cat([distance(some, wanted) for some, wanted in _parts(predicted, true)])


def reconstruction_scores(
    predicted: Float[Tensor, "m n c"], true: Float[Tensor, "m n c"], counts: Iterable[int]
) -> tuple[dict[int, dict[str, float]], Float[Tensor, " m"]]:
    """Measure M predicted sets against as many true ones.

    Args:
        predicted, true: padded, the last column is presence; all rows take part in distances.
        counts: how many sets are scored, from the first on.

    Returns:
        For each count the metrics of the paper's table, `size_rmse` and `right_size`; and the Chamfer distances.

    Raises:
        DataError: NaN or infinity in a set.
    """
    near = distance_each(chamfer, predicted, true).cpu()
    assigned = distance_each(hungarian, predicted, true).cpu()
    released = [released_sizes(sets).cpu() for sets in (predicted, true)]
    sizes = [(sets[..., -1] > PRESENT).sum(dim=1).cpu() for sets in (predicted, true)]
    scores = {
        count: {
            "chamfer": float(near[:count].double().mean()),
            "hungarian": float(assigned[:count].double().mean()),
            "size_rmse_released": batched_size_rmse(*(item[:count] for item in released)),
            "size_rmse": size_rmse(*(item[:count] for item in sizes)),
            "right_size": right_size(*(item[:count] for item in sizes)),
        }
        for count in counts
    }
    return scores, near


def batched_size_rmse(
    predicted: Int[Tensor, " b"], true: Int[Tensor, " b"], *, batch_size: int = RELEASED_BATCH
) -> float:
    """Root mean square error of set sizes in each batch, averaged over batches, as in the paper's code.

    One wrong size among 1,000 weighs .01 here, and .032 in the error over all sets. The last batch may be smaller.
    """
    parts = zip(predicted.split(batch_size), true.split(batch_size), strict=True)
    return float(torch.tensor([size_rmse(some, wanted) for some, wanted in parts], dtype=torch.float64).mean())


def released_sizes(values: Float[Tensor, "b n c"]) -> Int[Tensor, " b"]:
    """Set sizes by the counting rule of the paper's code: row, column and presence must all be above .015.

    Elements in row or column 0 never count, in predictions and truth alike.
    """
    return (values > RELEASED_THRESHOLD).all(dim=-1).sum(dim=1)


def _parts(predicted: Tensor, true: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    count = max(1, PAIRS_AT_ONCE // max(predicted.shape[1], 1) ** 2)
    return zip(predicted.split(count), true.split(count), strict=True)
