"""CelebA subset anomalies: table 5 of the paper, which of five faces do not belong to the others.

Inputs are 512 features of each face; labels are plus and minus one half, decided by their sign.
"""

from dataclasses import replace

from desp.paper.training import paper_training
from desp.recipes import recipe
from desp.settings import (
    CelebaSettings,
    ContrastiveSettings,
    DeepSetsSettings,
    LabelLikelihoodSettings,
    LabelSamplerSettings,
    LangevinSettings,
    MethodSettings,
    MLPEncoderSettings,
    RunSettings,
    TaggerSettings,
    TrainingSettings,
)

LABELS = (-0.5, 0.5)
BATCH_SIZE = 64
# 30 epochs of 32,000 sets, each followed by a validation.
STEPS, STEPS_OF_EPOCH, PATIENCE = 15_000, 500, 3
# Noise on training features in our own recipe, in standard deviations of each feature.
FEATURE_NOISE = 2.0

# 512-256-128 with a sigmoid, on each face, presence as one more input; trained together with the method.
_FACES = MLPEncoderSettings(hidden=256, out=128, layers=2, sigmoid=True)


def energy() -> DeepSetsSettings:
    """E_DS with two layers before and two after FSPool, not divided by N."""
    return DeepSetsSettings(hidden=256, element_layers=2, set_layers=2, divide_by_size=False)


def desp_method() -> ContrastiveSettings:
    """DESP with E_DS: chains of 50 steps, 40 of them with noise in prediction."""
    return ContrastiveSettings(
        encoder=_FACES,
        energy=energy(),
        training_sampler=LangevinSettings(steps=50, stochastic_steps=50, noise_scale=0.1),
        sampler=LangevinSettings(steps=50, stochastic_steps=40, noise_scale=0.1),
        data_noise=0.2,
    )


def tagger_method() -> TaggerSettings:
    """Four permutation-equivariant layers, 128-256-256-256-1."""
    return TaggerSettings(encoder=_FACES, hidden=256, layers=4, labels=LABELS)


def likelihood_method() -> LabelLikelihoodSettings:
    """The energy of DESP, half as wide, normalised over all 32 labellings of five faces.

    Each of 7,000 faces is seen hundreds of times, and a deep encoder recognises them; a linear one with much noise
    on its inputs does not.
    """
    return LabelLikelihoodSettings(
        encoder=MLPEncoderSettings(out=32, layers=1, sigmoid=True),
        energy=replace(energy(), hidden=128),
        labels=LABELS,
        sampler=LabelSamplerSettings(min_probability=0.03),
    )


# -- recipes -----------------------------------------------------------------------------------------------


def _published(name: str, method: MethodSettings) -> RunSettings:
    """As the released code was meant to train: plain Adam at 1e-4, the best weights by validation, a patience of
    three epochs."""
    training = paper_training(1e-4, STEPS, BATCH_SIZE)
    return _run(name, method, replace(training, validate_every=STEPS_OF_EPOCH, patience=PATIENCE), 0.0)


def _ours(name: str, method: MethodSettings, learning_rate: float) -> RunSettings:
    """As many steps as `_published`, with noise on features, warm-up, cosine decay and EMA; validated half as
    often, for speed, and without patience."""
    training = TrainingSettings(steps=STEPS, batch_size=BATCH_SIZE, learning_rate=learning_rate, ema_decay=0.999)
    return _run(name, method, replace(training, validate_every=2 * STEPS_OF_EPOCH), FEATURE_NOISE)


def _run(name: str, method: MethodSettings, training: TrainingSettings, feature_noise: float) -> RunSettings:
    return RunSettings(
        recipe=name,
        task=CelebaSettings(feature_noise=feature_noise),
        method=method,
        training=replace(training, checkpoint_every=2 * STEPS_OF_EPOCH, log_every=50),
        matmul_precision="high",
    )


@recipe(table="celeba", task="all", system="desp", scored="raw", expected=0.72, minutes=1)
def celeba_desp_paper() -> RunSettings:
    """CelebA subset anomalies, DESP with the paper's settings.

    The paper reports an F1 of .76 on all sets and of .66 on ambiguous ones.
    """
    return _published("celeba-desp-paper", desp_method())


@recipe(table="celeba", task="all", system="tagger", scored="raw", expected=0.65, minutes=0.2)
def celeba_tagger() -> RunSettings:
    """CelebA subset anomalies, the Deep Sets tagger: a probability for each label.

    The paper reports an F1 of .63 on all sets and of .47 on ambiguous ones.
    """
    return _published("celeba-tagger", tagger_method())


@recipe(table="celeba", task="all", system="label-likelihood", scored="returned", expected=0.78, minutes=0.5)
def celeba_likelihood() -> RunSettings:
    """CelebA subset anomalies, the exact likelihood of all labellings; predicts the most probable ones."""
    return _ours("celeba-likelihood", likelihood_method(), 2e-3)
