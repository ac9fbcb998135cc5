"""Settings: checked when built, and the same after a trip through JSON."""

import dataclasses
import json
import subprocess
import sys
from typing import Any

import pytest

from desp import settings as module
from desp.errors import SettingsError
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

ZERO = PaddingSettings(kind="zero")
DENOISING: dict[str, Any] = {"estimator": DenoisingSettings(), "sampler": SolverSettings()}
# For every class: values that differ from the defaults in each field.
EXAMPLES: list[Any] = [
    DeepSetsSettings(hidden=7, element_layers=1, set_layers=2, pooling="max", divide_by_size=False),
    SetEncoderSettings(
        hidden=7,
        layers=2,
        latent=5,
        pooling="sum",
        divide_by_size=True,
        shared=True,
        negative_slope=0.0,
        initialisation="xavier",
    ),
    TransformerSettings(hidden=6, layers=2, heads=3, feedforward=5, latent=7),
    DirectSettings(size_weight=0.5, size_hidden=9),
    PooledLayersSettings(hidden=7, layers=3, pooling="mean"),
    AttentionSettings(hidden=6, layers=2, heads=3, waves=1),
    SolverSettings(
        steps=3,
        order=1,
        highest=9.0,
        lowest=0.1,
        spacing=1.0,
        stochasticity=0.2,
        refinement=4,
        matching=5,
        sizes="likeliest",
    ),
    DenoisingSettings(
        sizes="first",
        mean_log_level=0.5,
        deviation_log_level=2.0,
        data_deviation=0.3,
        energy_level=0.1,
        size_weight=0.5,
        size_head="ordered",
    ),
    PaddingSettings(kind="zero", threshold=0.015, rule="any"),
    LangevinSettings(
        steps=7,
        stochastic_steps=3,
        noise_scale=0.5,
        step_size=2.0,
        noise_first=False,
        momentum=0.5,
        largest_step=0.1,
        last_noise=0.2,
        tries=3,
        from_tries="mean",
    ),
    ContrastiveSettings(
        chain=LangevinSettings(steps=9, stochastic_steps=9, largest_step=0.3),
        data_noise=0.1,
        energy_penalty=0.5,
        spare_runaways=True,
        replay=0.9,
        replay_capacity=7,
    ),
    SetRiskSettings(
        distance="hungarian", steps=3, step_size=0.5, scored="all", sizes="clamped", representation_weight=0.1
    ),
    TrainingSettings(
        steps=1,
        batch_size=2,
        learning_rate=0.5,
        betas=(0.0, 0.99),
        warmup_steps=3,
        decay="cosine",
        clip_norm=0.1,
        ema_decay=0.9,
        validate_every=4,
        patience=5,
        best_is="highest",
        checkpoint_every=6,
        log_every=7,
        on_nonfinite="rollback",
        data_workers=8,
        tensorboard=True,
    ),
    PredictorSettings(
        energy=DeepSetsSettings(hidden=3),
        estimator=SetRiskSettings(steps=4),
        sampler=LangevinSettings(steps=200),
        padding=PaddingSettings(kind="zero"),
        scaling="none",
        max_size=12,
        code=5,
        categories=((0, 2), (3, 5)),
    ),
    PolygonsSettings(corners=(3, 5)),
    DigitsSettings(),
    FilesSettings(path="a.jsonl", held_out=0.5),
    MnistSettings(variant="fashion", data_dir="somewhere"),
    RunSettings(
        recipe="mine",
        task=FilesSettings(path="b.npz"),
        predictor=PredictorSettings.contrastive(energy=SetEncoderSettings()),
        training=TrainingSettings(steps=3),
        engine="eager",
        device="cpu",
        matmul_precision="high",
    ),
]
CLASSES = [value for value in vars(module).values() if dataclasses.is_dataclass(value) and isinstance(value, type)]


def test_every_class_has_an_example() -> None:
    assert {type(example) for example in EXAMPLES} == set(CLASSES)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_settings_survive_json(example: Any) -> None:
    text = json.dumps(to_json(example), allow_nan=False)
    assert from_json(type(example), json.loads(text)) == example


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_settings_cannot_be_changed(example: Any) -> None:
    field = dataclasses.fields(example)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(example, field, getattr(example, field))


def test_left_out_settings_have_their_defaults() -> None:
    assert from_json(PredictorSettings, {}) == PredictorSettings()
    assert from_json(TrainingSettings, {"steps": 5}) == TrainingSettings(steps=5)


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (TrainingSettings, {"step": 5}, "Unknown setting 'step'. Did you mean 'steps'?"),
        (TrainingSettings, {"learning_rte": 5}, "Did you mean 'learning_rate'?"),
        (DigitsSettings, {"zzz": 5}, "Unknown setting 'zzz'. Known settings: kind"),
        (
            PredictorSettings,
            {"sampler": {"noise_scal": 1}},
            "Unknown setting 'sampler.noise_scal'. Did you mean 'noise_scale'?",
        ),
        (
            RunSettings,
            {"predictor": {"energy": {"kind": "deep-sets", "hiden": 1}}},
            "Unknown setting 'predictor.energy.hiden'. Did you mean 'hidden'?",
        ),
    ],
)
def test_unknown_names_suggest_the_nearest(cls: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        from_json(cls, values)
    assert message in str(caught.value)


def test_unions_are_told_apart_by_kind() -> None:
    assert from_json(PredictorSettings, {"energy": {"kind": "deep-sets"}}).energy == DeepSetsSettings()
    values = {"estimator": {"kind": "set-risk"}, "sampler": {"kind": "langevin"}}
    assert from_json(PredictorSettings, values).estimator == SetRiskSettings()
    run = from_json(RunSettings, {"recipe": "r", "task": {"kind": "polygons", "corners": [3]}})
    assert run.task == PolygonsSettings(corners=(3,))


@pytest.mark.parametrize("energy", [{"kind": "other"}, {}, {"kind": None}])
def test_unknown_kinds(energy: dict[str, Any]) -> None:
    kinds = r"\['attention', 'deep-sets', 'pooled-layers', 'set-encoder', 'transformer'\]"
    with pytest.raises(SettingsError, match=f"energy.kind must be one of {kinds}"):
        from_json(PredictorSettings, {"energy": energy})


def test_samplers_of_before_there_were_two_kinds() -> None:
    values = {"estimator": {"kind": "contrastive"}, "sampler": {"steps": 100, "stochastic_steps": 80}}
    settings = from_json(PredictorSettings, values)
    assert settings.sampler == LangevinSettings(steps=100, stochastic_steps=80)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampler": LangevinSettings()}, "sampler.kind must be solver for estimator denoising"),
        ({"estimator": ContrastiveSettings()}, "sampler.kind must be langevin for contrastive"),
        ({**DENOISING, "padding": PaddingSettings(kind="zero")}, "padding.kind must be presence where sizes come"),
        (
            {**DENOISING, "energy": SetEncoderSettings()},
            "energy.kind must be pooled-layers, attention or deep-sets",
        ),
        ({"energy": TransformerSettings()}, "estimator.kind must be direct for the transformer"),
        ({"estimator": DirectSettings()}, "energy.kind must be transformer for estimator direct"),
        (
            {"energy": TransformerSettings(), "estimator": DirectSettings(), "padding": ZERO},
            "padding.kind must be presence for the transformer",
        ),
        ({"estimator": SetRiskSettings(sizes="clamped"), "padding": ZERO}, "padding.kind must be presence"),
        ({"estimator": SetRiskSettings(sizes="first"), "padding": ZERO}, "padding.kind must be presence"),
        ({"estimator": SetRiskSettings(representation_weight=1.0)}, "energy.kind must be set-encoder where"),
    ],
)
def test_parts_that_do_not_fit_each_other(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        PredictorSettings(**changes)


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (DeepSetsSettings, {"pooling": "median"}, r"pooling must be one of .*'fspool'.* got 'median'"),
        (DeepSetsSettings, {"kind": "set-encoder"}, "kind must be one of"),
        (PredictorSettings, {"padding": {"kind": "none"}}, "padding.kind must be one of"),
        (RunSettings, {"task": {"kind": "digits"}}, "Incomplete settings for RunSettings.*recipe"),
        (PredictorSettings, {"energy": 5}, "energy"),
        (PredictorSettings, {"sampler": None}, "sampler"),
        (DeepSetsSettings, {"hidden": "many"}, "hidden|DeepSetsSettings"),
    ],
)
def test_values_from_json_are_checked(cls: Any, values: dict[str, Any], message: str, unchecked: None) -> None:
    with pytest.raises(SettingsError, match=message):
        from_json(cls, values)


NAN = float("nan")


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (DeepSetsSettings, {"hidden": 0}, "energy.hidden must be positive, got 0"),
        (DeepSetsSettings, {"element_layers": 0}, "energy.element_layers"),
        (DeepSetsSettings, {"set_layers": -1}, "energy.set_layers"),
        (SetEncoderSettings, {"hidden": 0}, "energy.hidden"),
        (SetEncoderSettings, {"layers": 0}, "energy.layers"),
        (SetEncoderSettings, {"latent": 0}, "energy.latent"),
        (PaddingSettings, {"threshold": 1.0}, "padding.threshold must be at least 0 and below 1"),
        (PaddingSettings, {"threshold": -0.1}, "padding.threshold"),
        (PaddingSettings, {"threshold": NAN}, "padding.threshold"),
        (LangevinSettings, {"steps": 0}, "steps must be positive"),
        (
            LangevinSettings,
            {"steps": 5, "stochastic_steps": 6},
            r"between 0 and the steps of the same chain \(5\), got 6",
        ),
        (LangevinSettings, {"stochastic_steps": -1}, "stochastic_steps"),
        (LangevinSettings, {"noise_scale": -1.0}, "noise_scale"),
        (LangevinSettings, {"noise_scale": NAN}, "noise_scale"),
        (LangevinSettings, {"step_size": 0.0}, "step_size"),
        (ContrastiveSettings, {"data_noise": -0.1}, "estimator.data_noise"),
        (SetRiskSettings, {"steps": 0}, "estimator.steps"),
        (SetRiskSettings, {"step_size": 0.0}, "estimator.step_size"),
        (SetRiskSettings, {"size_weight": -1.0}, "estimator.size_weight"),
        (SetRiskSettings, {"size_hidden": 0}, "estimator.size_hidden"),
        (SetRiskSettings, {"representation_weight": -1.0}, "estimator.representation_weight"),
        (
            SetRiskSettings,
            {"sizes": "first", "distance": "hungarian"},
            "estimator.distance must be chamfer where sizes",
        ),
        (DirectSettings, {"size_weight": -1.0}, "estimator.size_weight"),
        (DirectSettings, {"size_hidden": 0}, "estimator.size_hidden"),
        (TransformerSettings, {"layers": 0}, "energy.layers"),
        (TransformerSettings, {"hidden": 6}, r"energy.hidden must be a multiple of energy.heads \(4\)"),
        (SetEncoderSettings, {"negative_slope": -0.1}, "energy.negative_slope must be at least 0"),
        (TrainingSettings, {"steps": 0}, "training.steps"),
        (TrainingSettings, {"batch_size": 0}, "training.batch_size"),
        (TrainingSettings, {"checkpoint_every": 0}, "training.checkpoint_every"),
        (TrainingSettings, {"log_every": 0}, "training.log_every"),
        (TrainingSettings, {"warmup_steps": -1}, "training.warmup_steps"),
        (TrainingSettings, {"validate_every": -1}, "training.validate_every"),
        (TrainingSettings, {"data_workers": -1}, "training.data_workers"),
        (TrainingSettings, {"learning_rate": 0.0}, "training.learning_rate"),
        (TrainingSettings, {"learning_rate": NAN}, "training.learning_rate"),
        (TrainingSettings, {"clip_norm": 0.0}, "training.clip_norm must be positive or None"),
        (TrainingSettings, {"ema_decay": 1.0}, "training.ema_decay"),
        (TrainingSettings, {"ema_decay": 0.0}, "training.ema_decay"),
        (TrainingSettings, {"patience": 3}, "with training.validate_every above 0"),
        (TrainingSettings, {"patience": 0, "validate_every": 5}, "training.patience"),
        (PredictorSettings, {"max_size": 0}, "max_size must be positive or None"),
        (PolygonsSettings, {"corners": ()}, "task.corners must be different numbers of 3 or more"),
        (PolygonsSettings, {"corners": (4, 4)}, "task.corners"),
        (PolygonsSettings, {"corners": (2, 4)}, "task.corners"),
        (FilesSettings, {"held_out": 0.0}, "task.held_out"),
        (FilesSettings, {"held_out": 1.0}, "task.held_out"),
        (MnistSettings, {"shifted": -0.1}, "task.shifted"),
        (MnistSettings, {"shifted": 1.1}, "task.shifted"),
        (MnistSettings, {"shifted": float("nan")}, "task.shifted"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_values_out_of_range(cls: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        cls(**values)
    with pytest.raises(SettingsError, match=message):
        from_json(cls, values)


@pytest.mark.parametrize("name", ["desp", "desp.settings"])
def test_settings_load_without_torch(name: str) -> None:
    code = f"import sys, {name}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_groups_of_like_size_are_for_those_that_can_use_them() -> None:
    training, energy = TrainingSettings(size_groups=4), AttentionSettings(hidden=8)
    run = RunSettings("mine", MnistSettings(), PredictorSettings(energy=energy), training)
    assert run.training.size_groups == 4
    for changes in ({"task": DigitsSettings()}, {"predictor": PredictorSettings()}):
        with pytest.raises(SettingsError, match=r"training\.size_groups must be 1, but for set-MNIST"):
            dataclasses.replace(run, **changes)
    with pytest.raises(SettingsError, match=r"training\.size_groups must be positive"):
        TrainingSettings(size_groups=0)
