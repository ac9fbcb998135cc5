"""Sets of different sizes as tensors: where padded sets are made from lists of sets and read back.

`SetBatch` is the type that all modules exchange: a padded tensor and a mask. A `SetRepresentation` writes it as
the single tensor that energies see and samplers move, and reads it back. Presence is its last feature, which
methods and networks rely on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from desp.errors import DataError
from desp.settings import RepresentationSettings
from desp.tensors import NOT_FINITE, as_numbers, nonfinite_places

A_SET = "a list of equally long lists of numbers, one for each element"


def as_set(value: Any, where: str = "a set") -> Float[Tensor, "n d"]:
    """Read anything that looks like a list of element vectors as a float tensor (n, d).

    Raises:
        DataError: not two-dimensional, not real numbers, or not finite. `where` names the set in the message.
    """
    if value is None:
        raise DataError(f"{where}: expected {A_SET}, got null (None). An empty set is written [].")
    elements = as_numbers(value, where, A_SET, ("element", "feature"))
    if elements.dtype == torch.bool or elements.is_complex():
        raise DataError(f"{where}: expected real numbers, got {elements.dtype}. Convert them to float first.")
    if elements.dim() != 2 and elements.numel() == 0:
        elements = elements.reshape(0, 0)  # [] says nothing of the feature count; the batch knows it
    if elements.dim() != 2:
        raise DataError(
            f"{where}: expected two dimensions (elements, features), got shape {tuple(elements.shape)}. "
            "A single feature is written [[1.0], [2.0]]."
        )
    if len(elements) and elements.shape[1] == 0:
        raise DataError(f"{where}: its {len(elements)} elements have no features. An empty set is written [].")
    if len(wrong := nonfinite_places(elements)):
        element, feature = wrong[0].tolist()
        raise DataError(f"{where}: element {element}, feature {feature} holds {NOT_FINITE}. Remove or repair it.")
    return elements if elements.is_floating_point() else elements.to(torch.get_default_dtype())


@dataclass(frozen=True)
class SetBatch:
    """B sets, padded to N elements of D features.

    Attributes:
        elements: (B, N, D); rows of absent elements may hold anything.
        mask: (B, N); true where an element belongs to its set.
    """

    elements: Float[Tensor, "b n d"]
    mask: Bool[Tensor, "b n"]

    @classmethod
    def from_ragged(
        cls, sets: Sequence[Any], max_size: int | None = None, features: int | None = None, first: int = 0
    ) -> "SetBatch":
        """Pad a list of (n_i, D) sets.

        Args:
            sets: tensors, arrays or nested lists; a set may be empty.
            max_size: N; the largest set if not given.
            features: D; needed only when every set is empty.
            first: number of the first set, for messages.

        Raises:
            DataError: no sets, different feature counts, a set larger than `max_size`, NaN or infinity.
        """
        if len(sets) == 0:
            raise DataError("Expected at least one set, got an empty list.")
        tensors = [as_set(item, f"set {index}") for index, item in enumerate(sets, first)]
        features = _common_features(tensors, features, first)
        size = max((len(item) for item in tensors), default=0) if max_size is None else max_size
        dtype = reduce(torch.promote_types, (item.dtype for item in tensors))
        elements = torch.zeros(len(tensors), size, features, dtype=dtype, device=tensors[0].device)
        mask = torch.zeros(len(tensors), size, dtype=torch.bool, device=elements.device)
        for index, item in enumerate(tensors):
            if len(item) > size:
                raise DataError(
                    f"set {first + index} has {len(item)} elements, but at most {size} are allowed. "
                    "Raise max_size, or leave the set out."
                )
            if len(item):
                elements[index, : len(item)] = item
                mask[index, : len(item)] = True
        return cls(elements, mask)

    def to_ragged(self) -> list[Float[Tensor, "_ d"]]:
        """Give the sets back as a list of (n_i, D) tensors, absent elements left out."""
        return [rows[mask] for rows, mask in zip(self.elements, self.mask, strict=True)]

    def with_presence(self) -> Float[Tensor, "b n c"]:
        """One tensor (B, N, D + 1) with presence, 1 or 0, as last feature: how input sets are written."""
        presence = self.mask.unsqueeze(-1).to(self.elements.dtype)
        return torch.cat([_zero_absent(self.elements, self.mask), presence], dim=-1)

    def packed(self) -> "SetBatch":
        """Zero absent rows and move them behind the present ones, order kept."""
        order = torch.argsort((~self.mask).to(torch.uint8), dim=1, stable=True)
        mask = self.mask.gather(1, order)
        elements = self.elements.gather(1, order.unsqueeze(-1).expand_as(self.elements))
        return SetBatch(_zero_absent(elements, mask), mask)

    def first(self, count: int) -> "SetBatch":
        """The first `count` sets."""
        return SetBatch(self.elements[:count], self.mask[:count])

    def to(self, device: torch.device | str) -> "SetBatch":
        """Move both tensors to `device`."""
        return SetBatch(self.elements.to(device), self.mask.to(device))

    @property
    def sizes(self) -> Int[Tensor, " b"]:
        """Number of present elements of each set, (B,)."""
        return self.mask.sum(dim=1)

    def __len__(self) -> int:
        return len(self.elements)

    @property
    def max_size(self) -> int:
        """N, the padded size."""
        return self.elements.shape[1]

    @property
    def features(self) -> int:
        """D, the features of one element."""
        return self.elements.shape[2]


def _common_features(tensors: Sequence[Tensor], features: int | None, first: int) -> int:
    for index, item in enumerate(tensors, first):
        if len(item) == 0:
            continue
        features = item.shape[1] if features is None else features
        if item.shape[1] != features:
            raise DataError(
                f"set {index} has {item.shape[1]} features an element, expected {features}. "
                "All elements of all sets must have the same features."
            )
    if features is None:
        raise DataError("All sets are empty, so the number of features is unknown. Pass features=D.")
    return features


def presence_mask(values: Float[Tensor, "*b n c"]) -> Bool[Tensor, "*b n"]:
    """Which rows of sets whose last feature is presence, 1 or 0, are elements."""
    return values[..., -1] > 0.5


def prefix_mask(sizes: Int[Tensor, " b"], max_size: int) -> Bool[Tensor, "b n"]:
    """The presence of sets whose elements are their first rows."""
    return torch.arange(max_size, device=sizes.device) < sizes.unsqueeze(1)


def present_feature_mask(values: Float[Tensor, "*b n c"]) -> Bool[Tensor, "*b n c"]:
    """What may change where presence is known: the features of present rows, but not presence itself."""
    rows = presence_mask(values).unsqueeze(-1)
    return torch.cat([rows.expand(*values.shape[:-1], values.shape[-1] - 1), torch.zeros_like(rows)], dim=-1)


# Fraction of the presence threshold below which a row is certainly absent.
CERTAINLY_ABSENT_FRACTION = 0.25


class SetRepresentation:
    """How a `SetBatch` is written as one tensor (B, N, C) in which absence is expressed by values.

    With a presence feature, a last one says whether an element is there: 1 present, 0 absent.
    Without it absent elements are zero vectors, and whatever is near zero is absent: the paper's
    Polygons and Digits.
    """

    def __init__(self, settings: RepresentationSettings) -> None:
        self.has_presence = settings.padding == "presence"
        default = 0.5 if self.has_presence else 0.015
        self.threshold = default if settings.threshold is None else settings.threshold
        self.presence_rule = settings.presence_rule

    def channels(self, features: int) -> int:
        """C for elements of D features: D + 1 with presence, else D."""
        return features + 1 if self.has_presence else features

    def to_tensor(self, sets: SetBatch) -> Float[Tensor, "b n c"]:
        """The elements as one tensor, with presence joined as last column where there is one."""
        return sets.with_presence() if self.has_presence else _zero_absent(sets.elements, sets.mask)

    def from_tensor(self, values: Float[Tensor, "b n c"]) -> SetBatch:
        """Read a tensor, typically a sampler's output, as sets; absent rows are zeroed.

        An element is present if its presence, which is dropped then, is above the threshold; without presence, by
        `RepresentationSettings.presence_rule`.
        """
        if self.has_presence:
            values, presence = values[..., :-1], values[..., -1] > self.threshold
        elif self.presence_rule == "all_above":
            presence = (values > self.threshold).all(dim=-1)
        else:
            presence = (values.abs() > self.threshold).any(dim=-1)
        return SetBatch(_zero_absent(values, presence), presence)

    def certainly_absent(self, values: Float[Tensor, "b n c"]) -> Bool[Tensor, "b n"]:
        """Which rows are absent by a margin, so that it does not matter which of them are matched with each other
        (`sample_restarts`).

        With presence: it is at most a quarter of the threshold. Without: all coordinates are within +-threshold.
        By the rule ``all_above`` a row with one small coordinate is absent, too, but is not counted here, as its
        mean with the rows it is matched with may be present.
        """
        if self.has_presence:
            return values[..., -1] <= CERTAINLY_ABSENT_FRACTION * self.threshold
        return (values.abs() <= self.threshold).all(dim=-1)


def _zero_absent(values: Tensor, presence: Tensor) -> Tensor:
    # Not a product: NaN times zero is NaN.
    return values.masked_fill(~presence.unsqueeze(-1), 0.0)
