"""Measures of spread, for predictors whose distribution is known."""

import itertools
import statistics
from typing import Any

import pytest
import torch
from torch import Tensor

from desp.data.base import Batch
from desp.errors import SettingsError
from desp.predictor import DataShape, SetPredictor
from desp.predictor.energy_score import energy_scores_from_distances
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.settings import ContrastiveSettings, RepresentationSettings
from desp.tasks.calibration import calibration_scores, distribution_scores
from desp.tasks.scoring import FULL, EvaluationSetup


class Known(SetPredictor):
    """Predicts one point, normal around the input with a chosen deviation."""

    def __init__(self, deviation: float) -> None:
        zero = RepresentationSettings(padding="zero", threshold=0.0, presence_rule="any_beyond", scaling="none")
        super().__init__(ContrastiveSettings(), zero)
        self.deviation = deviation
        self.build(DataShape((1,), features=1, max_size=1))

    def encode(self, x: Tensor) -> Tensor:
        return x

    def sample(  # type: ignore[override]
        self, code: Tensor, generator: torch.Generator, samples: int = 1, **_: Any
    ) -> tuple[Tensor, None]:
        return _normal(code.repeat_interleave(samples, dim=0), self.deviation, generator), None


def _normal(x: Tensor, deviation: float, generator: torch.Generator) -> Tensor:
    return x.unsqueeze(1) + deviation * torch.randn(len(x), 1, 1, generator=generator)


def truth(count: int) -> tuple[Tensor, SetBatch]:
    generator = torch.Generator().manual_seed(3)
    x = 0.5 + torch.rand(count, 1, generator=generator)
    return x, SetBatch(_normal(x, 0.1, generator), torch.ones(count, 1, dtype=torch.bool))


def distances_of(predictor: SetPredictor, examples: Batch, seed: int, samples: int = 9) -> Tensor:
    return EvaluationSetup(predictor, seed, samples, FULL).distances(examples, samples)


def test_the_true_distribution_has_the_lowest_energy_score() -> None:
    x, sets = truth(2000)
    scores = {
        value: float(energy_scores_from_distances(distances_of(Known(value), Batch(x, sets), 0)).mean())
        for value in (1e-6, 0.05, 0.1, 0.2, 0.4)
    }
    assert min(scores, key=lambda value: scores[value]) == 0.1


def test_an_energy_score_by_hand() -> None:
    x, sets = truth(4)
    predictor, samples = Known(0.1), 3
    generator = make_generator(5, "calibration")
    drawn = predictor.sample(x.repeat_interleave(samples, dim=0), generator)[0].view(4, samples)
    scores = []
    for own, some in zip(sets.elements.flatten(), drawn, strict=True):
        pairs = [abs(float(a - b)) for a, b in itertools.combinations(some, 2)]
        scores.append(statistics.fmean(abs(float(a - own)) for a in some) - statistics.fmean(pairs) / 2)
    # Chamfer's distance of two points is twice half their squared difference.
    found = energy_scores_from_distances(distances_of(predictor, Batch(x, sets), 5, samples))
    assert float(found.mean()) == pytest.approx(statistics.fmean(scores), rel=1e-4)


def test_an_energy_score_needs_two_predictions() -> None:
    with pytest.raises(SettingsError, match="at least 2"):
        energy_scores_from_distances(distances_of(Known(0.1), Batch(*truth(3)), 0, samples=1))


@pytest.mark.parametrize(("deviation", "calibrated"), [(0.1, True), (0.01, False), (0.5, False)])
def test_calibration_tells_wrong_spreads(deviation: float, calibrated: bool) -> None:
    x, sets = truth(500)
    scores, details = calibration_scores(distances_of(Known(deviation), Batch(x, sets), 0), 0)
    assert (details["p_value"] > 0.01) == calibrated
    assert (scores["calibration_error"] < 0.06) == calibrated
    assert sum(details["histogram"]) == pytest.approx(1.0)
    assert (details["inputs"], details["samples"]) == (500, 9)


def test_equal_distances_are_ranked_by_the_seed() -> None:
    x, sets = truth(60)
    exact = SetBatch(x.unsqueeze(1), sets.mask)
    distances = distances_of(Known(0.0), Batch(x, exact), 0)
    first, again, other = (calibration_scores(distances, seed)[1] for seed in (0, 0, 1))
    assert first == again
    assert first["histogram"] != other["histogram"]


def test_distribution_scores_are_means_over_inputs() -> None:
    _, first = truth(60)
    shifted = SetBatch(first.elements + 5, first.mask)
    means, details = distribution_scores({"a": first, "b": first}, {"a": first, "b": shifted})
    assert means["nearest_neighbour_accuracy"] == pytest.approx(0.5)  # copies are never told apart, shifts always
    assert details["b"]["nearest_neighbour_accuracy"] == 1.0
    assert (details["sets"], details["distance"]) == (60, "chamfer")


def test_the_fewest_predicted_sets_are_told() -> None:
    _, first = truth(60)
    _, details = distribution_scores({"a": first, "b": first}, {"a": first.first(50), "b": first.first(40)})
    assert details["sets"] == 40


def test_distances_do_not_share_names() -> None:
    _, first = truth(20)
    shifted = SetBatch(first.elements + 5, first.mask)
    means, details = distribution_scores({"a": first}, {"a": shifted}, "hungarian")
    assert means["nearest_neighbour_accuracy_hungarian"] == 1.0
    assert "nearest_neighbour_accuracy" not in means
    assert details["distance"] == "hungarian"
