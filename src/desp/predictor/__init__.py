"""The predictor: fit to data, predict K sets for an input, save and load."""

from desp.data.shape import DataShape
from desp.predictor.dataset_summary import inspect_dataset
from desp.predictor.modes import Mode, group_modes
from desp.predictor.prediction import Prediction
from desp.predictor.predictor import SetPredictor

__all__ = ["DataShape", "Mode", "Prediction", "SetPredictor", "group_modes", "inspect_dataset"]
