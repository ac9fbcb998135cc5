"""The element distance that all set distances share."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from desp.errors import DataError

# Up to so many features their mean has the same bits in whichever layout it is computed.
FEW_FEATURES = 4


def huber_pairs(a: Float[Tensor, "*#b n d"], b: Float[Tensor, "*#b m d"]) -> Float[Tensor, "*#b n m"]:
    """Huber distance (delta 1), mean over features, between all elements of `a` and all of `b`.

    On data in [0, 1] it is half the mean squared difference. Batch dimensions are broadcast.
    """
    if a.shape[-1] != b.shape[-1]:
        raise DataError(f"Elements of both sets must have the same features, got {a.shape[-1]} and {b.shape[-1]}.")
    if _features_first(a, b):
        first, second = (item.movedim(-1, 0).contiguous() for item in (a, b))
        left, right = torch.broadcast_tensors(first.unsqueeze(-1), second.unsqueeze(-2))
        return F.smooth_l1_loss(left, right, beta=1.0, reduction="none").mean(dim=0)
    left, right = torch.broadcast_tensors(a.unsqueeze(-2), b.unsqueeze(-3))
    return F.smooth_l1_loss(left, right, beta=1.0, reduction="none").mean(dim=-1)


def huber_rows(a: Float[Tensor, "*b d"], b: Float[Tensor, "*b d"]) -> Float[Tensor, "*b"]:
    """Huber distance (delta 1), mean over features, between elements in the same place."""
    return F.smooth_l1_loss(a, b, beta=1.0, reduction="none").mean(dim=-1)


def _features_first(a: Tensor, b: Tensor) -> bool:
    """Whether pairs are quicker with elements next to each other in memory, as on a CPU.

    Not where gradients are wanted: their sums over elements would be in another order, and have other last bits.
    """
    few = a.shape[-1] <= FEW_FEATURES and a.ndim == b.ndim
    gradients = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    return few and a.device.type == "cpu" and not gradients


def check_same_batch(a: Tensor, b: Tensor) -> None:
    """Refuse batches of different length, which broadcasting would silently accept.

    Raises:
        DataError: they differ.
    """
    if len(a) != len(b):
        raise DataError(f"Expected as many sets on both sides, got {len(a)} and {len(b)}.")


def aligned_distance(
    a: Float[Tensor, "b n d"], b: Float[Tensor, "b n d"], presence: Bool[Tensor, "b n"]
) -> Float[Tensor, " b"]:
    """Huber distance of row i of `a` to row i of `b`, mean over features and present elements; 0 without any."""
    check_same_batch(a, b)
    return torch.where(presence, huber_rows(a, b), 0.0).sum(dim=1) / presence.sum(dim=1).clamp(min=1)
