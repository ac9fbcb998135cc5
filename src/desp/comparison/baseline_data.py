"""The examples that baselines learn from: at most as many as they can read quickly."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from desp.comparison.examples import Examples
from desp.comparison.set_distance import StandardisedDistance
from desp.data.shape import DataShape
from desp.data.splitting import group_by_input
from desp.randomness import make_generator
from desp.sets import SetBatch, presence_mask
from desp.settings import InputKind

# The most examples that baselines use, and the most numbers in their inputs or sets.
MOST_EXAMPLES, MOST_NUMBERS = 10_000, 2**26
# The distance of two sets takes about this many operations for each pair of numbers.
OPERATIONS_PER_PAIR = 8
# With at least this many repeated inputs, their sets decide whether one answer is right.
FEWEST_REPEATS = 10


@dataclass(frozen=True)
class BaselineData:
    """Examples that were not held out for scoring.

    Attributes:
        training: to learn from.
        validation: to choose by; the training examples where there are no others.
        all: both.
        kind: of inputs.
    """

    training: Examples
    validation: Examples
    all: Examples
    kind: InputKind

    @classmethod
    def read(cls, training: Any, validation: Any, shape: DataShape, seed: int) -> "BaselineData":
        """All pairs of both datasets, or a random part of each where there are more than `most_examples`."""
        most = most_examples(shape)
        share = min(1.0, most / max(1, len(training) + len(validation)))
        parts = [
            _some(part, max(1, round(share * len(part))), make_generator(seed, "known examples", name))
            for name, part in (("training", training), ("validation", validation))
        ]
        learned = read_pairs(parts[0], shape)
        if not parts[1]:
            return cls(learned, learned, learned, shape.input_kind)
        together = read_pairs([*parts[0], *parts[1]], shape)
        return cls(learned, read_pairs(parts[1], shape), together, shape.input_kind)


def most_examples(shape: DataShape) -> int:
    """The most examples that baselines use: fewer where inputs or sets are large."""
    of_input = torch.Size(shape.input_shape).numel()
    if shape.input_kind == "set":
        of_input *= OPERATIONS_PER_PAIR * shape.input_shape[0]
    numbers = max(1, of_input, shape.max_size * shape.features)
    return max(100, min(MOST_EXAMPLES, MOST_NUMBERS // numbers))


def _some(pairs: Any, count: int, generator: torch.Generator) -> list[tuple[Tensor, Tensor]]:
    places: Sequence[int] = range(len(pairs))
    if count < len(pairs):
        places = torch.randperm(len(pairs), generator=generator)[:count].sort().values.tolist()
    return [pairs[place] for place in places]


def read_pairs(pairs: Sequence[tuple[Tensor, Tensor]], shape: DataShape) -> Examples:
    """Pairs as tensors. In sets and input sets, elements come before padding, so that where outputs are aligned
    row i of a set belongs to row i of its input."""
    inputs = torch.stack([x for x, _ in pairs])
    if shape.input_kind == "set":
        inputs = SetBatch(inputs[..., :-1], presence_mask(inputs)).packed().with_presence()
    sets = SetBatch.from_ragged([y for _, y in pairs], shape.max_size, shape.features)
    return Examples(inputs, SetBatch(sets.elements.float(), sets.mask))


def repeats_agree(set_distance: StandardisedDistance, data: BaselineData, limit: float) -> bool | None:
    """Whether sets of equal inputs are nearer to each other than `limit` on average; None where too few inputs are
    repeated."""
    groups = group_by_input(data.all.inputs, data.kind, ordered=set_distance.aligned)
    pairs = [(group, place) for place, group in enumerate(groups) if group != place]
    if len(pairs) < FEWEST_REPEATS:
        return None
    first, second = (
        set_distance.pad(data.all.part(torch.tensor(places)).sets) for places in zip(*pairs, strict=True)
    )
    return float(set_distance.between(first, second).clamp(min=0).sqrt().mean()) < limit
