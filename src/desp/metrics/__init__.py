"""Scores of predicted sets: functions, and beside each in its module the `Metric` that describes it."""

from desp.metrics.angles import kuiper, polygon_turn
from desp.metrics.base import Metric, describe, find_metric
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
from desp.metrics.reconstruction import Reconstructions, chamfer_each, compare_reconstructions
from desp.metrics.sizes import batched_size_rmse, released_sizes, right_size, size_rmse

__all__ = [
    "Calibration",
    "DigitTemplates",
    "DistributionScores",
    "Metric",
    "Reconstructions",
    "batched_size_rmse",
    "calibration",
    "chamfer_each",
    "compare_distributions",
    "compare_reconstructions",
    "coverage",
    "describe",
    "find_metric",
    "kuiper",
    "minimum_matching_distance",
    "nearest_neighbour_accuracy",
    "pairwise_distances",
    "polygon_score",
    "polygon_turn",
    "released_sizes",
    "right_size",
    "size_rmse",
    "truth_ranks",
]
