"""Tasks: where data come from, how inputs are written, and how predictions are scored."""

from desp.tasks.base import Paths, ShownExample, Task, make_task
from desp.tasks.scoring import Evaluation, EvaluationSetup, Protocol

__all__ = ["Evaluation", "EvaluationSetup", "Paths", "Protocol", "ShownExample", "Task", "make_task"]
