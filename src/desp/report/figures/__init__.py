"""Pictures of a run, as PNG or SVG bytes. Only these files draw; matplotlib is loaded when they do."""

from desp.report.figures.grid import case_grid, prediction_grid
from desp.report.figures.plots import ablation_picture, calibration_picture, draw_ablation, learning_curves

__all__ = [
    "ablation_picture",
    "calibration_picture",
    "case_grid",
    "draw_ablation",
    "learning_curves",
    "prediction_grid",
]
