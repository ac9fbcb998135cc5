"""Predictors: fit to data, predict K sets for an input, save and load."""

from desp.predictors.base import Prediction, SetPredictor
from desp.predictors.energy import EnergyPredictor
from desp.predictors.energy_network import EnergyNetwork
from desp.predictors.modes import Mode, group_modes
from desp.predictors.network import CHAINS_AT_ONCE, SetNetwork
from desp.predictors.shape import DataShape, inspect_dataset

__all__ = [
    "CHAINS_AT_ONCE",
    "DataShape",
    "EnergyNetwork",
    "EnergyPredictor",
    "Mode",
    "Prediction",
    "SetNetwork",
    "SetPredictor",
    "group_modes",
    "inspect_dataset",
]
