"""The paper's baselines DSPN, C-DSPN and TSPN, as method settings for tasks with presence padding:
by default for auto-encoding sets, with an encoder and the energy or code that suits it for other inputs.

What their descriptions leave open is decided in ``docs/deviations.md``.
"""

from desp.settings import (
    DescentSettings,
    Distance,
    EncoderSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
    TrainingSettings,
    TSPNSettings,
)

BATCH_SIZE = 32
# The released step is for the mean over the batch; an energy here is that of one sample.
STEP_SIZE = 800 / BATCH_SIZE
# The cardinality costs some nats and elements thousandths: added as they are, the encoder would learn
# cardinalities alone, and every input of one cardinality would get the same set. With these weights, found by
# trial, both are learned; TSPN's codes are standardised, so that their gradients are smaller.
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

    The Chamfer distance is taken of all iterates, the Hungarian distance of the last one.

    Args:
        distance: what is minimised.
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


def baseline_training(learning_rate: float, steps: int, batch_size: int = BATCH_SIZE) -> TrainingSettings:
    """Plain Adam at a constant rate: as the paper trains. On set-MNIST 1e-2 for DSPN and C-DSPN and 1e-3 for
    TSPN."""
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
