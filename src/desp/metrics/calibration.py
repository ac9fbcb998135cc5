"""Could the truth be one of the predictions? Its rank among them, over many inputs."""

from typing import Any

import torch
from jaxtyping import Float, Int
from scipy.special import chdtrc
from torch import Tensor

from desp.errors import DataError
from desp.metrics.base import Metric

_TEXT = "calibration error: Kolmogorov-Smirnov distance of true sets' ranks among predictions from uniform ones"
CALIBRATION_ERROR = Metric("calibration_error", 1.0, "lower", _TEXT)


def truth_ranks(distances: Float[Tensor, "t k1 k1"], generator: torch.Generator) -> Int[Tensor, " t"]:
    """The place of the true set among K predictions for the same input, by mean distance to the others: 0 to K.

    Rank 0: the truth is the most central of all K + 1 sets; rank K: it is the furthest from the others. If
    predictions are drawn from p(Y | x), truth and predictions are exchangeable, and ranks are uniform. Mostly
    high ranks say that predictions are too alike or wrong, mostly low ones that they vary too much. Uniform ranks
    are necessary for a right distribution, not sufficient.

    Args:
        distances: for each of T tests, between all K + 1 sets, the truth first. Diagonals are ignored.
        generator: breaks ties at random; on any device.

    Raises:
        DataError: not (T, K + 1, K + 1) with K at least 1, no tests, or NaN.
    """
    if distances.dim() != 3 or distances.shape[1] != distances.shape[2] or distances.shape[1] < 2:
        raise DataError(
            "distances must have shape (tests, K + 1, K + 1): the truth and at least one prediction, got "
            f"{tuple(distances.shape)}. A single test is written distances.unsqueeze(0)."
        )
    if distances.numel() == 0:
        raise DataError(f"distances must not be empty, got shape {tuple(distances.shape)}. Pass at least one set.")
    if not bool(torch.isfinite(distances).all()):
        raise DataError("distances must be finite, got NaN or infinity. Remove the sets that hold one.")
    itself = torch.eye(distances.shape[1], dtype=torch.bool, device=distances.device)
    # Sorted, so that the same distances in another order add up to exactly the same: a tie remains a tie.
    others = distances.double().masked_fill(itself, 0.0).sort(dim=2).values
    statistics = others.sum(dim=2)  # K times the mean, which has the same order
    truth, predictions = statistics[:, :1], statistics[:, 1:]
    nearer, tied = (predictions < truth).sum(dim=1), (predictions == truth).sum(dim=1)
    chance = torch.rand(len(distances), generator=generator, device=generator.device, dtype=torch.float64)
    return nearer + (chance.to(distances.device) * (tied + 1)).long()


def calibration(ranks: Int[Tensor, " t"], samples: int) -> dict[str, Any]:
    """How far ranks from `truth_ranks`, among `samples` (K) predictions each, are from uniform.

    Returns:
        histogram: share of tests with rank 0 to K; 1 / (K + 1) each is perfect.
        deviation: largest absolute difference between the cumulative histogram and the uniform one
            (Kolmogorov-Smirnov statistic); 0 is perfect, K / (K + 1) the worst.
        p_value: of Pearson's chi-square test for uniform ranks; it holds for some five tests a rank or more.
    """
    counts = torch.bincount(ranks.cpu(), minlength=samples + 1).double()
    shares = counts / counts.sum()
    uniform = torch.arange(1, samples + 2, dtype=torch.float64) / (samples + 1)
    expected = len(ranks) / (samples + 1)
    chi_square = float((counts - expected).square().sum() / expected)
    return {
        "histogram": tuple(shares.tolist()),
        "deviation": float((shares.cumsum(dim=0) - uniform).abs().max()),
        "p_value": float(chdtrc(samples, chi_square)),
    }
