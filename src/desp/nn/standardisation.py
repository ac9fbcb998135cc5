"""Inputs and codes standardised by the statistics of training data."""

from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from desp.constants import constant
from desp.scaling import box_centres
from desp.settings import Columns

FAR_STANDARD_DEVIATIONS = 10.0
"""Inputs that lie more standard deviations than this from the mean are unlike those of training."""
FARTHEST = 1000.0
"""What is beyond, in standard deviations, is taken as this: a number of 1e30 would give NaN."""


class InputScaling(nn.Module):
    """Inputs standardised to mean 0 and standard deviation 1, with the statistics saved as buffers.

    Args:
        shape: of one input, or of one element.
        masked: inputs are sets (B, N, D + 1), presence last, whose absent elements become zero vectors. Presence,
            whose mean is taken as 0 and standard deviation as 1, stays what it is.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, shape: tuple[int, ...], *, masked: bool = False) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("deviation", torch.ones(shape))
        self.masked = masked

    def set_from(self, mean: Tensor, deviation: Tensor) -> None:
        """Take the statistics of the training inputs; a constant input keeps its unit."""
        self.mean.copy_(mean)
        # A deviation up to this counts as rounding: 1e-6 |mean| but at most 1e-8, and for large means what float64
        # itself rounds away.
        rounding = (1e-6 * mean.abs()).clamp(max=1e-8).maximum(1e-12 * mean.abs())
        self.deviation.copy_(torch.where(deviation > rounding, deviation, torch.ones_like(deviation)))

    def forward(self, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "b *shape"]:
        """Standardise."""
        scaled = ((x - self.mean) / self.deviation).clamp(-FARTHEST, FARTHEST)
        return scaled * x[..., -1:] if self.masked else scaled

    def far(self, x: Float[Tensor, "b *shape"]) -> Bool[Tensor, "b *shape"]:
        """Which numbers of inputs lie more than `FAR_STANDARD_DEVIATIONS` from the mean of the training inputs.

        Columns of 0 and 1, known by their variance p (1 - p), have no far values, however rare the 1 was.
        """
        binary = torch.isclose(self.deviation.square(), self.mean * (1 - self.mean), rtol=0.01, atol=0.0)
        expected = binary & ((x == 0) | (x == 1))
        return ((x - self.mean).abs() > FAR_STANDARD_DEVIATIONS * self.deviation) & ~expected


class SetScaling(InputScaling):
    """Input sets (B, N, D + 1), presence last, in the units and with the padding of the sets to predict."""

    boxes: Columns = ()
    """Columns of boxes, which are scaled as centre, width and height."""
    limits: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """Lowest and highest value of each feature, to which sets to predict are clipped; None: they are not."""

    def __init__(self, input_shape: tuple[int, ...]) -> None:
        super().__init__((input_shape[1] - 1,))

    def forward(self, x: Float[Tensor, "b n c"]) -> Float[Tensor, "b n c"]:
        """Scale elements; absent ones are zero vectors."""
        elements, presence = x[..., :-1], x[..., -1:]
        values = box_centres(elements, self.boxes)
        if self.limits is not None:
            low, high = (constant(ends, x.device, x.dtype) for ends in self.limits)
            values = values.clamp(low, high)
        scaled = super().forward(values)
        return torch.cat([scaled * presence, presence], dim=-1)


class StandardCodes(nn.BatchNorm1d):
    """Codes (B, ..., H) in which every number has mean 0 and standard deviation 1 over inputs, or elements.

    In training by the batch's statistics, in prediction by batch norm's running averages from training. What an
    encoder gives at first may be nearly the same for all inputs. Codes of padding do not count, and become 0.

    Args:
        features: H.
    """

    def __init__(self, features: int) -> None:
        super().__init__(features, affine=False, eps=1e-10)  # codes may differ by thousandths

    def forward(
        self, input: Float[Tensor, "b *n h"], present: Bool[Tensor, " *rows"] | None = None
    ) -> Float[Tensor, "b *n h"]:
        """Standardise; a single code, which has no standard deviation, by the running averages.

        Args:
            input: the codes.
            present: which of them are no padding; None: all.
        """
        codes = input.flatten(end_dim=-2)
        if present is not None:
            return self._by_present(codes, present.reshape(-1, 1).to(codes.dtype)).view_as(input)
        if len(codes) > 1:
            return super().forward(codes).view_as(input)
        return self._by_averages(codes).view_as(input)

    def _by_averages(self, codes: Float[Tensor, "m h"]) -> Float[Tensor, "m h"]:
        return F.batch_norm(codes, self.running_mean, self.running_var, eps=self.eps)

    def _by_present(self, codes: Float[Tensor, "m h"], weight: Float[Tensor, "m 1"]) -> Float[Tensor, "m h"]:
        """By sums over the present alone, without a look at how many there are, so that CUDA graphs capture it."""
        if not self.training:
            return self._by_averages(codes) * weight
        count = weight.sum()
        mean = (weight * codes).sum(dim=0) / count.clamp(min=1)
        variance = (weight * (codes - mean).square()).sum(dim=0) / count.clamp(min=1)
        self._note(mean.detach(), variance.detach(), count)
        scaled = (codes - mean) * torch.rsqrt(variance + self.eps)
        return torch.where(count > 1, scaled, self._by_averages(codes)) * weight

    @torch.no_grad()
    def _note(self, mean: Float[Tensor, " h"], variance: Float[Tensor, " h"], count: Float[Tensor, ""]) -> None:
        """Update the running averages as batch norm does, unless there is a single code."""
        kept = (count > 1).to(count.dtype) * (self.momentum or 0.0)
        unbiased = variance * count / (count - 1).clamp(min=1)
        for average, new in ((self.running_mean, mean), (self.running_var, unbiased)):
            average = cast(Tensor, average)
            average.copy_(average + kept * (new - average))
