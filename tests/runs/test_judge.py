"""The verdict on predictions of which it is known how good they are."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from desp import EnergyDenoisingSettings, PooledLayersSettings, SetPredictor, TrainingSettings
from desp.runs import judge
from desp.runs.judge import Comparison, compare, verdict_of
from desp.runs.shown import chosen_cases
from desp.sets import SetBatch
from desp.settings import DataDescription
from desp.tasks.scoring import QUICK, EvaluationSetup, Predicted

Pairs = list[tuple[Tensor, Tensor]]
SAMPLES = 4


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "MLP_STEPS", 100)
    monkeypatch.setattr(judge, "MLP_SECONDS", torch.inf)


def made(count: int, seed: int) -> Pairs:
    """From a vector to one or two elements: its sum as an amount, of a kind that its sign decides."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for index in range(count):
        x = torch.randn(2, generator=generator)
        size = 1 + index % 2
        amounts = (100 * x.sum() + 50 * torch.arange(size)).unsqueeze(1)
        kind = torch.tensor([[1.0, 0.0] if float(x[0]) > 0 else [0.0, 1.0]]).expand(size, -1)
        found.append((x, torch.cat([amounts, kind], dim=1)))
    return found


@pytest.fixture(scope="module")
def predictor() -> SetPredictor:
    method = EnergyDenoisingSettings(energy=PooledLayersSettings(hidden=8))
    predictor = SetPredictor(method, device="cpu")
    described = DataDescription(categories=((1, 3),), feature_columns=("amount", "kind=a", "kind=b"))
    predictor.fit(made(60, 1), TrainingSettings(steps=1, batch_size=8), description=described)
    return predictor


def predicted(predictor: SetPredictor, tests: Pairs, change: Callable[[Tensor, int], Tensor]) -> Predicted:
    """What `change` makes of the truth, for each of K predictions."""
    sets = [change(y, place) for _, y in tests for place in range(SAMPLES)]
    returned = SetBatch.from_ragged(sets, predictor.shape.max_size, predictor.shape.features)
    return Predicted(
        predictor.encode(torch.stack([x for x, _ in tests])), predictor.sets_to_tensor(returned), returned
    )


def compared(predictor: SetPredictor, change: Callable[[Tensor, int], Tensor], count: int = 20) -> Any:
    tests = made(count, 2)
    setup = EvaluationSetup(predictor, 0, SAMPLES, QUICK)
    examples = [(x, (y,)) for x, y in tests]
    return compare(setup, predicted(predictor, tests, change), examples, (made(60, 1), made(10, 3)))


def moved(by: float) -> Callable[[Tensor, int], Tensor]:
    """Amounts off by so much, up and down in turn."""
    return lambda y, place: y + torch.tensor([by * (-1) ** place, 0.0, 0.0])


def test_the_truth_is_clearly_better_than_all_baselines(predictor: SetPredictor) -> None:
    found = compared(predictor, moved(0.0))
    assert isinstance(found, Comparison)
    systems = found.values["systems"]
    assert list(systems) == ["desp", "knn", "random", "mlp"]  # predictions agree: one answer is right
    assert [systems[name]["verdict"] for name in ("knn", "random", "mlp")] == ["clearly better"] * 3
    assert systems["desp"]["energy_score"] == pytest.approx(0.0, abs=1e-5)
    assert systems["desp"]["right_size"] == 1
    assert systems["mlp"]["steps"] == 100
    assert [item["mean"] for item in systems["desp"]["feature_errors"]] == pytest.approx([0.0, 0.0])
    assert systems["random"]["feature_errors"][0]["mean"] > 20
    assert found.values["sizes"]["counts"] == [[10 * SAMPLES, 0], [0, 10 * SAMPLES]]
    words = verdict_of(found, None, "")["sentence"]
    assert words.startswith("Clearly better than nearest neighbours (energy score ")
    assert words.endswith("; sizes right in 100%.")


def test_differences_are_paired_with_those_of_the_same_tests(predictor: SetPredictor) -> None:
    found = compared(predictor, moved(20.0))
    systems, own = found.values["systems"], found.values["systems"]["desp"]
    for name in ("knn", "random"):
        difference = own["energy_score"] - systems[name]["energy_score"]
        assert systems[name]["difference"] == pytest.approx(difference, abs=1e-6)
        # Of differences of the same tests: both scores share what is hard about a test.
        unpaired = math.hypot(own["energy_score_se"], systems[name]["energy_score_se"])
        assert 0 < systems[name]["difference_se"] != pytest.approx(unpaired, rel=1e-5)
    assert own["feature_errors"][0]["mean"] == pytest.approx(20.0, rel=1e-3)
    assert "verdict" not in own


def test_predictions_far_from_each_other_need_no_mlp(predictor: SetPredictor) -> None:
    found = compared(predictor, moved(400.0))
    assert found.values["one_answer"] is False
    assert list(found.values["systems"]) == ["desp", "knn", "random"]
    assert found.values["systems"]["knn"]["verdict"] == "clearly worse"


def test_too_few_tests_or_predictions_are_not_compared(predictor: SetPredictor) -> None:
    assert "at least 5 held-out examples; there are 4." in compared(predictor, moved(0.0), count=4)
    setup = EvaluationSetup(predictor, 0, 1, QUICK)
    reason = compare(setup, predicted(predictor, made(9, 2), moved(0.0)), [], (made(9, 1), []))
    assert "--samples 2 or more" in reason
    assert verdict_of(reason, None, "")["sentence"] == ""


def test_several_valid_answers_are_all_right(predictor: SetPredictor) -> None:
    tests = made(20, 2)
    other = [y + torch.tensor([500.0, 0.0, 0.0]) for _, y in tests]
    examples = [(x, (y, another)) for (x, y), another in zip(tests, other, strict=True)]
    setup = EvaluationSetup(predictor, 0, SAMPLES, QUICK)
    found = compare(setup, predicted(predictor, tests, moved(0.0)), examples, (made(60, 1), made(10, 3)))
    assert isinstance(found, Comparison)
    own = found.values["systems"]["desp"]
    assert own["single_error"] == pytest.approx(0.0, abs=1e-5)
    assert own["feature_errors"][0]["mean"] == pytest.approx(0.0, abs=1e-3)
    assert not found.values["one_answer"]


def test_the_best_answer_of_boxes_is_what_samples_agree_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of four samples have both boxes, each off by as much in another corner: their medians are right."""
    generator = torch.Generator().manual_seed(0)

    def pairs(count: int) -> Pairs:
        corners = torch.rand(count, 2, generator=generator) * 10
        lower = torch.cat([corners, corners + 10], dim=1)
        return [(x, torch.stack([y, y + 40])) for x, y in zip(corners, lower, strict=True)]

    predictor = SetPredictor(EnergyDenoisingSettings(energy=PooledLayersSettings(hidden=8)), device="cpu")
    described = DataDescription(boxes=((0, 4),))
    predictor.fit(pairs(30), TrainingSettings(steps=1, batch_size=8), description=described)
    monkeypatch.setattr(predictor.method, "modal_cardinality", lambda code: torch.full((len(code),), 2))
    tests = pairs(10)
    made_up = predicted(predictor, tests, lambda y, place: y[:1] if place == 3 else y + torch.eye(4)[place])
    setup = EvaluationSetup(predictor, 0, SAMPLES, QUICK)
    found = compare(setup, made_up, [(x, (y,)) for x, y in tests], (pairs(30), pairs(9)))
    assert isinstance(found, Comparison)
    assert found.values["systems"]["desp"]["single_error"] == pytest.approx(0.0, abs=1e-5)


def test_the_ranking_names_the_examples(predictor: SetPredictor) -> None:
    def worse(y: Tensor, place: int) -> Tensor:
        del place
        return y + torch.tensor([1000.0, 0.0, 0.0]) if torch.equal(y, made(20, 2)[7][1]) else y

    found = compared(predictor, worse)
    assert max(found.ranking)[1] == 7


def test_the_spread_and_training_are_part_of_the_sentence() -> None:
    ranks = {"histogram": [0.6 / 5] * 5 + [0.4 / 5] * 5, "inputs": 200, "p_value": 0.2}
    found = verdict_of("not compared", ranks, "still improving when it stopped")
    assert found["sentence"] == "Predictions are slightly too wide; still improving when it stopped."
    assert found["spread"] == "predictions are slightly too wide"


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, [("best", 0)]),
        (2, [("best", 0), ("worst", 1)]),
        (3, [("best", 0), ("median", 1), ("worst", 2)]),
        (9, [("best", 0), ("best", 1), ("median", 3), ("median", 4), ("worst", 7), ("worst", 8)]),
    ],
)
def test_cases_are_best_median_and_worst_and_none_twice(count: int, expected: list[tuple[str, int]]) -> None:
    ranking = [(float(place), place) for place in reversed(range(count))]
    assert [(group, place) for group, _, place in chosen_cases(ranking)] == expected


def test_aligned_examples_of_rare_sizes_are_not_compared() -> None:
    """A set of another size than the input can be no answer, so neighbours must have the same size."""

    def aligned(count: int) -> Pairs:
        generator = torch.Generator().manual_seed(count)
        elements = [torch.rand(2 + index % 20, 2, generator=generator) for index in range(count)]
        padded = SetBatch.from_ragged(elements, 21, 2).with_presence()
        return [(x, some[:, :1]) for x, some in zip(padded, elements, strict=True)]

    predictor = SetPredictor(EnergyDenoisingSettings(energy=PooledLayersSettings(hidden=8)), device="cpu")
    described = DataDescription(aligned=True, input_kind="set")
    predictor.fit(aligned(60), TrainingSettings(steps=1, batch_size=8), description=described)
    tests = aligned(20)
    setup = EvaluationSetup(predictor, 0, SAMPLES, QUICK)
    done = predicted(predictor, tests, lambda y, _: y)
    reason = compare(setup, done, [(x, (y,)) for x, y in tests], (aligned(60), []))
    assert "have as many elements: 0 of 20 count." in reason
