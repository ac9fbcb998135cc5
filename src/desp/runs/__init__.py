"""Runs: a recipe and a seed, carried out in a folder."""

from desp.runs.evaluate import evaluate_run, sample_run
from desp.runs.folder import RunFolder
from desp.runs.predict import predict_file
from desp.runs.train import train_run
from desp.runs.tune import reset_run, tune_run

__all__ = [
    "RunFolder",
    "evaluate_run",
    "predict_file",
    "reset_run",
    "sample_run",
    "train_run",
    "tune_run",
]
