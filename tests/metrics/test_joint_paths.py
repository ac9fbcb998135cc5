"""Scores of joint paths: closed forms, and a plain computation of each."""

import math

import pytest
import torch
from torch import Tensor

from desp.metrics.joint_paths import COLLISION, PATH_METRICS, colliding, path_energy_scores, path_scores


@pytest.fixture
def example() -> tuple[Tensor, Tensor, Tensor]:
    """Predictions (B, K, N, T, 2), truth and who is there; more windows than are scored at once."""
    generator = torch.Generator().manual_seed(0)
    predicted = torch.randn(18, 4, 3, 5, 2, generator=generator)
    mask = torch.rand(18, 3, generator=generator) < 0.7
    mask[:, 0] = True
    return predicted, torch.randn(18, 3, 5, 2, generator=generator), mask


def test_against_a_plain_computation(example: tuple[Tensor, Tensor, Tensor]) -> None:
    predicted, truth, mask = example
    best, last, each = [], [], []
    for window in range(len(mask)):
        people = mask[window].nonzero().flatten().tolist()
        errors = [
            [math.dist(predicted[window, k, n, t], truth[window, n, t]) for n in people for t in range(5)]
            for k in range(4)
        ]
        best.append(min(sum(row) / len(row) for row in errors))
        ends = [[math.dist(predicted[window, k, n, 4], truth[window, n, 4]) for n in people] for k in range(4)]
        last.append(min(sum(row) / len(row) for row in ends))
        each.append(sum(min(row[n] for row in ends) for n in range(len(people))) / len(people))
    scores = path_scores(*example)
    assert scores.keys() == {metric.name for metric in PATH_METRICS}
    assert scores["joint_ade"] == pytest.approx(sum(best) / len(best), rel=1e-5)
    assert scores["joint_fde"] == pytest.approx(sum(last) / len(last), rel=1e-5)
    assert scores["fde_of_each"] == pytest.approx(sum(each) / len(each), rel=1e-5)
    assert scores["ade_of_each"] <= scores["joint_ade"] <= scores["ade"]


def test_the_energy_score_against_all_pairs(example: tuple[Tensor, Tensor, Tensor]) -> None:
    predicted, truth, mask = example

    def apart(a: Tensor, b: Tensor, window: int) -> float:
        return float((a - b)[mask[window]].norm(dim=-1).mean())

    for window, found in enumerate(path_energy_scores(predicted, truth, mask).tolist()):
        rows = predicted[window]
        near = sum(apart(row, truth[window], window) for row in rows) / 4
        pairs = [apart(rows[a], rows[b], window) for a in range(4) for b in range(4) if a != b]
        assert found == pytest.approx(near - sum(pairs) / len(pairs) / 2, rel=1e-4)


def test_limits(example: tuple[Tensor, Tensor, Tensor]) -> None:
    _, truth, mask = example
    exact = path_scores(truth.unsqueeze(1), truth, mask)
    assert all(exact[name] == 0 for name in exact if name != "collisions")
    shifted = path_scores(truth.unsqueeze(1) + torch.tensor([3.0, 4.0]), truth, mask)
    assert shifted["joint_ade"] == shifted["fde"] == pytest.approx(5)
    assert shifted["energy_score"] == pytest.approx(5)  # one prediction has no other
    assert shifted["collisions"] == pytest.approx(exact["collisions"])


def test_the_true_distribution_has_the_best_energy_score() -> None:
    generator = torch.Generator().manual_seed(0)
    truth, mask = torch.randn(4000, 1, 1, 2, generator=generator), torch.ones(4000, 1, dtype=torch.bool)
    draws = torch.randn(4000, 20, 1, 1, 2, generator=generator)
    found = {width: float(path_energy_scores(width * draws, truth, mask).mean()) for width in (0.5, 1.0, 1.6)}
    assert found[1.0] < min(found[0.5], found[1.6])
    few = float(path_energy_scores(draws[:, :3], truth, mask).mean())
    assert few == pytest.approx(found[1.0], rel=0.05)  # does not depend on K


def test_who_is_not_there_and_the_order_of_people_do_not_count(example: tuple[Tensor, Tensor, Tensor]) -> None:
    predicted, truth, mask = example
    scores, order = path_scores(*example), torch.tensor([2, 0, 1])
    moved = path_scores(predicted[:, :, order], truth[:, order], mask[:, order])
    assert moved == pytest.approx(scores, rel=1e-5)
    wrong = predicted.masked_fill(~mask[:, None, :, None, None], 99.0)
    assert path_scores(wrong, truth, mask) == pytest.approx(scores)


def test_people_collide_at_the_same_time_only() -> None:
    still = torch.zeros(4, 2)
    passing = torch.stack([torch.tensor([-2.0, -1.0, 0.0, 1.0]) + 0.5 * COLLISION, torch.zeros(4)], dim=1)
    late = torch.tensor([[9.0, 9.0]] * 4)
    paths = torch.stack([still, passing, late]).unsqueeze(0).unsqueeze(0)
    everyone = torch.ones(1, 3, dtype=torch.bool)
    assert colliding(paths, everyone).tolist() == [[[True, True, False]]]
    assert not colliding(paths, torch.tensor([[True, False, True]])).any()
    assert not colliding(
        paths + torch.tensor([0.0, 2 * COLLISION]) * torch.tensor([0.0, 1, 0]).view(1, 1, 3, 1, 1), everyone
    ).any()
