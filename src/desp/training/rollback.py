"""What happens when training fails: where it goes back to, or what to try."""

from desp.errors import TrainingError
from desp.settings import TrainingSettings
from desp.training.checkpoints import CheckpointStore


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
