"""Settings of how sets become tensors."""

from dataclasses import dataclass
from typing import Literal

from desp.settings.base import require_setting
from desp.settings.types import Checked

Scaled = bool | Literal["standard"]
"""Whether features are scaled. True: by their range. ``standard``: by their standard deviation. False: not."""


@dataclass(frozen=True)
class RepresentationSettings(Checked):
    """How sets of different cardinality become tensors of one shape, and back."""

    padding: Literal["presence", "zero"] = "presence"
    """presence: one more feature, 1 for present and 0 for absent. zero: absent elements are zero vectors; only
    with scaling none, as scaling moves real elements to zero or near it."""
    threshold: float | None = None
    """An element counts as present if its presence exceeds this (default .5); with zero padding, if its features
    do (default .015; see presence-rule)."""
    presence_rule: Literal["all_above", "any_beyond"] = "all_above"
    """With zero padding an element is present if all its features are above the threshold, or if any one is
    beyond +-threshold."""
    max_size: int | None = None
    """Largest set to predict; None: the largest set of the data. Polygons, Digits, set-MNIST, CLEVR, CelebA and
    pedestrians fix it."""
    scaling: Literal["auto", "standard", "none"] = "auto"
    """Of own data (others have a fixed scaling, of which none turns off that of CLEVR, CelebA and pedestrians).
    auto: element features that leave [-.05, 1.05], or span less than .2, are scaled to [0, 1] (constant ones
    are moved to 1/2), and back in predictions. standard: every feature is scaled to mean 1/2 and standard
    deviation 1/4; denoising methods rescale to [-1, 1], where these become 0 and 1/2, the default sigma_data. A
    long tail then does not compress all other values. Features of only two values, such as labels, and categories
    are scaled as by auto. Both scale all boxes, as centre, width and height."""

    @property
    def scaled(self) -> Scaled:
        """`scaling` as a truth value, but for ``standard``: auto is True, none is False."""
        return "standard" if self.scaling == "standard" else self.scaling == "auto"

    def __post_init__(self) -> None:
        valid = self.threshold is None or 0 <= self.threshold < 1
        require_setting(valid, "threshold", "at least 0 and below 1, or None", self.threshold)
        visible = self.padding == "presence" or self.scaling == "none"
        wanted = f"presence with scaling {self.scaling}, which moves elements to zero (or set scaling to none)"
        require_setting(visible, "padding", wanted, self.padding)
        require_setting(self.max_size is None or self.max_size > 0, "max_size", "positive or None", self.max_size)
