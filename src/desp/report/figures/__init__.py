"""Pictures of a run, as PNG or SVG bytes. Only these files draw; matplotlib is loaded when they do."""

from desp.report.figures.ablation import ablation_picture, draw_ablation
from desp.report.figures.calibration import calibration_picture
from desp.report.figures.cases import case_grid
from desp.report.figures.curves import Curve, learning_curves
from desp.report.figures.grid import draw_prediction_grid, prediction_grid

__all__ = [
    "Curve",
    "ablation_picture",
    "calibration_picture",
    "case_grid",
    "draw_ablation",
    "draw_prediction_grid",
    "learning_curves",
    "prediction_grid",
]
