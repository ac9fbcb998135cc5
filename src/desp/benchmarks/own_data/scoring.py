"""How all systems are scored: the same code, on the same tests, so that differences can be paired."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from desp.benchmarks.own_data.problem import Examples, Problem
from desp.distances import aligned_distance, chamfer, hungarian
from desp.metrics.sizes import right_size
from desp.predictor.scoring import distances_among, energy_scores
from desp.sets import SetBatch, presence_mask
from desp.tasks.calibration import calibration_scores

# Larger sets are compared by Chamfer's distance: assignments of 500 elements take too long.
MOST_ASSIGNED = 64
# Numbers of pairs of elements that are held at the same time.
VALUES_AT_ONCE = 2**22
# The first and the last decile of a normal distribution are so many standard deviations apart.
DECILES_APART = 2.563
CLEARLY = 2.0

Verdict = Literal["clearly better", "tie", "worse"]


@dataclass(frozen=True)
class Ruler:
    """Sets in standardised units, and the distance between them.

    Attributes:
        offset, scale: (D,) of each feature.
        size: N, that all sets are padded to.
        aligned: whether element i belongs to element i.
    """

    offset: Float[Tensor, " d"]
    scale: Float[Tensor, " d"]
    size: int
    aligned: bool

    @classmethod
    def of(cls, problem: Problem, sets: SetBatch) -> "Ruler":
        """Medians and deciles of the elements that systems are trained on; heavy tails and outliers would make
        a standard deviation so large that all else looks the same. One-hot columns stay as they are."""
        elements = sets.elements[sets.mask].double()
        low, middle, high = elements.quantile(torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64), dim=0)
        scale = (high - low) / DECILES_APART
        scale = torch.where(scale > 0, scale, elements.std(dim=0, correction=0))
        scale = torch.where(scale > 0, scale, 1.0)
        for first, end in problem.description.categories:
            middle[first:end], scale[first:end] = 0.0, 1.0
        return cls(middle.float(), scale.float(), problem.sizes[1], problem.description.aligned)

    @property
    def distance_name(self) -> str:
        """Which distance it is."""
        return "aligned" if self.aligned else "hungarian" if self.size <= MOST_ASSIGNED else "chamfer"

    def pad(self, sets: SetBatch) -> Float[Tensor, "b n c"]:
        """Sets as one tensor in standardised units, presence last; absent rows are zero."""
        packed = sets if self.aligned else sets.packed()
        values = SetBatch((packed.elements - self.offset) / self.scale, packed.mask).with_presence()
        return F.pad(values, (0, 0, 0, self.size - values.shape[1]))

    def distance(self, a: Float[Tensor, "b n c"], b: Float[Tensor, "b n c"]) -> Float[Tensor, " b"]:
        """Between padded sets, padding included."""
        between = _DISTANCES[self.distance_name]
        parts = max(1, VALUES_AT_ONCE // max(1, a.shape[1] ** 2 * a.shape[2]))
        return torch.cat([between(*pair) for pair in zip(a.split(parts), b.split(parts), strict=True)])

    def among(self, groups: Float[Tensor, "t m n c"]) -> Float[Tensor, "t m m"]:
        """Distances among the M sets of each group."""
        return distances_among(groups, self.distance)

    def medoids(self, groups: Float[Tensor, "t m n c"]) -> Int[Tensor, " t"]:
        """Which set of each group is the nearest to all others."""
        return self.among(groups).sqrt().sum(dim=2).argmin(dim=1)


def _aligned(a: Tensor, b: Tensor) -> Tensor:
    return aligned_distance(a[..., :-1], b[..., :-1], presence_mask(b))


_DISTANCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "aligned": _aligned,
    "hungarian": hungarian,
    "chamfer": chamfer,
}


@dataclass(frozen=True)
class Answers:
    """What a system predicts for T tests.

    Attributes:
        samples: K sets for the first test, K for the second, and so on.
        best: the single set that it would give for each.
        train_seconds: wall time of training.
        facts: more about how it was made, as JSON values.
    """

    samples: SetBatch
    best: SetBatch
    train_seconds: float = 0.0
    facts: dict[str, Any] | None = None


@dataclass(frozen=True)
class Scores:
    """Scores of a system; tensors have a number for each test.

    Attributes:
        energy: the energy score.
        best: the distance of the best single answer to the nearest valid set.
        numbers: what has no number for each test, as JSON values.
    """

    energy: Float[Tensor, " t"]
    best: Float[Tensor, " t"]
    numbers: dict[str, Any]

    def row(self, baseline: "Scores | None" = None) -> dict[str, Any]:
        """All of it as JSON values; with the paired differences to a baseline."""
        own: dict[str, Any] = _means(self.energy, self.best)
        if baseline is not None:
            own["minus_knn"] = _means(self.energy - baseline.energy, self.best - baseline.best)
        return own | self.numbers


def score(problem: Problem, ruler: Ruler, tests: Examples, answers: Answers, seed: int) -> Scores:
    """Score what a system predicted for the tests."""
    count = len(tests)
    truth, samples, best = (ruler.pad(item) for item in (tests.sets, answers.samples, answers.best))
    groups = torch.cat([truth.unsqueeze(1), samples.view(count, -1, *samples.shape[1:])], dim=1)
    distances = ruler.among(groups)
    predictions = distances.shape[1] - 1
    valid = [ruler.pad(item) for item in tests.answers] or [truth]
    nearest = torch.stack([ruler.distance(best, item) for item in valid]).amin(dim=0)
    each_truth = tests.sets.sizes.repeat_interleave(predictions)
    calibrated, _ = calibration_scores(distances, seed)
    numbers = {"right_size": right_size(answers.samples.sizes, each_truth), **calibrated}
    if problem.rule is not None:
        inputs = tests.inputs.repeat_interleave(predictions, dim=0)
        numbers["rule_error"] = float(problem.rule(inputs, answers.samples.packed()).median())
    numbers |= {"train_seconds": round(answers.train_seconds, 2), **(answers.facts or {})}
    return Scores(energy_scores(distances), nearest.clamp(min=0).sqrt(), numbers)


def _means(energy: Tensor, best: Tensor) -> dict[str, float]:
    return {**mean_and_error("energy_score", energy), **mean_and_error("best_error", best)}


def mean_and_error(name: str, values: Float[Tensor, " t"]) -> dict[str, float]:
    """The mean over tests, and its standard error."""
    values = values.double()
    return {name: float(values.mean()), f"{name}_se": float(values.std() / len(values) ** 0.5)}


def verdict(difference: float, error: float) -> Verdict:
    """What a paired difference of energy scores says: lower by two standard errors is clearly better."""
    if abs(difference) <= CLEARLY * error:
        return "tie"
    return "clearly better" if difference < 0 else "worse"
