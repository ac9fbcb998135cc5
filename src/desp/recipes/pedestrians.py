"""Pedestrians: the next positions of all people of a scene together; not in the paper.

One recipe for each scene, which is left out of training and tested on.
"""

from desp.recipes.registry import recipe
from desp.recipes.tables import Table, register_table
from desp.settings import (
    AttentionSettings,
    DenoiserSettings,
    EDMSettings,
    MLPEncoderSettings,
    PedestrianScene,
    PedestriansSettings,
    RunSettings,
    TrainingSettings,
)

register_table(
    Table("pedestrians", "Pedestrians, in metres", ("energy_score", "joint_ade", "joint_fde", "collisions"))
)


def method() -> DenoiserSettings:
    """Futures of all people are denoised together, by attention among them; each with its own code."""
    return DenoiserSettings(
        encoder=MLPEncoderSettings(hidden=128, out=128, layers=3),
        # Displacements have no periodic structure, so no Fourier features; the distance between two of them is not
        # how near people are, so no local heads.
        network=AttentionSettings(hidden=128, layers=3, heads=4, fourier_frequencies=0, local_heads=False),
        # A whole path is recognisable at noise that hides a single position, so training takes higher sigmas.
        p_mean=-0.4,
        sampler=EDMSettings(steps=12, temperature=0.75),
    )


def _run(scene: PedestrianScene) -> RunSettings:
    return RunSettings(
        recipe=f"pedestrians-{scene}",
        task=PedestriansSettings(scene=scene),
        method=method(),
        training=TrainingSettings(
            # Some 3,000 windows, most of which overlap, are soon memorised: validation gets worse later.
            steps=2000,
            batch_size=128,
            learning_rate=2e-3,
            warmup_steps=100,
            ema_decay=0.998,
            validate_every=250,
            checkpoint_every=250,
            log_every=100,
        ),
        matmul_precision="high",
    )


@recipe(table="pedestrians", task="eth", system="denoiser", scored="returned", expected=0.92, minutes=1.5)
def pedestrians_eth() -> RunSettings:
    """Pedestrians, tested on the scene eth, trained on the others."""
    return _run("eth")


@recipe(table="pedestrians", task="hotel", system="denoiser", scored="returned", expected=0.25, minutes=1.5)
def pedestrians_hotel() -> RunSettings:
    """Pedestrians, tested on the scene hotel, trained on the others."""
    return _run("hotel")


@recipe(table="pedestrians", task="univ", system="denoiser", scored="returned", expected=0.44, minutes=1.5)
def pedestrians_univ() -> RunSettings:
    """Pedestrians, tested on the scene univ, trained on the others."""
    return _run("univ")


@recipe(table="pedestrians", task="zara1", system="denoiser", scored="returned", expected=0.31, minutes=1.5)
def pedestrians_zara1() -> RunSettings:
    """Pedestrians, tested on the scene zara1, trained on the others."""
    return _run("zara1")


@recipe(table="pedestrians", task="zara2", system="denoiser", scored="returned", expected=0.24, minutes=1.5)
def pedestrians_zara2() -> RunSettings:
    """Pedestrians, tested on the scene zara2, trained on the others."""
    return _run("zara2")
