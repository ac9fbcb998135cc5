"""Predictors: fit to data, predict K sets for an input, save and load."""

from desp.predictors.base import Prediction, SetPredictor
from desp.predictors.energy import EnergyPredictor
from desp.predictors.shape import DataShape, inspect_dataset

__all__ = ["DataShape", "EnergyPredictor", "Prediction", "SetPredictor", "inspect_dataset"]
