"""Estimators: losses that fit an energy to data."""

from desp.estimators.base import Estimator
from desp.estimators.contrastive import ContrastiveEstimator
from desp.estimators.denoising import DenoisingEstimator
from desp.estimators.direct import DirectEstimator
from desp.estimators.set_risk import SetRiskEstimator

__all__ = ["ContrastiveEstimator", "DenoisingEstimator", "DirectEstimator", "Estimator", "SetRiskEstimator"]
