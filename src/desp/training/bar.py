"""A progress bar of training, where one is asked for."""

import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from desp.training.progress import TrainingCallback, joined

# The bar is drawn ten times a second; telling it of each of a thousand quick steps would only slow them.
SECONDS_BETWEEN_MOVES = 0.1


class _RateColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        """Steps a second, once there is something to tell."""
        return Text(f"{task.speed:.1f} steps/s" if task.speed else "")


class ProgressBar(TrainingCallback):
    """Shows training on standard error: bar, rate, time left, loss."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            _RateColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=self._console,
        )
        self._moved, self._error = 0.0, ""
        self._bar = self._progress.add_task("training", total=None, numbers="")

    def on_start(self, steps_done: int, steps: int | None) -> None:
        """Show the bar."""
        self._progress.update(self._bar, total=steps, completed=steps_done)
        self._progress.start()

    def on_length(self, steps: int | None) -> None:
        """Now the bar has an end."""
        self._progress.update(self._bar, total=steps)

    def on_step(self, step: int) -> None:
        """Move on: slow steps are seen one by one."""
        now = time.monotonic()
        if now - self._moved >= SECONDS_BETWEEN_MOVES:
            self._moved = now
            self._progress.update(self._bar, completed=step)

    def on_log(self, step: int, numbers: dict[str, float]) -> None:
        """Show the loss."""
        self._progress.update(self._bar, completed=step, numbers=f"loss {numbers['loss']:.3g}")

    def on_validation_start(self, step: int) -> None:
        """Say what the bar waits for."""
        self._progress.update(self._bar, completed=step, numbers="validating")

    def on_validation_standard_error(self, step: int, standard_error: float | None) -> None:
        """Remember it for the score."""
        del step
        self._error = "" if standard_error is None else f" (standard error {standard_error:.2g})"

    def on_validation_end(self, step: int, score: float, best: bool) -> None:
        """Mention the score."""
        text = f"step {step}: validation score {score:.4g}{self._error}{' (best)' if best else ''}"
        self._progress.console.print(text)

    def on_rollback(self, step: int, to_step: int) -> None:
        """Set the bar back; what happened is logged as a warning."""
        del step
        self._progress.update(self._bar, completed=to_step)

    def on_end(self) -> None:
        """Leave the bar as it is."""
        self._progress.stop()


def with_bar(callback: TrainingCallback | None, progress: bool) -> TrainingCallback | None:
    """The callback with a progress bar beside it, where one is asked for."""
    return joined(callback, ProgressBar() if progress else None)
