"""Tasks: where data come from, how inputs are written, and how predictions are scored."""

from desp.tasks.base import Example, Task, make_task
from desp.tasks.scoring import Evaluation, Protocol

__all__ = ["Evaluation", "Example", "Protocol", "Task", "make_task"]
