"""The one training loop, and what it keeps on disk."""

from desp.training.checkpoints import Checkpoint, CheckpointStore
from desp.training.loop import Trainer, TrainingOutcome
from desp.training.progress import TrainingListener

__all__ = ["Checkpoint", "CheckpointStore", "Trainer", "TrainingListener", "TrainingOutcome"]
