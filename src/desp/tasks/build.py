"""From settings to a task."""

from desp.settings import DigitsSettings, FilesSettings, MnistSettings, PolygonsSettings, TaskSettings
from desp.tasks.base import Task
from desp.tasks.digits import DigitsTask
from desp.tasks.files import FilesTask
from desp.tasks.mnist import SetMnistTask
from desp.tasks.polygons import PolygonsTask


def make_task(settings: TaskSettings, seed: int = 0) -> Task:
    """The task that `settings` name; `seed` decides which examples of a file are held out."""
    if isinstance(settings, PolygonsSettings):
        return PolygonsTask(settings)
    if isinstance(settings, DigitsSettings):
        return DigitsTask()
    if isinstance(settings, FilesSettings):
        return FilesTask(settings, seed)
    if isinstance(settings, MnistSettings):
        return SetMnistTask(settings)
    raise TypeError(f"no task for {type(settings).__name__}")
