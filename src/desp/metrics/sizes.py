"""How far predicted set sizes are from true ones."""

from jaxtyping import Int
from torch import Tensor


def size_rmse(predicted: Int[Tensor, " b"], true: Int[Tensor, " b"]) -> float:
    """Root mean square error of set sizes, pooled over all sets."""
    return float((predicted - true).double().square().mean().sqrt())
