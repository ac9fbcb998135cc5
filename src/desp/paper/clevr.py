"""CLEVR boxes: table 4 of the paper, the boxes of up to ten objects from an image. Methods, as settings.

Images are 128 x 128 intensities in [0, 1], and sets are ten rows of four corners and presence.
"""

from dataclasses import replace

from desp.paper.baselines import c_dspn, dspn, tspn
from desp.settings import (
    ContrastiveSettings,
    Distance,
    LangevinSettings,
    ResNet34EncoderSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
    TSPNSettings,
)

LATENT = 512
REPRESENTATION_WEIGHT = 0.1

_IMAGES = ResNet34EncoderSettings(out=LATENT)
# g of 5-512-512, divided by N; over pairs 10-512-512, divided by their number.
_BOXES = SetEncoderEnergySettings(hidden=512, layers=2, latent=LATENT, divide_by_size=True)
# DSPN draws all weights alike, those of ResNet-34 among them.
_DSPN_IMAGES = replace(_IMAGES, initialisation="xavier")
_DSPN_BOXES = replace(_BOXES, pairs=True, negative_slope=0.0, initialisation="xavier")


def desp_method(pairs: bool) -> ContrastiveSettings:
    """DESP with E_SE: Adam at 1e-4, batches of 100.

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


def dspn_method(distance: Distance) -> SetRiskSettings:
    """DSPN with a relation network as set encoder: Adam at 3e-4, batches of 32; released with Hungarian.

    Ten steps in training and in prediction; `sampler` takes more of them.
    """
    return dspn(distance, _DSPN_BOXES, _DSPN_IMAGES, REPRESENTATION_WEIGHT)


def c_dspn_method() -> SetRiskSettings:
    """C-DSPN, with the networks and the representation loss of DSPN."""
    return c_dspn(_DSPN_BOXES, _DSPN_IMAGES, REPRESENTATION_WEIGHT)


def tspn_method() -> TSPNSettings:
    """TSPN on standardised codes of images."""
    return tspn(LATENT, replace(_IMAGES, standardise=True))
