"""The defaults of all settings, once more: whoever changes one changes what all get who do not name it."""

from typing import Any

import pytest

from desp.settings import (
    AttentionSettings,
    AutoregressiveTaggerSettings,
    BoxDenoiserSettings,
    CelebaSettings,
    ClevrSettings,
    ContrastiveSettings,
    ConvEncoderSettings,
    DataDescription,
    DeepSetsSettings,
    DenoiserSettings,
    DescentSettings,
    DetectorSettings,
    DigitsSettings,
    EDMSettings,
    EncoderSettings,
    EnergyDenoisingSettings,
    EnergySettings,
    FilesSettings,
    FSPoolSetEncoderSettings,
    InMemorySettings,
    LabelLikelihoodSettings,
    LabelSamplerSettings,
    LangevinSettings,
    MethodSettings,
    MLPEncoderSettings,
    MnistSettings,
    PedestriansSettings,
    PolygonsSettings,
    PooledLayersSettings,
    PyramidEncoderSettings,
    RepresentationSettings,
    ResNet34EncoderSettings,
    RunSettings,
    SamplerSettings,
    ScalingEncoderSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
    SumPooledSetEncoderSettings,
    TaggerSettings,
    TaskSettings,
    TrainingSettings,
    TSPNSettings,
    from_json,
    to_json,
)

LANGEVIN = {
    "steps": 60,
    "stochastic_steps": 48,
    "noise_scale": 0.015,
    "final_noise_scale": None,
    "step_size": 1.0,
    "noise_first": True,
    "momentum": 0.0,
    "max_step_norm": None,
    "restarts": 1,
    "aggregate": "lowest",
    "kind": "langevin",
}
EDM = {
    "kind": "edm",
    "steps": 20,
    "order": 2,
    "sigma_max": 20.0,
    "sigma_min": 0.002,
    "rho": 7.0,
    "churn": 0.0,
    "temperature": 1.0,
    "cardinality": "sampled",
}
POOLED_LAYERS = {"kind": "pooled-layers", "hidden": 128, "layers": 2, "pooling": "softmax"}
DIFFUSION = {
    "encoder": None,
    "cardinality": "predicted",
    "cardinality_weight": 1.0,
    "p_mean": -1.2,
    "p_std": 1.5,
    "sigma_data": 0.5,
    "noise_draws": 1,
    "sampler": EDM,
}
DENOISING = {
    "kind": "energy-denoising",
    **DIFFUSION,
    "standardise_codes": False,
    "energy": POOLED_LAYERS,
    "training_rows": None,
    "energy_sigma": 0.05,
}
REPRESENTATION = {
    "padding": "presence",
    "threshold": None,
    "presence_rule": "all_above",
    "max_size": None,
    "scaling": "auto",
}
DESCRIPTION = {
    "input_kind": None,
    "aligned": False,
    "categories": (),
    "boxes": (),
    "class_names": (),
    "position": (),
    "input_columns": (),
    "feature_columns": (),
    "feature_units": (),
}
DESCENT = {"kind": "descent", "steps": 20, "step_size": 1.0}
DEEP_SETS = {
    "kind": "deep-sets",
    "hidden": 128,
    "element_layers": 3,
    "set_layers": 3,
    "pooling": "fspool",
    "divide_by_size": True,
}
ATTENTION = {
    "kind": "attention",
    "hidden": 128,
    "layers": 3,
    "heads": 4,
    "fourier_frequencies": 8,
    "local_heads": True,
}
TRAINING = {
    "steps": 2000,
    "minutes": None,
    "batch_size": 64,
    "elements_per_batch": None,
    "learning_rate": 1e-3,
    "betas": (0.9, 0.999),
    "warmup_steps": 100,
    "lr_schedule": "cosine",
    "clip_norm": 1.0,
    "ema_decay": 0.995,
    "validate_every": 0,
    "patience": None,
    "validation_mode": "min",
    "keep": "best",
    "checkpoint_every": 500,
    "log_every": 10,
    "on_divergence": "rollback",
    "data_workers": 0,
    "tensorboard": False,
}
DEFAULTS: dict[type, dict[str, Any]] = {
    LangevinSettings: LANGEVIN,
    EDMSettings: EDM,
    DescentSettings: DESCENT,
    PooledLayersSettings: POOLED_LAYERS,
    EnergyDenoisingSettings: DENOISING,
    DenoiserSettings: {"kind": "denoiser", **DIFFUSION, "standardise_codes": False, "network": ATTENTION},
    BoxDenoiserSettings: {
        "kind": "box-denoiser",
        **DIFFUSION,
        "cardinality_weight": 0.1,
        "p_mean": -2.0,
        "p_std": 1.7,
        "noise_draws": 4,
        "sampler": {**EDM, "cardinality": "mode"},
        "hidden": 256,
        "layers": 4,
        "heads": 8,
        "fourier_frequencies": 8,
        "points": 6,
        "centre_weight": 0.1,
    },
    DetectorSettings: {"kind": "detector", "encoder": None, "hidden": 128},
    RepresentationSettings: REPRESENTATION,
    TrainingSettings: TRAINING,
    DeepSetsSettings: DEEP_SETS,
    AttentionSettings: ATTENTION,
    SetEncoderEnergySettings: {
        "kind": "set-encoder",
        "hidden": 256,
        "layers": 3,
        "latent": 64,
        "pooling": "fspool",
        "divide_by_size": False,
        "shared": False,
        "negative_slope": 0.01,
        "initialisation": "default",
        "pairs": False,
    },
    LabelSamplerSettings: {"kind": "labels", "min_probability": None},
    TaggerSettings: {
        "kind": "tagger",
        "encoder": None,
        "hidden": 256,
        "layers": 4,
        "labels": (0.0, 1.0),
        "sampler": {"kind": "labels", "min_probability": 1.0},
    },
    AutoregressiveTaggerSettings: {
        "kind": "autoregressive-tagger",
        "encoder": None,
        "hidden": 256,
        "layers": 4,
        "labels": (0.0, 1.0),
    },
    LabelLikelihoodSettings: {
        "kind": "label-likelihood",
        "encoder": None,
        "energy": {**DEEP_SETS, "divide_by_size": False},
        "labels": (0.0, 1.0),
        "sampler": {"kind": "labels", "min_probability": None},
    },
    TSPNSettings: {
        "kind": "tspn",
        "encoder": None,
        "hidden": 256,
        "layers": 3,
        "heads": 4,
        "feedforward": 1024,
        "latent": 64,
        "cardinality_weight": 1.0,
        "cardinality_hidden": 128,
    },
    ContrastiveSettings: {
        "kind": "contrastive",
        "encoder": None,
        "energy": DEEP_SETS,
        "training_sampler": {**LANGEVIN, "stochastic_steps": 60},
        "sampler": LANGEVIN,
        "data_noise": 0.02,
        "start_noise": None,
        "infonce_temperature": None,
        "real_energy_weight": 0.0,
        "mask_divergent": False,
        "max_divergent_fraction": 0.05,
    },
    SetRiskSettings: {
        "kind": "set-risk",
        "encoder": None,
        "energy": DEEP_SETS,
        "distance": "chamfer",
        "descent": DESCENT,
        "sampler": None,
        "supervise": "last",
        "cardinality": "descended",
        "cardinality_weight": 1.0,
        "cardinality_hidden": 128,
        "representation_weight": 0.0,
    },
    ScalingEncoderSettings: {"kind": "scaling"},
    MLPEncoderSettings: {
        "kind": "mlp",
        "hidden": 128,
        "out": 128,
        "standardise_codes": False,
        "initialisation": "default",
        "layers": 3,
        "sigmoid": False,
    },
    ConvEncoderSettings: {
        "kind": "conv",
        "hidden": 128,
        "out": 128,
        "standardise_codes": False,
        "initialisation": "default",
    },
    PyramidEncoderSettings: {"kind": "pyramid", "hidden": 64, "out": 128},
    ResNet34EncoderSettings: {
        "kind": "resnet34",
        "out": 512,
        "standardise_codes": False,
        "initialisation": "default",
        "weights": "",
    },
    SumPooledSetEncoderSettings: {
        "kind": "sum-pooled-set",
        "hidden": 128,
        "out": 128,
        "standardise_codes": False,
        "initialisation": "default",
        "fourier_frequencies": 8,
        "with_maximum": False,
    },
    FSPoolSetEncoderSettings: {
        "kind": "fspool-set",
        "hidden": 256,
        "out": 64,
        "presence_as_feature": False,
        "standardise_codes": False,
        "initialisation": "default",
    },
    PolygonsSettings: {"kind": "polygons", "corners": (4, 5, 6, 7, 8)},
    DigitsSettings: {"kind": "digits"},
    FilesSettings: {
        "kind": "files",
        "path": "",
        "description": DESCRIPTION,
        "held_out": 0.1,
        "split": "inputs",
        "image_size": 0,
        "set_column": "set",
        "id_column": "id",
    },
    InMemorySettings: {"kind": "given", "held_out": False, "path": ""},
    DataDescription: DESCRIPTION,
    MnistSettings: {"kind": "mnist", "dataset": "mnist", "data_dir": "", "translate_fraction": 0.0},
    CelebaSettings: {
        "kind": "celeba",
        "source": "files",
        "data_dir": "",
        "feature_noise": 0.0,
        "simulated_noise": 0.7,
    },
    PedestriansSettings: {
        "kind": "pedestrians",
        "source": "files",
        "data_dir": "",
        "scene": "eth",
        "largest_scale": 2.0,
        "drawn": 160,
    },
    ClevrSettings: {
        "kind": "clevr",
        "source": "files",
        "predict": "boxes",
        "scenes": 20_000,
        "data_dir": "",
        "augment": True,
    },
}


@pytest.mark.parametrize("cls", DEFAULTS, ids=lambda cls: cls.__name__)
def test_defaults_stay_as_they_are(cls: type) -> None:
    assert to_json(cls()) == DEFAULTS[cls]


def test_all_variants_have_their_defaults_here() -> None:
    families = (MethodSettings, EnergySettings, SamplerSettings, EncoderSettings, TaskSettings)
    variants = {variant for family in families for variant in family.kinds().values()}
    own = {variant for variant in variants if variant.__module__.startswith("desp.")}
    assert set(DEFAULTS) == own | {DataDescription, RepresentationSettings, TrainingSettings}


def test_defaults_of_a_run() -> None:
    run = to_json(RunSettings(recipe="mine", task=DigitsSettings()))
    assert run == {
        "recipe": "mine",
        "task": {"kind": "digits"},
        "method": DENOISING,
        "representation": REPRESENTATION,
        "training": TRAINING,
        "engine": "auto",
        "device": "auto",
        "matmul_precision": "high",
    }


def test_whole_numbers_become_those_that_are_asked_for() -> None:
    """JSON writes 1 for 1.0; settings that compare and hash as equal should print as equal, too."""
    found = from_json(TrainingSettings, {"learning_rate": 1, "steps": 3, "clip_norm": 2})
    assert [type(value) for value in (found.learning_rate, found.steps, found.clip_norm)] == [float, int, float]
