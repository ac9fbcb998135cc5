"""Binary labels of given elements, as padded sets: what methods for them share."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.data.shape import DataShape
from desp.errors import DataError
from desp.methods.aligned import require_aligned
from desp.methods.base import Method, MethodParts
from desp.sets import presence_mask
from desp.settings import AutoregressiveTaggerSettings, LabelLikelihoodSettings, TaggerSettings, require_setting

LabelSettings = TaggerSettings | AutoregressiveTaggerSettings | LabelLikelihoodSettings

# How far a label may be from its value, as a share of the distance between both.
TOLERANCE = 1e-3


class LabelMethod(Method):
    """A method for binary labels of given elements.

    Raises:
        SettingsError: outputs are not aligned with inputs, or elements have more than one feature.
    """

    def __init__(self, settings: LabelSettings, parts: MethodParts) -> None:
        super().__init__(parts)
        require_labels(parts.shape, settings.kind)
        self.labels = settings.labels
        self._kind = settings.kind

    def inspect_sets(self, y: Float[Tensor, "b n c"]) -> None:
        """Check that all labels have one of the two values of the settings."""
        check_labels(y, self.labels, self._kind)


def require_labels(shape: DataShape, kind: str) -> None:
    """Check that outputs are one number for each element of the input.

    Raises:
        SettingsError: they are not.
    """
    require_aligned(shape, kind)
    one = f"1 for the method {kind}: the label"
    require_setting(shape.features == 1, "features", one, shape.features)


def check_labels(y: Float[Tensor, "b n 2"], labels: tuple[float, float], kind: str) -> None:
    """Check that all present elements have one of the two labels.

    Raises:
        DataError: one has another value.
    """
    values = y[..., 0][presence_mask(y)]
    nearest = torch.where(values > sum(labels) / 2, labels[1], labels[0])
    wrong = values[(values - nearest).abs() > TOLERANCE * (labels[1] - labels[0])]
    if len(wrong):
        low, high = float(values.min()), float(values.max())
        found = (
            f"Labels of the first batch lie between {low:g} and {high:g}: if these are the only two values, pass "
            f"--method.labels {low:g} {high:g}."
            if low < high
            else "All labels of the first batch are equal. Pass both values of a label, --method.labels LOW HIGH; "
            "if the data have no other value, there is nothing to learn."
        )
        raise DataError(
            f"The method {kind} expects labels {labels[0]:g} and {labels[1]:g} in scaled units (method.labels), "
            f"got {float(wrong[0]):g}. {found}"
        )


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
