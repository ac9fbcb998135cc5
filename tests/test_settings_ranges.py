"""Settings that cannot work are refused by name, in code and in files."""

from typing import Any

import pytest

from desp.errors import SettingsError
from desp.settings import (
    AttentionSettings,
    ContrastiveSettings,
    ConvEncoderSettings,
    DeepSetsSettings,
    DenoiserSettings,
    DenoisingSettings,
    DescentSettings,
    FilesSettings,
    FSPoolSetEncoderSettings,
    LangevinSettings,
    MLPEncoderSettings,
    MnistSettings,
    PolygonsSettings,
    PooledLayersSettings,
    RepresentationSettings,
    ResNet34EncoderSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
    SumPooledSetEncoderSettings,
    TrainingSettings,
    TSPNSettings,
    from_json,
)

NAN = float("nan")


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (DeepSetsSettings, {"hidden": 0}, "hidden must be positive, got 0"),
        (DeepSetsSettings, {"element_layers": 0}, "element_layers must be "),
        (DeepSetsSettings, {"set_layers": -1}, "set_layers must be "),
        (SetEncoderEnergySettings, {"hidden": 0}, "hidden must be "),
        (SetEncoderEnergySettings, {"layers": 0}, "layers must be "),
        (SetEncoderEnergySettings, {"latent": 0}, "latent must be "),
        (RepresentationSettings, {"threshold": 1.0}, "threshold must be at least 0 and below 1"),
        (RepresentationSettings, {"threshold": -0.1}, "threshold must be "),
        (RepresentationSettings, {"threshold": NAN}, "threshold must be "),
        (LangevinSettings, {"steps": 0}, "steps must be positive"),
        (
            LangevinSettings,
            {"steps": 5, "stochastic_steps": 6},
            r"stochastic_steps must be between 0 and the steps of the same chain \(5\), got 6",
        ),
        (LangevinSettings, {"stochastic_steps": -1}, "stochastic_steps must be "),
        (LangevinSettings, {"noise_scale": -1.0}, "noise_scale must be "),
        (LangevinSettings, {"noise_scale": NAN}, "noise_scale must be "),
        (LangevinSettings, {"step_size": 0.0}, "step_size must be "),
        (ContrastiveSettings, {"data_noise": -0.1}, "data_noise must be "),
        (DescentSettings, {"steps": 0}, "steps must be "),
        (DescentSettings, {"step_size": 0.0}, "step_size must be "),
        (SetRiskSettings, {"cardinality_weight": -1.0}, "cardinality_weight must be "),
        (SetRiskSettings, {"cardinality_hidden": 0}, "cardinality_hidden must be "),
        (SetRiskSettings, {"representation_weight": -1.0}, "representation_weight must be "),
        (
            SetRiskSettings,
            {"cardinality": "predicted", "distance": "hungarian"},
            "distance must be chamfer where the cardinality",
        ),
        (TSPNSettings, {"cardinality_weight": -1.0}, "cardinality_weight must be "),
        (TSPNSettings, {"cardinality_hidden": 0}, "cardinality_hidden must be "),
        (TSPNSettings, {"layers": 0}, "layers must be "),
        (TSPNSettings, {"hidden": 6}, r"heads must be a divisor of hidden \(6\), got 4"),
        (PooledLayersSettings, {"hidden": 0}, "hidden must be positive"),
        (PooledLayersSettings, {"layers": 0}, "layers must be positive"),
        (AttentionSettings, {"heads": 3}, r"heads must be a divisor of hidden \(128\), got 3"),
        (AttentionSettings, {"layers": 0}, "layers must be positive"),
        (AttentionSettings, {"fourier_frequencies": -1}, "fourier_frequencies must be at least 0"),
        (MLPEncoderSettings, {"hidden": 0}, "hidden must be positive"),
        (MLPEncoderSettings, {"out": 0}, "out must be positive"),
        (ConvEncoderSettings, {"out": 0}, "out must be positive"),
        (ResNet34EncoderSettings, {"out": 0}, "out must be positive"),
        (
            ResNet34EncoderSettings,
            {"weights": "resnet34.pth"},
            r"weights must be a \.safetensors file, as pickles are not read \(to convert one: .*save_file.*"
            r"weights_only=True.*, got 'resnet34\.pth'",
        ),
        (FSPoolSetEncoderSettings, {"out": 0}, "out must be positive"),
        (SumPooledSetEncoderSettings, {"hidden": 0}, "hidden must be positive"),
        (SumPooledSetEncoderSettings, {"fourier_frequencies": -1}, "fourier_frequencies must be at least 0"),
        (DenoisingSettings, {"p_std": 0.0}, "p_std must be positive"),
        (DenoisingSettings, {"sigma_data": 0.0}, "sigma_data must be positive"),
        (DenoisingSettings, {"energy_sigma": 0.0}, "energy_sigma must be positive"),
        (DenoisingSettings, {"cardinality_weight": -1.0}, "cardinality_weight must be at least 0"),
        (DenoiserSettings, {"p_std": 0.0}, "p_std must be positive"),
        (DenoiserSettings, {"cardinality_weight": -1.0}, "cardinality_weight must be at least 0"),
        (TrainingSettings, {"betas": (0.9, 1.0)}, "betas must be two numbers of at least 0 and below 1"),
        (SetEncoderEnergySettings, {"negative_slope": -0.1}, "negative_slope must be at least 0"),
        (TrainingSettings, {"steps": 0}, "steps must be "),
        (TrainingSettings, {"batch_size": 0}, "batch_size must be "),
        (TrainingSettings, {"checkpoint_every": 0}, "checkpoint_every must be "),
        (TrainingSettings, {"log_every": 0}, "log_every must be "),
        (TrainingSettings, {"warmup_steps": -1}, "warmup_steps must be "),
        (TrainingSettings, {"validate_every": -1}, "validate_every must be "),
        (TrainingSettings, {"data_workers": -1}, "data_workers must be "),
        (TrainingSettings, {"learning_rate": 0.0}, "learning_rate must be "),
        (TrainingSettings, {"learning_rate": NAN}, "learning_rate must be "),
        (TrainingSettings, {"clip_norm": 0.0}, "clip_norm must be positive or None"),
        (TrainingSettings, {"ema_decay": 1.0}, "ema_decay must be "),
        (TrainingSettings, {"ema_decay": 0.0}, "ema_decay must be "),
        (TrainingSettings, {"patience": 3}, "patience must be positive, with validate_every above 0"),
        (TrainingSettings, {"patience": 0, "validate_every": 5}, "patience must be "),
        (RepresentationSettings, {"max_size": 0}, "max_size must be positive or None"),
        (PolygonsSettings, {"corners": ()}, "corners must be distinct whole numbers, each at least 3"),
        (PolygonsSettings, {"corners": (4, 4)}, "corners must be "),
        (PolygonsSettings, {"corners": (2, 4)}, "corners must be "),
        (FilesSettings, {"held_out": 0.0}, "held_out must be "),
        (FilesSettings, {"held_out": 1.0}, "held_out must be "),
        (MnistSettings, {"translate_fraction": -0.1}, "translate_fraction must be "),
        (MnistSettings, {"translate_fraction": 1.1}, "translate_fraction must be "),
        (MnistSettings, {"translate_fraction": float("nan")}, "translate_fraction must be "),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_values_out_of_range(cls: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=f"^{message}"):
        cls(**values)
    with pytest.raises(SettingsError, match=f"^{message}"):
        from_json(cls, values)
