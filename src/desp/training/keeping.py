"""What training keeps, in memory and on the disk: the best weights so far, and what a roll-back returns to."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from accelerate import Accelerator

from desp.errors import CheckpointError, TrainingError
from desp.settings import TrainingSettings
from desp.training.checkpoints import Checkpoint, CheckpointStore, load_checkpoint
from desp.training.state import TrainingState

logger = logging.getLogger(__name__)

Snapshot = Callable[[], Checkpoint]
"""Everything as it is at the moment."""


@dataclass(frozen=True)
class RollbackTarget:
    """What a roll-back returns to.

    Attributes:
        checkpoint: of a step at which a run saves that nobody interrupts, or of the start.
        best: the best checkpoint then, if there was one.
    """

    checkpoint: Checkpoint
    best: Checkpoint | None

    @property
    def step(self) -> int:
        """Its step."""
        return int(self.checkpoint.state["step"])


class Keeper:
    """Saves checkpoints, and knows the best one and that which a roll-back returns to.

    An interruption saves at any step, and changes nothing of what comes after it: a roll-back of the resumed run
    returns to where it would have without the interruption.

    Args:
        store: where checkpoints are; None: in memory alone.
        accelerator: of the training; the first of its processes writes.
        rolls_back: whether training that fails is rolled back; where not, nothing is kept for it.
    """

    def __init__(
        self, store: CheckpointStore | None, accelerator: Accelerator, *, rolls_back: bool = True
    ) -> None:
        self.store, self.accelerator, self.rolls_back = store, accelerator, rolls_back
        self.best: Checkpoint | None = None
        self.target: RollbackTarget | None = None
        self._saved_best: Checkpoint | None = None

    def begin(self, state: TrainingState, snapshot: Snapshot) -> None:
        """Take up what is on the disk beside the newest checkpoint, whose state is `state`.

        Raises:
            CheckpointError: the best checkpoint is missing or damaged.
        """
        if self.store and state.best_step is not None:
            self._load_best(self.store, state.best_step, state)
        earlier = self._earlier_target(self.store, state) if self.store and self.rolls_back else None
        state.rollback_step = None
        self.target = earlier or (RollbackTarget(snapshot(), self.best) if self.rolls_back else None)

    def _load_best(self, store: CheckpointStore, step: int, state: TrainingState) -> None:
        self.best = store.load_best(step, state.best_score)
        if self.best is None:
            # Weights of another step would be wrong where they are of an attempt that failed.
            logger.warning(
                "%s is not of step %d, as the newest checkpoint says it is: the best weights until step %d are "
                "lost. The best ones of the steps that follow are kept.",
                store.best_path,
                step,
                state.step,
            )
            state.best_score, state.best_step, state.ending.best = None, None, []
        # What was found under another name is written under its own with the next checkpoint.
        self._saved_best = self.best if store.best_is_in_place else None

    def save(self, state: TrainingState, snapshot: Snapshot, *, interrupted: bool = False) -> None:
        """Save everything; where that is not for an interruption alone, a roll-back returns to it from now on.

        Raises:
            StorageError: the disk is full, or cannot be written to.
        """
        target = self.target
        if not interrupted or target is None or target.step == state.step:
            target = None
        state.rollback_step = None if target is None else target.step
        checkpoint = snapshot()
        if target is None and self.rolls_back:
            self.target = RollbackTarget(checkpoint, self.best)
        if self.store and self.accelerator.is_main_process:
            self._write(self.store, state.step, checkpoint, target)
        self.accelerator.wait_for_everyone()

    def _write(
        self, store: CheckpointStore, step: int, checkpoint: Checkpoint, target: RollbackTarget | None
    ) -> None:
        best = None if self.best is self._saved_best else self.best
        if target is None:
            store.save(step, checkpoint, best)
        else:
            another = None if target.best is self.best else target.best
            store.save(step, checkpoint, best, target.checkpoint, another)
        self._saved_best = self.best

    def roll_back(self) -> Checkpoint | None:
        """The checkpoint that training returns to, with the best one as it was then."""
        if self.target is None:
            return None
        self.best = self.target.best
        return self.target.checkpoint

    def _earlier_target(self, store: CheckpointStore, state: TrainingState) -> RollbackTarget | None:
        """Where the newest checkpoint is of an interruption: the target that the run had then.

        None where that is gone or damaged, with a warning: a roll-back then returns to the newest checkpoint.
        """
        if state.rollback_step is None:
            return None
        try:
            checkpoint = load_checkpoint(store.path(state.rollback_step))
            return RollbackTarget(checkpoint, self._best_of(store, checkpoint.state.get("best_step"), state))
        except CheckpointError as error:
            logger.warning("%s If training fails, it rolls back to step %d instead.", error, state.step)
            return None

    def _best_of(self, store: CheckpointStore, step: int | None, state: TrainingState) -> Checkpoint | None:
        """The checkpoint of `step`, which was the best one once."""
        if step is None or step == state.best_step:
            return None if step is None else self.best
        found = load_checkpoint(store.target_best_path)
        if found.state.get("step") != step:
            raise CheckpointError(f"{store.target_best_path} is not of step {step}.")
        return found


def with_advice(
    error: TrainingError, settings: TrainingSettings, store: CheckpointStore | None, attempt: int
) -> TrainingError:
    """The error that ends training: what is left, and what to try.

    Args:
        error: what went wrong.
        settings: of the training.
        store: where checkpoints are, if anywhere.
        attempt: how often training was rolled back.
    """
    steps = store.paths() if store else []
    kept = f"The last good checkpoint is {steps[-1]}." if steps else "Nothing was saved before it."
    more = (
        ", or --training.on-divergence rollback, which rolls back by itself."
        if settings.on_divergence == "stop"
        else f"; rolling back {attempt} times did not help."
    )
    return TrainingError(
        f"{error} {kept} Try a lower learning rate (--training.learning-rate) or gradient clipping "
        f"(--training.clip-norm 0.1){more}",
        error.step,
    )
