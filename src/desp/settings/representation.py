"""Settings of how sets become tensors."""

from dataclasses import dataclass
from typing import Any, Literal

from desp.settings.base import require_setting

Categories = tuple[tuple[int, int], ...]
"""Column ranges [first, last) of element features that are one-hot."""

RANGES = "ranges of at least two columns, (first, last + 1), that do not overlap"


@dataclass(frozen=True)
class RepresentationSettings:
    """How sets of different cardinality become tensors of one shape, and back."""

    padding: Literal["presence", "zero"] = "presence"
    """presence: one more feature, 1 for present and 0 for absent. zero: absent elements are zero vectors."""
    threshold: float | None = None
    """Above it an element is present: the presence feature (.5 if None) or coordinates (zero padding, .015)."""
    zero_rule: Literal["every", "any"] = "every"
    """Zero padding: present when every coordinate lies above the threshold, or any one beyond +-threshold."""
    max_size: int | None = None
    """Largest set; that of the data if None."""
    scaling: Literal["auto", "none"] = "auto"
    """auto: element features that are not near [0, 1] are scaled to it, and back in predictions."""
    categories: Categories = ()
    """Column ranges of one-hot features, such as (2, 5) for columns 2, 3 and 4; predictions are one-hot too."""

    def __post_init__(self) -> None:
        valid = self.threshold is None or 0 <= self.threshold < 1
        require_setting(valid, "threshold", "at least 0 and below 1, or None", self.threshold)
        require_setting(self.max_size is None or self.max_size > 0, "max_size", "positive or None", self.max_size)
        require_setting(_separate_ranges(self.categories), "categories", RANGES, self.categories)


def _separate_ranges(groups: Any) -> bool:
    pairs = isinstance(groups, tuple) and all(isinstance(group, tuple) and len(group) == 2 for group in groups)
    if not pairs or not all(0 <= first < behind - 1 for first, behind in groups):
        return False
    columns = [column for first, behind in groups for column in range(first, behind)]
    return len(columns) == len(set(columns))
