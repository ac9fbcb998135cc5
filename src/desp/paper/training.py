"""How the paper trains DESP and its baselines."""

from desp.settings import TrainingSettings

BASELINE_BATCH_SIZE = 32


def paper_training(learning_rate: float, steps: int, batch_size: int = BASELINE_BATCH_SIZE) -> TrainingSettings:
    """Plain Adam at a constant learning rate: no warm-up, no clipping, no EMA."""
    return TrainingSettings(
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        warmup_steps=0,
        lr_schedule="constant",
        clip_norm=None,
        ema_decay=None,
        on_divergence="stop",
    )
