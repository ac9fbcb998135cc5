"""Scores of predicted subsets where several are valid (paper, section 5.5 and Table 5)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.metrics.base import Metric

PRECISION = Metric("precision", 1.0, "higher", "share of K predicted subsets that are valid answers")
RECALL = Metric("recall", 1.0, "higher", "share of the valid answers that are among K predicted subsets")
F1 = Metric("f1", 1.0, "higher", "F1 of the mean precision and the mean recall")
F1_OF_EACH = Metric("f1_per_example", 1.0, "higher", "F1 of each set, averaged, as in the paper's released code")
JACCARD = Metric("jaccard_best_of_k", 1.0, "higher", "Jaccard index of outliers, best of K and of valid answers")
SUBSET_METRICS = (PRECISION, RECALL, F1, F1_OF_EACH, JACCARD)


def subset_scores(
    predicted: Bool[Tensor, "b k n"], candidates: Bool[Tensor, "s n"], valid: Bool[Tensor, "b s"]
) -> dict[str, float]:
    """All `SUBSET_METRICS` of K predictions for each of B sets.

    Args:
        predicted: the predicted inliers.
        candidates: the inliers of all subsets that can be valid.
        valid: which candidates are valid, at least one for each set.
    """
    is_candidate = (predicted.unsqueeze(2) == candidates).all(dim=3)  # (B, K, S)
    hits = is_candidate & valid.unsqueeze(1)
    precision = hits.any(dim=2).double().mean(dim=1)
    recall = hits.any(dim=1).sum(dim=1).double() / valid.sum(dim=1)
    return {
        "precision": float(precision.mean()),
        "recall": float(recall.mean()),
        "f1": float(_f1(precision.mean(), recall.mean())),
        "f1_per_example": float(_f1(precision, recall).mean()),
        "jaccard_best_of_k": float(_best_jaccard(predicted, candidates, valid).mean()),
    }


def _f1(precision: Tensor, recall: Tensor) -> Tensor:
    """The harmonic mean; 0 where both are 0."""
    return 2 * precision * recall / (precision + recall).clamp(min=torch.finfo(precision.dtype).tiny)


def _best_jaccard(
    predicted: Bool[Tensor, "b k n"], candidates: Bool[Tensor, "s n"], valid: Bool[Tensor, "b s"]
) -> Float[Tensor, " b"]:
    """Jaccard index of the outliers; 1 where there are none and none is predicted."""
    found, true = ~predicted.unsqueeze(2), ~candidates
    both, either = (found & true).sum(dim=3), (found | true).sum(dim=3)
    index = torch.where(either > 0, both.double() / either.clamp(min=1), 1.0)
    return index.masked_fill(~valid.unsqueeze(1), -1.0).amax(dim=(1, 2))
