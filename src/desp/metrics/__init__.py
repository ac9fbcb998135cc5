"""Scores of predicted sets: function first."""

from desp.metrics.angles import kuiper, polygon_turn
from desp.metrics.digits import DigitTemplates
from desp.metrics.polygons import polygon_score
from desp.metrics.sizes import size_rmse

__all__ = ["DigitTemplates", "kuiper", "polygon_score", "polygon_turn", "size_rmse"]
