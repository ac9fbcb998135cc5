"""Pedestrians: the next positions of all people of a scene together; not in the paper.

One recipe for each scene, which is left out of training and tested on.
"""

from desp.recipes.registry import recipe
from desp.recipes.tables import Table, register_table
from desp.settings import (
    EngressionSettings,
    MLPEncoderSettings,
    PedestrianScene,
    PedestriansSettings,
    RunSettings,
    TrainingSettings,
)

register_table(
    Table("pedestrians", "Pedestrians, in metres", ("energy_score", "joint_ade", "joint_fde", "collisions"))
)


def method() -> EngressionSettings:
    """Futures of all people of a window by one network, each given its own code, independently of the others.

    Attention among people, and features of neighbours, made predictions worse for univ, which is more crowded than
    its training scenes. A denoiser is as good by the energy score, but needs 23 passes of its network, and spread
    the futures of people who stand too widely in zara2.
    """
    return EngressionSettings(encoder=MLPEncoderSettings(hidden=128, out=128, layers=3))


def _run(scene: PedestrianScene) -> RunSettings:
    return RunSettings(
        recipe=f"pedestrians-{scene}",
        task=PedestriansSettings(scene=scene, largest_noise=0.1, people_in_training=8),
        method=method(),
        training=TrainingSettings(
            steps=5000,
            batch_size=64,
            learning_rate=1e-3,
            warmup_steps=100,
            ema_decay=0.998,
            validate_every=1000,
            checkpoint_every=500,
            log_every=100,
        ),
        matmul_precision="high",
    )


def _register(scene: PedestrianScene, expected: float) -> None:
    def build() -> RunSettings:
        return _run(scene)

    build.__name__ = f"pedestrians_{scene}"
    build.__doc__ = f"Pedestrians, tested on the scene {scene}, trained on the others."
    recipe(
        table="pedestrians",
        task=scene,
        system="engression",
        scored="returned",
        expected=expected,
        minutes=9,
        hardware="a CPU core",
    )(build)


_EXPECTED: dict[PedestrianScene, float] = {
    "eth": 0.765,
    "hotel": 0.179,
    "univ": 0.404,
    "zara1": 0.318,
    "zara2": 0.236,
}
for _scene, _score in _EXPECTED.items():
    _register(_scene, _score)
