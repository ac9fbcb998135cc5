"""Scores of predicted sets: function first."""

from desp.metrics.angles import kuiper, polygon_turn
from desp.metrics.calibration import Calibration, calibration, truth_ranks
from desp.metrics.digits import DigitTemplates
from desp.metrics.distribution import (
    DistributionScores,
    compare_distributions,
    coverage,
    minimum_matching_distance,
    nearest_neighbour_accuracy,
    pairwise_distances,
)
from desp.metrics.polygons import polygon_score
from desp.metrics.sizes import size_rmse

__all__ = [
    "Calibration",
    "DigitTemplates",
    "DistributionScores",
    "calibration",
    "compare_distributions",
    "coverage",
    "kuiper",
    "minimum_matching_distance",
    "nearest_neighbour_accuracy",
    "pairwise_distances",
    "polygon_score",
    "polygon_turn",
    "size_rmse",
    "truth_ranks",
]
