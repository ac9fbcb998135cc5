"""The scores of a model and of baselines, by the same code on the same tests, so that differences are paired."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from desp.comparison.examples import Examples
from desp.comparison.set_distance import StandardisedDistance
from desp.metrics.sizes import right_size
from desp.predictor.energy_score import energy_scores_from_distances
from desp.sets import SetBatch
from desp.tasks.calibration import calibration_scores

Rule = Callable[[Tensor, SetBatch], Float[Tensor, " m"]]
"""From inputs and sets to how far each set is from a rule that all valid sets of its input obey; 0: it obeys."""


@dataclass(frozen=True)
class SystemPredictions:
    """Predictions of a system, the model or a baseline, for T tests.

    Attributes:
        samples: K sets for the first test, K for the second, and so on.
        single: the system's single answer for each test, chosen without the truth.
        train_seconds: wall time of training.
        facts: more about how the predictions were made, as JSON values.
    """

    samples: SetBatch
    single: SetBatch
    train_seconds: float = 0.0
    facts: dict[str, Any] | None = None


@dataclass(frozen=True)
class Scores:
    """Scores of a system; tensors have a number for each test.

    Attributes:
        energy_score: of the samples.
        single: the distance of the single answer to the nearest valid set; `single_error` in files.
        numbers: scores over all tests together, as JSON values.
        spread: the mean distance of the samples to each other.
    """

    energy_score: Float[Tensor, " t"]
    single: Float[Tensor, " t"]
    numbers: dict[str, Any]
    spread: Float[Tensor, " t"]

    def row(self, baseline: "Scores | None" = None) -> dict[str, Any]:
        """All scores as JSON values; `minus_knn` are the paired differences to a baseline, if one is given."""
        own: dict[str, Any] = _means(self.energy_score, self.single)
        if baseline is not None:
            own["minus_knn"] = _means(self.energy_score - baseline.energy_score, self.single - baseline.single)
        return own | self.numbers


def score(
    set_distance: StandardisedDistance,
    tests: Examples,
    predicted: SystemPredictions,
    seed: int,
    rule: Rule | None = None,
) -> Scores:
    """Score a system's predictions for the tests; if there is a `rule`, also by how far they are from it."""
    count = len(tests)
    truth, samples, single = map(set_distance.pad, (tests.sets, predicted.samples, predicted.single))
    groups = torch.cat([truth.unsqueeze(1), samples.view(count, -1, *samples.shape[1:])], dim=1)
    distances = set_distance.pairwise(groups)
    predictions = distances.shape[1] - 1
    valid = [set_distance.pad(item) for item in tests.valid_sets] or [truth]
    nearest = torch.stack([set_distance.between(single, item) for item in valid]).amin(dim=0)
    each_truth = tests.sets.sizes.repeat_interleave(predictions)
    calibrated, _ = calibration_scores(distances, seed)
    numbers = {"right_size": right_size(predicted.samples.sizes, each_truth), **calibrated}
    if rule is not None:
        inputs = tests.inputs.repeat_interleave(predictions, dim=0)
        numbers["rule_error"] = float(rule(inputs, predicted.samples.packed()).median())
    numbers |= {"train_seconds": round(predicted.train_seconds, 2), **(predicted.facts or {})}
    apart = distances[:, 1:, 1:].clamp(min=0).sqrt().sum(dim=(1, 2)) / (predictions * max(1, predictions - 1))
    return Scores(energy_scores_from_distances(distances), nearest.clamp(min=0).sqrt(), numbers, apart)


def _means(energy_score: Tensor, single: Tensor) -> dict[str, float]:
    return {**mean_and_error("energy_score", energy_score), **mean_and_error("single_error", single)}


def mean_and_error(name: str, values: Float[Tensor, " t"]) -> dict[str, float]:
    """The mean over tests, and its standard error."""
    values = values.double()
    return {name: float(values.mean()), f"{name}_se": float(values.std() / len(values) ** 0.5)}
