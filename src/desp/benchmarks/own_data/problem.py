"""What a problem of the own-data benchmark is: examples made from a seed, and what is known of their truth."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from desp.comparison.examples import Examples, chosen
from desp.comparison.scoring import Rule, SystemPredictions
from desp.comparison.set_distance import StandardisedDistance
from desp.randomness import make_generator
from desp.sets import SetBatch, presence_mask
from desp.settings import DataDescription, InputKind
from desp.storage import write_bytes


@dataclass(frozen=True)
class Problem:
    """Data that a user might have: a file of `count` examples, and fresh examples to score on.

    Attributes:
        name: what it is called on the command line and in records.
        summary: what is predicted from what, in a line.
        make: draws a number of examples.
        count: examples of the file.
        sizes: the smallest and the largest cardinality.
        features: of an element.
        valid: how many sets are valid for an input: one, a few that are all known, or a continuum.
        tests: fresh examples that systems are scored on.
        description: what the user says of the data.
        split: by inputs, or by examples where inputs repeat and all of them must be trained on.
        redraw: another valid set for each of the inputs (M, ...), drawn as theirs was; None: one of
            `Examples.valid_sets`.
        rule: a law that valid sets obey, where there is one, and `rule_limit` the most that they depart from it.
        held_out: never used to choose defaults; reported apart.
    """

    name: str
    summary: str
    make: Callable[[int, torch.Generator], Examples]
    count: int
    sizes: tuple[int, int]
    features: int
    valid: Literal["one", "few", "continuum"]
    tests: int = 300
    description: DataDescription = field(default_factory=DataDescription)
    split: Literal["inputs", "examples"] = "inputs"
    redraw: Callable[[Tensor, torch.Generator], SetBatch] | None = None
    rule: Rule | None = None
    rule_limit: float = 0.0
    held_out: bool = False

    def file_examples(self, seed: int) -> Examples:
        """What the user has."""
        return self.make(self.count, make_generator(seed, "own-data", self.name, "file"))

    def test_examples(self, seed: int) -> Examples:
        """Fresh examples, of the same distribution."""
        return self.make(self.tests, make_generator(seed, "own-data", self.name, "tests"))

    def oracle(
        self, set_distance: StandardisedDistance, tests: Examples, samples: int, seed: int
    ) -> SystemPredictions:
        """K sets for each test from the distribution that its own was drawn from, and their medoid. By a proper
        score no system would be better, but by chance; the energy score is nearly proper, see
        `energy_scores_from_distances`."""
        generator, count = make_generator(seed, "own-data", self.name, "oracle"), len(tests)
        repeated = tests.part(torch.arange(count).repeat_interleave(samples))
        if self.redraw is None:
            drawn = chosen(whole(generator, 0, len(tests.valid_sets) - 1, len(repeated)), repeated.valid_sets)
        else:
            drawn = self.redraw(repeated.inputs, generator)
        padded = set_distance.pad(drawn)
        medoids = set_distance.medoids(padded.view(count, samples, *padded.shape[1:]))
        places = medoids + samples * torch.arange(count)
        return SystemPredictions(drawn, SetBatch(drawn.elements[places], drawn.mask[places]))

    def input_kind(self, examples: Examples) -> InputKind:
        """What inputs are, as the library reads them."""
        by_shape: InputKind = "image" if examples.inputs.dim() == 4 else "vector"
        return "set" if self.description.aligned else self.description.input_kind or by_shape


def write_file(examples: Examples, kind: InputKind, path: Path) -> None:
    """Write examples as the npz file that a user would have."""
    inputs = examples.inputs
    arrays = {
        "inputs": (inputs[..., :-1] if kind == "set" else inputs).numpy(),
        "sets": examples.sets.elements.numpy(),
        "presence": examples.sets.mask.numpy(),
    }
    if kind == "set":
        arrays["input_presence"] = presence_mask(inputs).numpy()

    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    write_bytes(path, content.getvalue())


# -- what makers share ---------------------------------------------------------------------------------------


def uniform(generator: torch.Generator, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Uniform numbers."""
    return low + (high - low) * torch.rand(shape, generator=generator)


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(shape, generator=generator)


def whole(generator: torch.Generator, low: int, high: int, *shape: int) -> Int[Tensor, "..."]:
    """Whole numbers from `low` to `high`, both included."""
    return torch.randint(low, high + 1, shape, generator=generator)


def first_rows(sizes: Int[Tensor, " m"], rows: int) -> Bool[Tensor, "m n"]:
    """A mask of the first rows of each set, as many as its size."""
    return torch.arange(rows) < sizes.unsqueeze(1)


def as_sets(elements: Float[Tensor, "m n d"], mask: Bool[Tensor, "m n"]) -> SetBatch:
    """Sets whose absent rows are zero and stand last."""
    return SetBatch(elements, mask).packed()
