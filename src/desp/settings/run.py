"""Settings of a whole run."""

from dataclasses import dataclass, field
from typing import Any

from desp.settings.base import Device, Engine, MatmulPrecision
from desp.settings.codec import to_json
from desp.settings.diffusion import EnergyDenoisingSettings
from desp.settings.methods import MethodSettings
from desp.settings.migrations import SCHEMA
from desp.settings.representation import RepresentationSettings
from desp.settings.tasks import TaskSettings
from desp.settings.training import TrainingSettings
from desp.settings.types import Checked


@dataclass(frozen=True)
class RunSettings(Checked):
    """A whole run: everything that decides its result, but for the seed and the machine."""

    recipe: str
    """Name of the recipe these settings came from; `desp train RECIPE` sets it, so leave this flag out."""
    task: TaskSettings
    """Where data come from and how predictions are scored."""
    method: MethodSettings = field(default_factory=EnergyDenoisingSettings)
    """How the model is trained and how sets are sampled from it."""
    representation: RepresentationSettings = field(default_factory=RepresentationSettings)
    """How sets become tensors."""
    training: TrainingSettings = field(default_factory=TrainingSettings)
    """The training loop."""
    engine: Engine = "auto"
    """How sampling chains run: eager, compiled (torch.compile of the gradient), graph (one CUDA graph), or auto.
    On a GPU, graph and auto also capture whole training steps."""
    device: Device = "auto"
    """Where to run."""
    matmul_precision: MatmulPrecision = "high"
    """float32 matrix products with tf32 where the device has it (high), in full precision (highest), or as torch's
    medium (medium), which also runs an energy's or denoiser's layers in bfloat16 in the steps of samplers, in the
    energies that denoising methods report, in the check of mask_divergent, and in training a denoiser; encoders,
    TSPN and the detector keep float32 tensors."""


def saved_run(settings: RunSettings, seed: int, fingerprint: str | None) -> dict[str, Any]:
    """What ``settings.json`` of a new run folder holds; `fingerprint`: a checksum of its data."""
    saved = {"schema": SCHEMA, **to_json(settings)}
    return {"recipe": settings.recipe, "seed": seed, "settings": saved, "data_fingerprint": fingerprint}
