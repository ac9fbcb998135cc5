"""Scores against plain loops on tiny data."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from desp.comparison.examples import Examples
from desp.comparison.scoring import SystemPredictions, mean_and_error, score
from desp.comparison.set_distance import StandardisedDistance
from desp.comparison.words import verdict
from desp.sets import SetBatch
from desp.settings import DataDescription

Set = list[list[float]]


def plain_distance(size: int = 2, features: int = 2, *, aligned: bool = False) -> StandardisedDistance:
    return StandardisedDistance(torch.zeros(features), torch.ones(features), size, aligned)


def huber(a: list[float], b: list[float]) -> float:
    each = [abs(p - q) for p, q in zip(a, b, strict=True)]
    return sum(0.5 * x * x if x < 1 else x - 0.5 for x in each) / len(each)


def brute_force(a: Set, b: Set, size: int) -> float:
    """The root of the cheapest assignment of padded sets, presence as one more feature."""
    first, second = ([[*row, 1.0] for row in item] + [[0.0] * 3] * (size - len(item)) for item in (a, b))
    costs = (sum(map(huber, first, order)) for order in itertools.permutations(second))
    return math.sqrt(min(costs) / size)


TRUTH: list[Set] = [[[0.0, 1.0], [2.0, 0.0]], [[1.0, 1.0]], []]
SAMPLES: list[list[Set]] = [
    [[[0.1, 0.9], [2.0, 0.3]], [[0.5, 0.5]], [[2.0, 0.0], [0.0, 1.0]]],
    [[[1.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]], []],
    [[], [[3.0, -3.0]], []],
]
BEST = [group[0] for group in SAMPLES]


def batch(sets: list[Set]) -> SetBatch:
    return SetBatch.from_ragged(sets, 2, 2)


def tiny() -> tuple[Examples, SystemPredictions]:
    tests = Examples(torch.zeros(3, 1), batch(TRUTH))
    return tests, SystemPredictions(
        batch([item for group in SAMPLES for item in group]), batch(BEST), 2.0, {"steps": 7}
    )


def test_energy_and_best_by_brute_force() -> None:
    found = score(plain_distance(), *tiny(), seed=0)
    for index, (truth, samples) in enumerate(zip(TRUTH, SAMPLES, strict=True)):
        near = sum(brute_force(truth, item, 2) for item in samples) / 3
        apart = sum(brute_force(a, b, 2) for a, b in itertools.permutations(samples, 2)) / 6
        assert float(found.energy_score[index]) == pytest.approx(near - apart / 2, abs=1e-5)
        assert float(found.single[index]) == pytest.approx(brute_force(truth, BEST[index], 2), abs=1e-5)
    assert found.numbers["right_size"] == pytest.approx((2 + 1 + 2) / 9)
    assert (found.numbers["train_seconds"], found.numbers["steps"]) == (2.0, 7)


def test_differences_are_paired() -> None:
    tests, predicted = tiny()
    ours = score(plain_distance(), tests, predicted, seed=0)
    perfect = replace(predicted, samples=batch([item for item in TRUTH for _ in range(3)]), single=batch(TRUTH))
    other = score(plain_distance(), tests, perfect, seed=0)
    row = ours.row(other)
    each = ours.energy_score - other.energy_score
    assert row["minus_knn"]["energy_score"] == pytest.approx(float(each.mean()))
    assert row["minus_knn"]["energy_score_se"] == pytest.approx(float(each.std() / math.sqrt(3)))
    assert row["minus_knn"]["single_error"] == pytest.approx(float(ours.single.mean()))
    assert "minus_knn" not in other.row()
    assert float(other.energy_score.abs().max()) < 1e-6


def test_the_best_answer_may_be_any_valid_one() -> None:
    tests, predicted = tiny()
    several = replace(tests, valid_sets=(tests.sets, predicted.single))
    assert float(score(plain_distance(), several, predicted, seed=0).single.max()) == 0


def test_the_order_of_elements_does_not_matter_unless_aligned() -> None:
    set_distance, sets = plain_distance(), batch([[[0.0, 1.0], [2.0, 0.0]]])
    turned = SetBatch(sets.elements.flip(1), sets.mask)
    assert float(set_distance.between(set_distance.pad(sets), set_distance.pad(turned))) == pytest.approx(
        0.0, abs=1e-7
    )
    set_distance = plain_distance(aligned=True)
    expected = (huber([0, 1], [2, 0]) + huber([2, 0], [0, 1])) / 2
    assert float(set_distance.between(set_distance.pad(sets), set_distance.pad(turned))) == pytest.approx(expected)


def test_which_distance_is_taken() -> None:
    names = [
        plain_distance(2).distance_name,
        plain_distance(500).distance_name,
        plain_distance(aligned=True).distance_name,
    ]
    assert names == ["hungarian", "chamfer", "aligned"]


def test_units_are_medians_and_deciles() -> None:
    values = torch.arange(101.0)
    values[-1] = 1e9  # an outlier changes nothing
    elements = torch.stack([values, torch.full((101,), 3.0), (values > 50).float(), (values <= 50).float()], dim=1)
    sets = SetBatch(elements.unsqueeze(1), torch.ones(101, 1, dtype=torch.bool))
    set_distance = StandardisedDistance.of(sets, DataDescription(categories=((2, 4),)), 1)
    assert set_distance.offset.tolist() == [50.0, 3.0, 0.0, 0.0]
    assert set_distance.scale.tolist() == pytest.approx([80 / 2.563, 1.0, 1.0, 1.0])


def test_units_of_very_many_elements_and_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desp.comparison.set_distance.MOST_MEASURED", 100)
    sets = SetBatch(torch.arange(1001.0).view(1, 1001, 1), torch.ones(1, 1001, dtype=torch.bool))
    set_distance = StandardisedDistance.of(sets, DataDescription(), 1001)
    assert float(set_distance.offset) == pytest.approx(500, abs=6)
    empty = StandardisedDistance.of(
        SetBatch(torch.zeros(2, 3, 1), torch.zeros(2, 3, dtype=torch.bool)), DataDescription(), 3
    )
    assert (empty.offset.tolist(), empty.scale.tolist()) == ([0.0], [1.0])


def test_medoids() -> None:
    groups = torch.tensor([0.0, 1.0, 5.0, 0.9, 1.1]).view(1, 5, 1, 1).repeat(1, 1, 1, 2)
    assert plain_distance(1, 1).medoids(groups).tolist() == [1]


def test_a_rule_is_scored_where_there_is_one() -> None:
    tests, predicted = tiny()
    ruled = score(plain_distance(), tests, predicted, 0, lambda _, sets: sets.sizes.float())
    assert ruled.numbers["rule_error"] == 1.0
    assert "rule_error" not in score(plain_distance(), tests, predicted, seed=0).numbers


def test_a_mean_has_its_standard_error() -> None:
    found = mean_and_error("x", torch.tensor([1.0, 2.0, 3.0, 6.0]))
    assert found == {"x": 3.0, "x_se": pytest.approx(math.sqrt(14 / 3) / 2)}


@pytest.mark.parametrize(
    ("difference", "expected"), [(-0.21, "clearly better"), (-0.19, "tie"), (0.19, "tie"), (0.21, "clearly worse")]
)
def test_verdicts(difference: float, expected: str) -> None:
    assert verdict(difference, 0.1) == expected
