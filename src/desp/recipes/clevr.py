"""Boxes and states in images, from spatial features; not in the paper."""

from desp.recipes.registry import recipe
from desp.settings import BoxDenoiserSettings, ClevrSettings, DetectorSettings, RunSettings, TrainingSettings


@recipe(table="clevr", task="clevr-boxes", system="detector", scored="returned", expected=0.98, minutes=3)
def clevr_detector() -> RunSettings:
    """CLEVR boxes, a plain detector: a heat map of centres on a feature pyramid."""
    return RunSettings(
        recipe="clevr-detector",
        task=ClevrSettings(),
        method=DetectorSettings(),
        training=_training(12_000, 1e-3),
        matmul_precision="high",
    )


@recipe(table="clevr", task="clevr-boxes", system="box-denoiser", scored="returned", expected=0.98, minutes=8)
def clevr_box_denoiser() -> RunSettings:
    """CLEVR boxes, denoised by a network that reads the image inside and around every box."""
    return RunSettings(
        recipe="clevr-box-denoiser",
        task=ClevrSettings(),
        method=BoxDenoiserSettings(),
        training=_training(26_000, 5e-4),
        matmul_precision="high",
    )


@recipe(table="clevr", task="clevr-state", system="box-denoiser", scored="returned", expected=0.89, minutes=8)
def clevr_state_denoiser() -> RunSettings:
    """CLEVR states, denoised together with the boxes that say where to look in the image.

    Published by others, AP at a distance of .125 in percent: DSPN 0.6, Slot Attention about 8, iDSPN 77.
    """
    return RunSettings(
        recipe="clevr-state-denoiser",
        # Images are not flipped or shifted, which would change the states; more images take the place of that.
        task=ClevrSettings(predict="objects", scenes=50_000),
        method=BoxDenoiserSettings(),
        training=_training(24_000, 5e-4),
        matmul_precision="high",
    )


def _training(steps: int, learning_rate: float) -> TrainingSettings:
    return TrainingSettings(
        steps=steps,
        batch_size=64,
        learning_rate=learning_rate,
        betas=(0.9, 0.99),
        warmup_steps=200,
        ema_decay=0.999,
        checkpoint_every=5000,
        log_every=50,
    )
