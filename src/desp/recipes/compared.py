"""The systems that the paper compares with beyond the toys, as settings for any task with presence padding.

What their descriptions leave open is decided in ``docs/deviations.md``.
"""

from desp.settings import (
    DirectSettings,
    Distance,
    PredictorSettings,
    SetEncoderSettings,
    SetRiskSettings,
    TrainingSettings,
    TransformerSettings,
)

BATCH_SIZE = 32
# The released step is for the mean over the batch; an energy here is that of one sample.
STEP_SIZE = 800 / BATCH_SIZE
# Sizes cost some nats and elements thousandths: added as they are, the encoder would learn sizes alone, and every
# input of one size would get the same set. With these weights, found by trial, both are learned; TSPN's codes are
# standardised, so that their gradients are smaller.
SIZE_WEIGHT, STANDARD_SIZE_WEIGHT = 1e-3, 1e-2


def _dspn_energy(shared: bool) -> SetEncoderSettings:
    return SetEncoderSettings(
        hidden=256,
        layers=3,
        latent=64,
        divide_by_size=True,
        shared=shared,
        negative_slope=0.0,
        initialisation="xavier",
    )


def dspn(distance: Distance, *, shared: bool = True) -> PredictorSettings:
    """DSPN (Zhang et al. 2019): ten steps down E_SE from a learned set, presence among what moves.

    The Chamfer distance is taken of all sets on the way, the Hungarian distance of the last one.

    Args:
        distance: what is minimised.
        shared: inputs are sets like those to predict (auto-encoding).
    """
    return PredictorSettings(
        energy=_dspn_energy(shared),
        estimator=SetRiskSettings(
            distance=distance,
            steps=10,
            step_size=STEP_SIZE,
            scored="all" if distance == "chamfer" else "last",
            sizes="clamped",
        ),
        scaling="none",
    )


def c_dspn(*, shared: bool = True) -> PredictorSettings:
    """C-DSPN (Kosiorek et al. 2020): DSPN on as many elements as are most probable for the input."""
    return PredictorSettings(
        energy=_dspn_energy(shared),
        estimator=SetRiskSettings(
            steps=10, step_size=STEP_SIZE, scored="all", sizes="first", size_hidden=128, size_weight=SIZE_WEIGHT
        ),
        scaling="none",
    )


def tspn() -> PredictorSettings:
    """TSPN (Kosiorek et al. 2020): as many random points as are most probable, through a transformer."""
    return PredictorSettings(
        energy=TransformerSettings(hidden=256, layers=3, heads=4, latent=64),
        estimator=DirectSettings(size_hidden=128, size_weight=STANDARD_SIZE_WEIGHT),
        scaling="none",
    )


def compared_training(learning_rate: float, steps: int) -> TrainingSettings:
    """Plain Adam at a constant rate, batch 32: 1e-2 for DSPN and C-DSPN, 1e-3 for TSPN."""
    return TrainingSettings(
        steps=steps,
        batch_size=BATCH_SIZE,
        learning_rate=learning_rate,
        warmup_steps=0,
        decay="constant",
        clip_norm=None,
        ema_decay=None,
        on_nonfinite="stop",
    )
