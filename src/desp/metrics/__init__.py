"""Scores of predicted sets: function first."""

from desp.metrics.angles import KUIPER, kuiper, polygon_turn
from desp.metrics.base import Metric, describe, find_metric
from desp.metrics.calibration import CALIBRATION, Calibration, calibration, truth_ranks
from desp.metrics.digits import DIGIT_SCORE, RAREST_STYLE, DigitTemplates
from desp.metrics.distribution import (
    DISTRIBUTION_METRICS,
    DistributionScores,
    compare_distributions,
    coverage,
    minimum_matching_distance,
    nearest_neighbour_accuracy,
    pairwise_distances,
)
from desp.metrics.polygons import POLYGON_MEDIAN, POLYGON_SCORE, polygon_score
from desp.metrics.reconstruction import (
    RECONSTRUCTION_METRICS,
    Reconstructions,
    chamfer_each,
    compare_reconstructions,
)
from desp.metrics.sizes import RIGHT_SIZE, SIZE_RMSE, batched_size_rmse, released_sizes, right_size, size_rmse

__all__ = [
    "CALIBRATION",
    "DIGIT_SCORE",
    "DISTRIBUTION_METRICS",
    "KUIPER",
    "POLYGON_MEDIAN",
    "POLYGON_SCORE",
    "RAREST_STYLE",
    "RECONSTRUCTION_METRICS",
    "RIGHT_SIZE",
    "SIZE_RMSE",
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
