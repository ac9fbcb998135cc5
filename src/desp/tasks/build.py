"""From settings to a task."""

from desp.settings import TaskSettings
from desp.tasks.base import Task


def make_task(settings: TaskSettings, seed: int = 0) -> Task:
    """The task that `settings` name; `seed` decides which examples of a file are held out."""
    task: Task = settings.load()(settings, seed)
    return task
