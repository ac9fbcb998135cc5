"""Every error a user can cause, with the fix in its message.

All derive from `DespError`, so callers can catch one type; the command line shows the message without a
traceback and exits with status 2 (130 for `TrainingInterrupted`).
"""


class DespError(Exception):
    """Base of the errors here. The message says what to do."""


class DataError(DespError, ValueError):
    """A dataset, a set or an input that cannot be used."""


class SettingsError(DespError, ValueError):
    """A setting outside its range, two that contradict each other, or a recipe or table that does not exist."""


class RunError(DespError, RuntimeError):
    """A run or a recorded result that is missing, damaged, in use, or not the one that is needed."""


class CheckpointError(RunError):
    """A checkpoint or saved predictor that is damaged or does not fit."""


class StorageError(DespError, OSError):
    """A file that cannot be written, for the reason `errno`: a full or read-only disk, a folder in its place."""

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.errno = number


class TrainingError(DespError, ArithmeticError):
    """Training produced NaN or infinity in step `step`, or had diverged by it; the first step is 1, as in logs.
    The attribute classifier counts epochs instead."""

    def __init__(self, message: str, step: int = 0) -> None:
        super().__init__(message)
        self.step = step


class MissingExtraError(DespError, ImportError):
    """An optional dependency is needed and not installed."""


class TrainingInterrupted(DespError):
    """Training was stopped by a signal. The message says what was saved, or how to go on."""
