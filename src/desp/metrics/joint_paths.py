"""Scores of the paths that several people are predicted to take together.

Displacement errors are distances in metres between predicted and true positions. A prediction has the paths of all
people of a window, so the best of K is the best whole prediction, and not the best path of each person.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.metrics.base import Metric

COLLISION = 0.2
"""Two people who are nearer than this, in metres, collide."""

_BEST = "of the best of K predictions of all people together, m"
JOINT_ADE = Metric("joint_ade", 1.0, "lower", f"mean displacement error {_BEST}")
JOINT_FDE = Metric("joint_fde", 1.0, "lower", f"displacement error at the last frame {_BEST}")
ADE = Metric("ade", 1.0, "lower", "mean displacement error of a prediction, m")
FDE = Metric("fde", 1.0, "lower", "displacement error of a prediction at the last frame, m")
EACH_ADE = Metric("ade_of_each", 1.0, "lower", "mean displacement error of the best of K paths of each person, m")
EACH_FDE = Metric("fde_of_each", 1.0, "lower", "displacement error at the last frame, best of K of each person, m")
ENERGY_SCORE = Metric(
    "energy_score", 1.0, "lower", "distance of predictions to the truth less half that between predictions, m"
)
COLLISIONS = Metric(
    "collisions",
    0.01,
    "lower",
    f"fraction of people who come within {COLLISION} m of another one, mean of predictions",
)
PATH_METRICS = (JOINT_ADE, JOINT_FDE, ENERGY_SCORE, ADE, FDE, EACH_ADE, EACH_FDE, COLLISIONS)

WINDOWS_AT_ONCE = 16


def path_scores(
    predicted: Float[Tensor, "b k n t 2"], truth: Float[Tensor, "b n t 2"], mask: Bool[Tensor, "b n"]
) -> dict[str, float]:
    """All `PATH_METRICS`, each averaged over windows.

    Args:
        predicted: K predictions of the positions of up to N people at T times.
        truth: their positions.
        mask: which rows are people, at least one in each window.
    """
    parts = [
        _scores_of_windows(*(item[first : first + WINDOWS_AT_ONCE] for item in (predicted, truth, mask)))
        for first in range(0, len(mask), WINDOWS_AT_ONCE)
    ]
    return {name: float(torch.cat([part[name] for part in parts]).double().mean()) for name in parts[0]}


def _scores_of_windows(
    predicted: Float[Tensor, "b k n t 2"], truth: Float[Tensor, "b n t 2"], mask: Bool[Tensor, "b n"]
) -> dict[str, Float[Tensor, " b"]]:
    errors = (predicted - truth.unsqueeze(1)).norm(dim=-1)  # (B, K, N, T)
    of_people = errors.mean(dim=-1)
    ade, fde = mean_over_people(of_people, mask), mean_over_people(errors[..., -1], mask)
    return {
        "joint_ade": ade.amin(dim=1),
        "joint_fde": fde.amin(dim=1),
        "energy_score": path_energy_scores(predicted, truth, mask),
        "ade": ade.mean(dim=1),
        "fde": fde.mean(dim=1),
        "ade_of_each": mean_over_people(of_people.amin(dim=1, keepdim=True), mask).squeeze(1),
        "fde_of_each": mean_over_people(errors[..., -1].amin(dim=1, keepdim=True), mask).squeeze(1),
        "collisions": mean_over_people(colliding(predicted, mask).to(errors.dtype), mask).mean(dim=1),
    }


def mean_over_people(values: Float[Tensor, "b k n"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b k"]:
    """The mean over the people in the mask."""
    there = mask.unsqueeze(1)
    return torch.where(there, values, 0.0).sum(dim=2) / there.sum(dim=2)


def path_energy_scores(
    predicted: Float[Tensor, "b k n t 2"], truth: Float[Tensor, "b n t 2"], mask: Bool[Tensor, "b n"]
) -> Float[Tensor, " b"]:
    """E d(prediction, truth) - E d(prediction, other prediction) / 2 of each window (Gneiting and Raftery 2007).

    d is the mean displacement between two predictions of all people. The expected score is smallest for
    predictions from the true distribution; as the mean is over pairs of different predictions, it does not depend
    on K. The score of a single prediction is its displacement error.
    """
    to_truth = _displacement(predicted, truth.unsqueeze(1), mask).mean(dim=1)
    count = predicted.shape[1]
    if count == 1:
        return to_truth
    among = sum(
        (_displacement(predicted[:, shift:], predicted[:, :-shift], mask).sum(dim=1) for shift in range(1, count)),
        start=torch.zeros_like(to_truth),
    )
    return to_truth - among / (count * (count - 1))  # each pair is counted once, which halves the mean


def _displacement(first: Tensor, second: Tensor, mask: Tensor) -> Float[Tensor, "b k"]:
    return mean_over_people((first - second).norm(dim=-1).mean(dim=-1), mask)


def colliding(paths: Float[Tensor, "b k n t 2"], mask: Bool[Tensor, "b n"]) -> Bool[Tensor, "b k n"]:
    """Who comes within `COLLISION` of somebody else at the same time."""
    hit = torch.zeros(paths.shape[:3], dtype=torch.bool, device=paths.device)
    pairs = mask.unsqueeze(1) & mask.unsqueeze(2) & ~torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)
    for time in range(paths.shape[3]):
        places = paths[:, :, :, time]
        near = (places.unsqueeze(3) - places.unsqueeze(2)).norm(dim=-1) < COLLISION
        hit |= (near & pairs.unsqueeze(1)).any(dim=3)
    return hit
