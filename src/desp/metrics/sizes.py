"""How far predicted set sizes are from true ones."""

from jaxtyping import Int
from torch import Tensor

from desp.metrics.base import Metric

SIZE_RMSE = Metric("size_rmse", 1.0, "lower", "root mean square error of cardinalities")
RIGHT_SIZE = Metric("right_size", 1.0, "higher", "cardinality accuracy: fraction of sets of the right cardinality")


def size_rmse(predicted: Int[Tensor, " b"], true: Int[Tensor, " b"]) -> float:
    """Root mean square error of set sizes, pooled over all sets."""
    return float((predicted - true).double().square().mean().sqrt())


def right_size(predicted: Int[Tensor, " b"], true: Int[Tensor, " b"]) -> float:
    """Cardinality accuracy: the fraction of sets of exactly the right size."""
    return float((predicted == true).double().mean())
