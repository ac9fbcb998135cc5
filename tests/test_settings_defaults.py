"""The defaults of all settings, once more: whoever changes one changes what all get who do not name it."""

from typing import Any

import pytest

from desp.settings import (
    AttentionSettings,
    ContrastiveSettings,
    DeepSetsSettings,
    DenoisingSettings,
    DigitsSettings,
    DirectSettings,
    FilesSettings,
    LangevinSettings,
    MnistSettings,
    PaddingSettings,
    PolygonsSettings,
    PooledLayersSettings,
    PredictorSettings,
    RunSettings,
    SetEncoderSettings,
    SetRiskSettings,
    SolverSettings,
    TrainingSettings,
    TransformerSettings,
    from_json,
    to_json,
)

LANGEVIN = {
    "steps": 60,
    "stochastic_steps": 48,
    "noise_scale": 0.015,
    "last_noise": None,
    "step_size": 1.0,
    "noise_first": True,
    "momentum": 0.0,
    "largest_step": None,
    "tries": 1,
    "from_tries": "lowest",
    "kind": "langevin",
}
SOLVER = {
    "kind": "solver",
    "steps": 20,
    "order": 2,
    "highest": 20.0,
    "lowest": 0.002,
    "spacing": 7.0,
    "stochasticity": 0.0,
    "refinement": 0,
    "matching": 0,
    "sizes": "drawn",
}
POOLED_LAYERS = {"kind": "pooled-layers", "hidden": 128, "layers": 2, "pooling": "fspool"}
DENOISING = {
    "kind": "denoising",
    "sizes": "first",
    "mean_log_level": -1.2,
    "deviation_log_level": 1.5,
    "data_deviation": 0.5,
    "energy_level": 0.05,
    "size_weight": 1.0,
    "size_head": "free",
}
PADDING = {"kind": "presence", "threshold": None, "rule": "every"}
TRAINING = {
    "steps": 2000,
    "batch_size": 64,
    "size_groups": 1,
    "learning_rate": 1e-3,
    "betas": (0.9, 0.999),
    "warmup_steps": 100,
    "decay": "cosine",
    "clip_norm": 1.0,
    "ema_decay": 0.995,
    "validate_every": 0,
    "patience": None,
    "best_is": "lowest",
    "checkpoint_every": 500,
    "log_every": 10,
    "on_nonfinite": "rollback",
    "data_workers": 0,
    "tensorboard": False,
}
PREDICTOR = {
    "energy": POOLED_LAYERS,
    "estimator": DENOISING,
    "sampler": SOLVER,
    "padding": PADDING,
    "scaling": "auto",
    "max_size": None,
    "code": None,
    "categories": (),
}
DEFAULTS: dict[type, dict[str, Any]] = {
    LangevinSettings: LANGEVIN,
    SolverSettings: SOLVER,
    PooledLayersSettings: POOLED_LAYERS,
    DenoisingSettings: DENOISING,
    PaddingSettings: PADDING,
    TrainingSettings: TRAINING,
    PredictorSettings: PREDICTOR,
    DeepSetsSettings: {
        "kind": "deep-sets",
        "hidden": 128,
        "element_layers": 3,
        "set_layers": 3,
        "pooling": "fspool",
        "divide_by_size": True,
    },
    SetEncoderSettings: {
        "kind": "set-encoder",
        "hidden": 256,
        "layers": 3,
        "latent": 64,
        "pooling": "fspool",
        "divide_by_size": False,
        "shared": False,
        "negative_slope": 0.01,
        "initialisation": "default",
    },
    AttentionSettings: {
        "kind": "attention",
        "hidden": 128,
        "layers": 3,
        "heads": 4,
        "waves": 8,
        "field": False,
    },
    TransformerSettings: {
        "kind": "transformer",
        "hidden": 256,
        "layers": 3,
        "heads": 4,
        "feedforward": 1024,
        "latent": 64,
    },
    ContrastiveSettings: {
        "kind": "contrastive",
        "chain": {**LANGEVIN, "stochastic_steps": 60},
        "data_noise": 0.02,
        "energy_penalty": 0.0,
        "spare_runaways": False,
        "most_runaways": 0.05,
        "replay": 0.0,
        "replay_capacity": 4096,
    },
    SetRiskSettings: {
        "kind": "set-risk",
        "distance": "chamfer",
        "steps": 20,
        "step_size": 1.0,
        "scored": "last",
        "sizes": "descended",
        "size_weight": 1.0,
        "size_hidden": 128,
        "representation_weight": 0.0,
    },
    DirectSettings: {"kind": "direct", "size_weight": 1.0, "size_hidden": 128},
    PolygonsSettings: {"kind": "polygons", "corners": (4, 5, 6, 7, 8)},
    DigitsSettings: {"kind": "digits"},
    FilesSettings: {"kind": "files", "path": "", "held_out": 0.1},
    MnistSettings: {"kind": "mnist", "variant": "mnist", "data_dir": "", "shifted": 0.0},
}


@pytest.mark.parametrize("cls", DEFAULTS, ids=lambda cls: cls.__name__)
def test_defaults_stay_as_they_are(cls: type) -> None:
    assert to_json(cls()) == DEFAULTS[cls]


def test_defaults_of_a_run_and_of_the_contrastive_predictor() -> None:
    run = to_json(RunSettings(recipe="mine", task=DigitsSettings()))
    assert run == {
        "recipe": "mine",
        "task": {"kind": "digits"},
        "predictor": PREDICTOR,
        "training": TRAINING,
        "engine": "auto",
        "device": "auto",
        "matmul_precision": "high",
    }
    contrastive = to_json(PredictorSettings.contrastive())
    assert contrastive == {
        **PREDICTOR,
        "energy": DEFAULTS[DeepSetsSettings],
        "estimator": DEFAULTS[ContrastiveSettings],
        "sampler": LANGEVIN,
        "padding": contrastive["padding"],
    }
    assert contrastive["padding"] == PADDING


def test_whole_numbers_become_those_that_are_asked_for() -> None:
    """JSON writes 1 for 1.0; settings that compare and hash as equal should print as equal, too."""
    found = from_json(TrainingSettings, {"learning_rate": 1, "steps": 3, "clip_norm": 2})
    assert [type(value) for value in (found.learning_rate, found.steps, found.clip_norm)] == [float, int, float]
