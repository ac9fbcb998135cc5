"""What the training loop tells while it runs: to listeners, and to a log of JSON lines."""

import json
from pathlib import Path
from typing import Any

from desp.storage import without_nonfinite, write_text


class TrainingListener:
    """Told of what happens during training; override what you want to see. All methods do nothing."""

    def started(self, first_step: int, steps: int) -> None:
        """Training begins at `first_step` of `steps`."""

    def advanced(self, step: int) -> None:
        """`step` steps are done, or under way on the device; called after each, so be quick."""

    def stepped(self, step: int, numbers: dict[str, float]) -> None:
        """`step` steps are done, and these are their means; called every `log_every` steps."""

    def validating(self, step: int) -> None:
        """A validation begins, which may take a while."""

    def validated(self, step: int, score: float, best: bool) -> None:
        """A validation gave `score`."""

    def rolled_back(self, step: int, to_step: int) -> None:
        """What failed at `step` sent training back to `to_step`; a warning says what it was."""

    def ended(self) -> None:
        """Training is over, for whatever reason."""


class JsonLinesLog:
    """One JSON object a line; a resumed run first drops what lies behind its checkpoint."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rewind(self, step: int) -> None:
        """Keep only lines up to `step`, so that a resumed log reads as if never interrupted."""
        write_text(self.path, "".join(line for line in self._whole_lines() if json.loads(line)["step"] <= step))

    def add(self, record: dict[str, Any]) -> None:
        """Append one record."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(without_nonfinite(record)) + "\n")

    def _whole_lines(self) -> list[str]:
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        return [line for line in lines if line.endswith("\n")]  # a crash may leave half a line at the end
