"""How a run that was begun goes on, in words. Nothing here loads torch."""

import shlex
from pathlib import Path

from desp.settings import RunSettings


def resume_command(recipe: str, path: Path) -> str:
    """The command that goes on with the run in a folder."""
    return shlex.join(["desp", "train", recipe, "--run", str(path), "--resume"])


def resume_words(settings: RunSettings, path: Path, purpose: str) -> str:
    """What to do for a purpose, such as `Finish it`: a command, or for runs of `fit`, which no command can resume,
    a call."""
    if settings.task.resumed_by is None:
        return f"{purpose}: {resume_command(settings.recipe, path)}"
    return f"{path} {settings.task.resumed_by}"
