"""Inputs with their sets, as tensors: what systems are compared on."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from desp.sets import SetBatch


@dataclass(frozen=True)
class Examples:
    """M inputs, each with a set.

    Attributes:
        inputs: (M, ...); sets are padded, (M, N, D + 1), with presence as last feature.
        sets: one of the valid sets of each input.
        valid_sets: all valid sets, if known: the first valid sets of all inputs, the second ones, and so on.
    """

    inputs: Tensor
    sets: SetBatch
    valid_sets: tuple[SetBatch, ...] = ()

    def __len__(self) -> int:
        return len(self.sets)

    def part(self, places: Int[Tensor, " p"]) -> "Examples":
        """The examples at these places."""
        return Examples(
            self.inputs[places], _part(self.sets, places), tuple(_part(item, places) for item in self.valid_sets)
        )


def _part(sets: SetBatch, places: Tensor) -> SetBatch:
    return SetBatch(sets.elements[places], sets.mask[places])


def chosen(which: Int[Tensor, " m"], options: tuple[SetBatch, ...]) -> SetBatch:
    """For each example its set in the option number `which`."""
    elements, masks = (torch.stack([getattr(item, name) for item in options]) for name in ("elements", "mask"))
    examples = torch.arange(len(which))
    return SetBatch(elements[which, examples], masks[which, examples])
