"""A finished run, opened once: what every command that uses a trained model holds."""

from dataclasses import dataclass

from desp.predictor import SetPredictor
from desp.runs.folder import RunFolder
from desp.settings import RunSettings
from desp.tasks import Task


@dataclass(frozen=True)
class LoadedRun:
    """Settings, task and predictor of a run.

    Attributes:
        folder: where it is.
        settings: as the run was begun; the predictor's own sampler may have been tuned since.
        seed: the run's.
        task: its data are read when they are first used.
        predictor: trained.
    """

    folder: RunFolder
    settings: RunSettings
    seed: int
    task: Task
    predictor: SetPredictor

    @classmethod
    def open(cls, folder: RunFolder, *, data: bool = True) -> "LoadedRun":
        """Open a finished run.

        Args:
            folder: where it is.
            data: whether its data will be used, and must be those it was trained on.

        Raises:
            RunError: not a run, not finished, or its data have changed.
        """
        settings, seed = folder.load_settings()
        task, predictor = folder.load_task(), folder.load_predictor()
        if data:
            folder.check_data(task)
        return cls(folder, settings, seed, task, predictor)
