"""How far predicted set sizes are from true ones."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from desp.metrics.base import Metric

RELEASED_THRESHOLD = 0.015
RELEASED_BATCH = 100
SIZE_RMSE = Metric("size_rmse", 1.0, "lower", "root mean square error of cardinalities")
POOLED_SIZE_RMSE = Metric("size_rmse_pooled", 1.0, "lower", "root mean square error of cardinalities by presence")
BATCHED_SIZE_RMSE = Metric(
    "size_rmse",
    1.0,
    "lower",
    "root mean square error of cardinalities by the released rule, in batches of 100",
)
RIGHT_SIZE = Metric("right_size", 1.0, "higher", "share of sets with exactly the right cardinality")


def size_rmse(predicted: Int[Tensor, " b"], true: Int[Tensor, " b"]) -> float:
    """Root mean square error of set sizes, pooled over all sets."""
    return float((predicted - true).double().square().mean().sqrt())


def batched_size_rmse(
    predicted: Int[Tensor, " b"], true: Int[Tensor, " b"], *, batch_size: int = RELEASED_BATCH
) -> float:
    """Root mean square error of set sizes in each batch, averaged over batches, as the released code has it.

    One wrong size among 1,000 weighs .01 here, and .032 in the pooled error. The last batch may be smaller.
    """
    parts = zip(predicted.split(batch_size), true.split(batch_size), strict=True)
    return float(torch.tensor([size_rmse(some, wanted) for some, wanted in parts], dtype=torch.float64).mean())


def released_sizes(values: Float[Tensor, "b n c"], threshold: float = RELEASED_THRESHOLD) -> Int[Tensor, " b"]:
    """Set sizes by the released rule: a row counts if each of its numbers, presence too, is above `threshold`.

    Elements in row or column 0 never count, in predictions and truth alike.
    """
    return (values > threshold).all(dim=-1).sum(dim=1)


def right_size(predicted: Int[Tensor, " b"], true: Int[Tensor, " b"]) -> float:
    """The share of sets that have exactly the right size."""
    return float((predicted == true).double().mean())
