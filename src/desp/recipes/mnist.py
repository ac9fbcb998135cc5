"""set-MNIST: tables 2 and 3 of the paper, auto-encoding digits as sets of points."""

from dataclasses import replace

from desp.recipes.compared import c_dspn, compared_training, dspn, tspn
from desp.recipes.registry import recipe
from desp.settings import (
    AttentionSettings,
    ContrastiveSettings,
    DenoisingSettings,
    LangevinSettings,
    MnistSettings,
    PredictorSettings,
    RunSettings,
    SetEncoderSettings,
    SolverSettings,
    TrainingSettings,
)

# 57,000 digits to train on: an epoch at batch 100, and one at batch 32.
_EPOCH, _EPOCH_OF_COMPARED = 570, 1782
# The paper's: g of 3-256-256-64, not divided by N, for inputs and sets.
_AUTO_ENCODER = SetEncoderSettings(hidden=256, layers=3, latent=64, shared=True)


@recipe(table="mnist", task="set-mnist", system="desp", protocol="paper", minutes=120)
def mnist_desp_paper() -> RunSettings:
    """set-MNIST, DESP with E_SE and the paper's settings.

    Command: ``desp train mnist-desp-paper --data-dir DIR``. The paper reports Chamfer and Hungarian distances of
    .6e-4 and a set-size RMSE of .002.
    """
    chain = LangevinSettings(steps=500, stochastic_steps=500, noise_scale=0.005)
    return RunSettings(
        recipe="mnist-desp-paper",
        task=MnistSettings(),
        predictor=PredictorSettings.contrastive(
            energy=_AUTO_ENCODER,
            estimator=ContrastiveSettings(chain=chain, data_noise=0.015),
            sampler=replace(chain, stochastic_steps=400),
            scaling="none",
        ),
        training=TrainingSettings(
            steps=100 * _EPOCH,
            batch_size=100,
            learning_rate=1e-4,
            warmup_steps=0,
            decay="constant",
            clip_norm=None,
            ema_decay=None,
            validate_every=_EPOCH,
            patience=7,
            checkpoint_every=_EPOCH,
            on_nonfinite="stop",
        ),
    )


@recipe(table="mnist", task="set-mnist", system="desp", protocol="ours", expected=4.7e-5, minutes=2)
def mnist_desp() -> RunSettings:
    """set-MNIST, DESP with E_SE, trained fast with short chains that are kept near.

    Command: ``desp train mnist-desp --data-dir DIR``.

    A fifth of the paper's steps are enough if the energy is steep, and a high learning rate makes it so. It must
    not get too steep for the chains' steps: those that go too far are held back, and not raised. Where many do,
    training goes back, and on at half the rate. Prediction begins with more noise than training had and ends with
    less; then momentum goes what is left of the way. Sets that the energy cannot tell apart lie around the right
    one, so the mean of the lower six of twelve tries is predicted. Points at the border of the picture are too
    rare to be learned well, so a tenth of the digits is moved in training.
    """
    chain = LangevinSettings(steps=100, stochastic_steps=100, noise_scale=0.01, largest_step=0.05)
    sampler = LangevinSettings(
        steps=200,
        stochastic_steps=160,
        noise_scale=0.015,
        last_noise=0.006,
        largest_step=0.05,
        momentum=0.8,
        tries=12,
        from_tries="mean",
    )
    return RunSettings(
        recipe="mnist-desp",
        task=MnistSettings(shifted=0.1),
        predictor=PredictorSettings.contrastive(
            energy=_AUTO_ENCODER,
            estimator=ContrastiveSettings(chain=chain, data_noise=0.015, spare_runaways=True),
            sampler=sampler,
            scaling="none",
        ),
        training=TrainingSettings(
            steps=1250,
            batch_size=100,
            learning_rate=2e-3,
            betas=(0.5, 0.999),
            warmup_steps=500,
            ema_decay=0.999,
            validate_every=625,
            checkpoint_every=625,
            log_every=50,
        ),
    )


@recipe(table="mnist", task="set-mnist", system="denoising", protocol="ours")
def mnist_denoising() -> RunSettings:
    """set-MNIST, attention without an energy trained to denoise, from a code of 64 numbers.

    Command: ``desp train mnist-denoising --data-dir DIR``.
    """
    return RunSettings(
        recipe="mnist-denoising",
        task=MnistSettings(),
        predictor=PredictorSettings(
            energy=AttentionSettings(hidden=256, layers=4, heads=4, waves=32, field=True),
            estimator=DenoisingSettings(size_head="ordered", size_weight=0.02),
            sampler=SolverSettings(sizes="likeliest"),
            scaling="none",
            code=64,
        ),
        training=TrainingSettings(
            steps=20_000,
            batch_size=128,
            size_groups=4,
            learning_rate=1e-3,
            warmup_steps=500,
            # Mostly the size's gradient is long, and cut to 1 it would leave little of the elements'.
            clip_norm=50.0,
            ema_decay=0.999,
            validate_every=2000,
            checkpoint_every=1000,
            log_every=50,
        ),
        matmul_precision="medium",
    )


def _compared(
    name: str, predictor: PredictorSettings, learning_rate: float = 1e-2, epochs: int = 10
) -> RunSettings:
    """Plain Adam for some epochs; the best one on validation digits is kept."""
    training = compared_training(learning_rate, epochs * _EPOCH_OF_COMPARED)
    return RunSettings(
        recipe=name,
        task=MnistSettings(),
        predictor=predictor,
        training=replace(
            training, validate_every=_EPOCH_OF_COMPARED, checkpoint_every=_EPOCH_OF_COMPARED, log_every=50
        ),
        matmul_precision="highest",
    )


@recipe(table="mnist", task="set-mnist", system="dspn-chamfer", protocol="paper", expected=9.7e-5, minutes=17)
def mnist_dspn_chamfer() -> RunSettings:
    """set-MNIST, DSPN trained with the Chamfer distance.

    Command: ``desp train mnist-dspn-chamfer --data-dir DIR``. The paper reports .9e-4 for it, and 1600e-4 for the
    Hungarian distance, which this training ruins.
    """
    return _compared("mnist-dspn-chamfer", dspn("chamfer"))


@recipe(table="mnist", task="set-mnist", system="dspn-hungarian", protocol="paper", minutes=24)
def mnist_dspn_hungarian() -> RunSettings:
    """set-MNIST, DSPN trained with the Hungarian distance.

    Command: ``desp train mnist-dspn-hungarian --data-dir DIR``. The paper reports 2.8e-4 and 3.2e-4.
    """
    return _compared("mnist-dspn-hungarian", dspn("hungarian"))


@recipe(table="mnist", task="set-mnist", system="c-dspn", protocol="paper", expected=5.9e-5, minutes=18)
def mnist_c_dspn() -> RunSettings:
    """set-MNIST, C-DSPN: the size first, then DSPN on that many elements.

    Command: ``desp train mnist-c-dspn --data-dir DIR``. The paper reports a set-size RMSE of .3.
    """
    return _compared("mnist-c-dspn", c_dspn())


@recipe(table="mnist", task="set-mnist", system="tspn", protocol="paper", minutes=11)
def mnist_tspn() -> RunSettings:
    """set-MNIST, TSPN: the size first, then that many random points through a transformer.

    Command: ``desp train mnist-tspn --data-dir DIR``. The paper reports a set-size RMSE of .8.
    """
    return _compared("mnist-tspn", tspn(), learning_rate=1e-3, epochs=20)
