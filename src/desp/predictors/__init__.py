"""Predictors: fit to data, predict K sets for an input, save and load."""

from desp.predictors.base import Prediction, SetPredictor
from desp.predictors.energy import EnergyPredictor
from desp.predictors.modes import Mode, group_modes
from desp.predictors.shape import DataShape, inspect_dataset

__all__ = [
    "DataShape",
    "EnergyPredictor",
    "Mode",
    "Prediction",
    "SetPredictor",
    "group_modes",
    "inspect_dataset",
]
