"""CLEVR boxes: table 4 of the paper, the boxes of up to ten objects from an image.

Images are 128 x 128 intensities in [0, 1], and sets are ten rows of left, top, right, bottom and presence.
"""

from dataclasses import replace

from desp.paper.baselines import c_dspn, dspn, tspn
from desp.paper.training import paper_training
from desp.recipes import recipe
from desp.settings import (
    ClevrSettings,
    ContrastiveSettings,
    Distance,
    LangevinSettings,
    MethodSettings,
    RepresentationSettings,
    ResNet34EncoderSettings,
    RunSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
    TrainingSettings,
    TSPNSettings,
)

LATENT = 512
REPRESENTATION_WEIGHT = 0.1
BATCH_SIZE = 100

_IMAGES = ResNet34EncoderSettings(out=LATENT)
# g of 5-512-512, divided by N; over pairs 10-512-512, divided by their number.
_BOXES = SetEncoderEnergySettings(hidden=512, layers=2, latent=LATENT, divide_by_size=True)
# DSPN draws all weights alike, also the weights of ResNet-34.
_DSPN_IMAGES = replace(_IMAGES, initialisation="xavier")
_DSPN_BOXES = replace(_BOXES, pairs=True, negative_slope=0.0, initialisation="xavier")


def desp_method(pairs: bool) -> ContrastiveSettings:
    """DESP with E_SE.

    Args:
        pairs: the set encoder is a relation network, as in the paper's text; else it sees single boxes, as in the
            released code.
    """
    chain = LangevinSettings(steps=200, stochastic_steps=200, noise_scale=0.0025)
    return ContrastiveSettings(
        encoder=_IMAGES,
        energy=replace(_BOXES, pairs=pairs),
        training_sampler=chain,
        sampler=replace(chain, stochastic_steps=160),
        data_noise=0.005,
    )


def desp_infonce_method() -> ContrastiveSettings:
    """DESP with E_SE and the relation network, made to learn from few images.

    With the paper's settings the codes of images and of their sets drift so far apart that the Huber distance is
    linear and its gradient in the set hardly depends on the image; so the energy of real sets is added to the loss
    (`real_energy_weight`).
    InfoNCE ties energies to images, and short chains from noisy real sets place the boxes. Prediction begins with
    more noise than training, so that chains get out of local minima. Some chains that start with much noise
    diverge and are masked; only where most do has training failed.
    """
    chain = LangevinSettings(steps=10, stochastic_steps=10, noise_scale=0.01, max_step_norm=0.1)
    sampler = LangevinSettings(
        steps=200,
        stochastic_steps=160,
        noise_scale=0.03,
        final_noise_scale=0.004,
        max_step_norm=0.1,
        momentum=0.8,
    )
    return ContrastiveSettings(
        encoder=_IMAGES,
        energy=replace(_BOXES, pairs=True),
        training_sampler=chain,
        sampler=sampler,
        data_noise=0.015,
        start_noise=(0.02, 0.5),
        infonce_temperature=0.01,
        real_energy_weight=0.1,
        mask_divergent=True,
        max_divergent_fraction=0.5,
    )


def dspn_method(distance: Distance) -> SetRiskSettings:
    """DSPN with a relation network as set encoder; released with Hungarian.

    Ten steps in training and in prediction; set `sampler` to predict with more. CLEVR also scores 20 and 30.
    """
    return dspn(distance, _DSPN_BOXES, _DSPN_IMAGES, REPRESENTATION_WEIGHT)


def c_dspn_method() -> SetRiskSettings:
    """C-DSPN, with the networks and the representation loss of DSPN."""
    return c_dspn(_DSPN_BOXES, _DSPN_IMAGES, REPRESENTATION_WEIGHT)


def tspn_method() -> TSPNSettings:
    """TSPN on standardised codes of images."""
    return tspn(LATENT, replace(_IMAGES, standardise_codes=True))


# -- recipes -----------------------------------------------------------------------------------------------
# Every system sees the same images with the same augmentation. The paper's settings of DESP have the paper's
# optimiser; all others are trained in one way, at the better of two learning rates (3e-4 and 1e-3) by validation.
# C-DSPN has the rate of DSPN with Chamfer.

_UNSCALED = RepresentationSettings(padding="presence", scaling="none")
# Training images between two validations.
_IMAGES_BETWEEN = 64_000


def _published(name: str, method: MethodSettings, steps: int) -> RunSettings:
    """Plain Adam at a constant rate, as the paper trains DESP; the best weights by validation."""
    return _run(name, method, paper_training(1e-4, steps, BATCH_SIZE))


def _tuned(name: str, method: MethodSettings, learning_rate: float, steps: int) -> RunSettings:
    """Adam with warm-up and cosine decay, EMA; the best weights by validation."""
    training = TrainingSettings(
        steps=steps, batch_size=BATCH_SIZE, learning_rate=learning_rate, warmup_steps=300, ema_decay=0.995
    )
    return _run(name, method, training)


def _run(name: str, method: MethodSettings, training: TrainingSettings) -> RunSettings:
    every = _IMAGES_BETWEEN // training.batch_size
    return RunSettings(
        recipe=name,
        task=ClevrSettings(),
        method=method,
        representation=_UNSCALED,
        # Rarely saved: a checkpoint of ResNet-34 with optimiser and EMA takes seconds.
        training=replace(training, validate_every=every, checkpoint_every=4 * every, log_every=50),
        matmul_precision="high",
    )


@recipe(table="clevr", task="clevr-boxes", system="desp", scored="raw", expected=0.004, minutes=22)
def clevr_desp_paper() -> RunSettings:
    """CLEVR boxes, DESP with the paper's settings and its relation network.

    The paper reports AP50 to AP90 of 96.2, 92.5, 80.9, 54.3, 17.4.
    """
    return _published("clevr-desp-paper", desp_method(pairs=True), 4480)


@recipe(table="clevr", task="clevr-boxes", system="desp-simple", scored="raw", expected=0.00074, minutes=19)
def clevr_desp_simple() -> RunSettings:
    """CLEVR boxes, DESP with the set encoder of the released code, which sees single boxes."""
    return _published("clevr-desp-simple", desp_method(pairs=False), 6400)


@recipe(table="clevr", task="clevr-boxes", system="desp-infonce", scored="raw", expected=0.36, minutes=12)
def clevr_desp() -> RunSettings:
    """CLEVR boxes, DESP with our training: InfoNCE, and short chains that start near real sets."""
    return _tuned("clevr-desp", desp_infonce_method(), 1e-3, 9000)


@recipe(table="clevr", task="clevr-boxes", system="dspn-hungarian", scored="raw", expected=0.05, minutes=13)
def clevr_dspn_hungarian() -> RunSettings:
    """CLEVR boxes, DSPN trained with the Hungarian distance, ten steps.

    The paper reports AP50 to AP90 of 94.0, 90.6, 82.2, 58.9, 16.0.
    """
    return _tuned("clevr-dspn-hungarian", dspn_method("hungarian"), 1e-3, 7000)


@recipe(table="clevr", task="clevr-boxes", system="dspn-chamfer", scored="raw", expected=0.17, minutes=13)
def clevr_dspn_chamfer() -> RunSettings:
    """CLEVR boxes, DSPN trained with the Chamfer distance, ten steps."""
    return _tuned("clevr-dspn-chamfer", dspn_method("chamfer"), 3e-4, 7000)


@recipe(table="clevr", task="clevr-boxes", system="c-dspn", scored="raw", expected=0.20, minutes=14)
def clevr_c_dspn() -> RunSettings:
    """CLEVR boxes, C-DSPN: the size first, then DSPN on that many elements.

    The paper reports an AP50 of 67.7 and an AP90 of 7.4.
    """
    return _tuned("clevr-c-dspn", c_dspn_method(), 3e-4, 7000)


@recipe(table="clevr", task="clevr-boxes", system="tspn", scored="raw", expected=0.079, minutes=10)
def clevr_tspn() -> RunSettings:
    """CLEVR boxes, TSPN: the size first, then that many random points through a transformer.

    The paper reports an AP50 of 81.2 and an AP90 of 20.7.
    """
    return _tuned("clevr-tspn", tspn_method(), 1e-3, 12000)
