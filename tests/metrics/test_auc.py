"""The area under the ROC curve, against all pairs."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from desp.metrics.auc import roc_auc


def brute_force(scores: Tensor, truth: Tensor) -> float:
    pairs = scores[truth].unsqueeze(1) - scores[~truth].unsqueeze(0)
    return float(((pairs > 0).double() + 0.5 * (pairs == 0)).mean())


@pytest.mark.parametrize("rounded", [False, True], ids=["distinct", "ties"])
def test_against_all_pairs(rounded: bool, generator: torch.Generator) -> None:
    scores = torch.randn(60, 7, generator=generator)
    scores = scores.round() if rounded else scores
    truth = torch.rand(60, 7, generator=generator) < torch.linspace(0.1, 0.9, 7)
    expected = [brute_force(scores[:, column], truth[:, column]) for column in range(7)]
    torch.testing.assert_close(roc_auc(scores, truth), torch.tensor(expected, dtype=torch.float64))


def test_limits() -> None:
    truth = torch.tensor([[False, True, True, False], [True, False, True, False]])
    scores = torch.tensor([[0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 2.0, 2.0]])
    found = roc_auc(scores, truth)
    assert found[:2].tolist() == [1.0, 0.0]
    assert found[2:].isnan().all()
    assert roc_auc(torch.zeros(4, 1), torch.tensor([[True], [False], [False], [True]])).tolist() == [0.5]


def test_order_does_not_matter(generator: torch.Generator, assert_invariant: Callable[..., None]) -> None:
    truth = torch.rand(1, 9, 1, generator=generator) < 0.5
    items = torch.cat([torch.randn(1, 9, 1, generator=generator), truth.float()], dim=2)
    assert_invariant(lambda sets: torch.stack([roc_auc(one[:, :1], one[:, 1:] > 0.5) for one in sets]), items)
