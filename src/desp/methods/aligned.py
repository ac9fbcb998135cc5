"""What methods share whose outputs must be aligned with inputs."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.data.shape import DataShape
from desp.settings import require_setting


def require_aligned(shape: DataShape, kind: str) -> None:
    """Check that outputs are aligned with inputs.

    Raises:
        SettingsError: they are not.
    """
    wanted = (
        f"aligned with inputs for the method {kind}, which gives each element of the input its own output "
        "(--task.description.aligned, in Python DataDescription(aligned=True))"
    )
    require_setting(shape.aligned, "outputs", wanted, "sets of their own")


def given_mask(code: Float[Tensor, "b n h"], presence: Bool[Tensor, "b n"] | None) -> Bool[Tensor, "b n"]:
    """Which elements there are; all, where nothing is said."""
    return code.new_ones(code.shape[:2], dtype=torch.bool) if presence is None else presence
