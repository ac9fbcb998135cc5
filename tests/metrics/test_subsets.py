"""Scores of predicted subsets, against plain loops and by hand."""

import pytest
import torch
from torch import Tensor

from desp.data.subsets import candidate_subsets
from desp.metrics.subsets import SUBSET_METRICS, subset_scores
from desp.randomness import make_generator


def made_up(seed: int, sets: int = 30, samples: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Predictions, some of which are right, and answers."""
    generator = make_generator(seed)
    candidates = candidate_subsets(5)
    valid = torch.rand(sets, len(candidates), generator=generator) < 0.2
    valid[:, 0] |= ~valid.any(dim=1)
    predicted = torch.rand(sets, samples, 5, generator=generator) < 0.7
    return predicted, candidates, valid


def plainly(predicted: Tensor, candidates: Tensor, valid: Tensor) -> dict[str, float]:
    precisions, recalls, each, jaccards = [], [], [], []
    for samples, row in zip(predicted.tolist(), valid, strict=True):
        answers = [tuple(item) for item in candidates[row].tolist()]
        found = [tuple(item) for item in samples]
        precision = sum(item in answers for item in found) / len(found)
        recall = sum(item in found for item in answers) / len(answers)
        precisions.append(precision)
        recalls.append(recall)
        each.append(0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall))
        best = 0.0
        for one in found:
            for other in answers:
                a = {i for i, inside in enumerate(one) if not inside}
                b = {i for i, inside in enumerate(other) if not inside}
                best = max(best, len(a & b) / len(a | b) if a | b else 1.0)
        jaccards.append(best)
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / (precision + recall),
        "f1_per_example": sum(each) / len(each),
        "jaccard_best_of_k": sum(jaccards) / len(jaccards),
    }


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_scores_are_those_of_plain_loops(seed: int) -> None:
    arguments = made_up(seed)
    found, expected = subset_scores(*arguments), plainly(*arguments)
    assert found == pytest.approx(expected)
    assert 0 < found["f1_per_example"] != found["f1"]
    assert list(found) == [metric.name for metric in SUBSET_METRICS]


def test_a_worked_example() -> None:
    """Two valid answers; of four predictions two are the first of them, one is none, and one is no candidate."""
    candidates = candidate_subsets(5)
    answers = torch.tensor([[1, 1, 1, 0, 0], [1, 0, 0, 1, 1]]).bool()
    valid = (candidates.unsqueeze(1) == answers).all(dim=2).any(dim=1).unsqueeze(0)
    predicted = torch.tensor([[[1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]]]).bool()
    found = subset_scores(predicted, candidates, valid)
    assert (found["precision"], found["recall"]) == (0.5, 0.5)
    assert found["f1"] == found["f1_per_example"] == 0.5
    assert found["jaccard_best_of_k"] == 1


def test_all_right_and_all_wrong() -> None:
    candidates = candidate_subsets(5)
    valid = torch.zeros(3, 16, dtype=torch.bool)
    valid[:, 0] = True  # nothing is an outlier
    right, wrong = torch.ones(3, 2, 5, dtype=torch.bool), torch.zeros(3, 2, 5, dtype=torch.bool)
    assert set(subset_scores(right, candidates, valid).values()) == {1.0}
    assert set(subset_scores(wrong, candidates, valid).values()) == {0.0}


def test_the_order_of_predictions_and_of_elements_does_not_matter() -> None:
    predicted, candidates, valid = made_up(4)
    expected = subset_scores(predicted, candidates, valid)
    assert subset_scores(predicted.flip(1), candidates, valid) == pytest.approx(expected)
    order = [2, 4, 0, 1, 3]
    assert subset_scores(predicted[..., order], candidates[:, order], valid) == pytest.approx(expected)
