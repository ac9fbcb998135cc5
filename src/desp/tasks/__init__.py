"""Tasks: where data come from, how inputs are written, and how predictions are scored."""

from desp.tasks.base import ShownExample, Task, make_task
from desp.tasks.scoring import Evaluation, EvaluationSetup, Protocol

__all__ = ["Evaluation", "EvaluationSetup", "Protocol", "ShownExample", "Task", "make_task"]
