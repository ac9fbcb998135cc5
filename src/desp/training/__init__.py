"""The training loop of all methods, and what it keeps on disk."""

from desp.training.loop import Trainer
from desp.training.progress import TrainingCallback
from desp.training.state import TrainingOutcome

__all__ = ["Trainer", "TrainingCallback", "TrainingOutcome"]
