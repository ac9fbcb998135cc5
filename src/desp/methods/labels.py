"""Binary labels of given elements, as padded sets: what methods for them share."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.data.shape import DataShape
from desp.settings import require_setting


def require_labels(shape: DataShape, kind: str) -> None:
    """Check that outputs are one number for each element of the input.

    Raises:
        SettingsError: they are not.
    """
    wanted = f"aligned with inputs for the method {kind}, which labels given elements (description.aligned)"
    require_setting(shape.aligned, "outputs", wanted, "sets of their own")
    one = f"1 for the method {kind}: the label"
    require_setting(shape.features == 1, "features", one, shape.features)


def is_high(y: Float[Tensor, "b n 2"], labels: tuple[float, float]) -> Bool[Tensor, "b n"]:
    """Which labels of padded sets are nearer to the higher of the two values."""
    return y[..., 0] > sum(labels) / 2


def padded_labels(
    high: Bool[Tensor, "b n"], mask: Bool[Tensor, "b n"], labels: tuple[float, float], dtype: torch.dtype
) -> Float[Tensor, "b n 2"]:
    """Padded sets (B, N, 2): one of the two values, and presence; zeros where an element is absent."""
    presence = mask.to(dtype)
    values = torch.where(high, labels[1], labels[0]).to(dtype)
    return torch.stack([values * presence, presence], dim=-1)


def given_mask(code: Float[Tensor, "b n h"], presence: Bool[Tensor, "b n"] | None) -> Bool[Tensor, "b n"]:
    """Which elements there are; all, where nothing is said."""
    return code.new_ones(code.shape[:2], dtype=torch.bool) if presence is None else presence
