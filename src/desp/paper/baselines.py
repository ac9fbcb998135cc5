"""The paper's baselines DSPN, C-DSPN and TSPN, as method settings for tasks with presence padding:
by default for auto-encoding sets, with an encoder and the energy or code that suits it for other inputs.

What their descriptions leave open is decided in ``docs/deviations.md``.
"""

from desp.paper.training import BASELINE_BATCH_SIZE
from desp.settings import (
    DescentSettings,
    Distance,
    EncoderSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
    TSPNSettings,
)

# The released step size 800 is for energies averaged over the batch; energies here are not.
STEP_SIZE = 800 / BASELINE_BATCH_SIZE
# The loss of the cardinality is some nats, the loss of elements thousandths: added without weights, the encoder
# would learn cardinalities alone, and every input of one cardinality would get the same set. With these weights,
# found by trial, both are learned; TSPN's codes are standardised, so that their gradients are smaller.
CARDINALITY_WEIGHT, STANDARDISED_CARDINALITY_WEIGHT = 1e-3, 1e-2


# Inputs are sets like those to predict: auto-encoding.
_DSPN_ENERGY = SetEncoderEnergySettings(
    hidden=256, layers=3, latent=64, divide_by_size=True, shared=True, negative_slope=0.0, initialisation="xavier"
)


def dspn(
    distance: Distance,
    energy: SetEncoderEnergySettings = _DSPN_ENERGY,
    encoder: EncoderSettings | None = None,
    representation_weight: float = 0.0,
) -> SetRiskSettings:
    """DSPN (Zhang et al. 2019): ten steps down E_SE from a learned set; presence is descended too, and clamped
    to [0, 1].

    The loss is the Chamfer distance of all iterates, or the Hungarian distance of the last one.

    Args:
        distance: the loss.
        energy: the set encoder, which also encodes inputs unless there is an encoder.
        encoder: h(x); None: inputs are sets like those to predict.
        representation_weight: of Huber(g(Y), h(x)) in the loss, which is zero where one encoder gives both.
    """
    return SetRiskSettings(
        encoder=encoder,
        energy=energy,
        distance=distance,
        descent=DescentSettings(steps=10, step_size=STEP_SIZE),
        supervise="all" if distance == "chamfer" else "last",
        cardinality="clamped",
        representation_weight=representation_weight,
    )


def c_dspn(
    energy: SetEncoderEnergySettings = _DSPN_ENERGY,
    encoder: EncoderSettings | None = None,
    representation_weight: float = 0.0,
) -> SetRiskSettings:
    """C-DSPN (Kosiorek et al. 2020): DSPN on as many elements as are most probable for the input.

    The arguments are those of `dspn`.
    """
    return SetRiskSettings(
        encoder=encoder,
        energy=energy,
        descent=DescentSettings(steps=10, step_size=STEP_SIZE),
        supervise="all",
        cardinality="predicted",
        cardinality_hidden=128,
        cardinality_weight=CARDINALITY_WEIGHT,
        representation_weight=representation_weight,
    )


def tspn(latent: int = 64, encoder: EncoderSettings | None = None) -> TSPNSettings:
    """TSPN (Kosiorek et al. 2020): as many random points as are most probable, through a transformer.

    Args:
        latent: length of the code.
        encoder: h(x), to standardised codes of that length; None: one for input sets.
    """
    return TSPNSettings(
        encoder=encoder,
        hidden=256,
        layers=3,
        heads=4,
        latent=latent,
        cardinality_hidden=128,
        cardinality_weight=STANDARDISED_CARDINALITY_WEIGHT,
    )
