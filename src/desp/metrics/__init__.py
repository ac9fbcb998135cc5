"""Scores of predicted sets: functions, and beside each in its module the `Metric` that describes it."""

from desp.metrics.base import Metric

__all__ = ["Metric"]
