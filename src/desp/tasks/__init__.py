"""Tasks: where data come from, how inputs are written, and how predictions are scored."""

from desp.tasks.base import Evaluation, Example, Task
from desp.tasks.build import make_task

__all__ = ["Evaluation", "Example", "Task", "make_task"]
