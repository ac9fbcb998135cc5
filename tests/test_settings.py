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
    EnergyDenoisingSettings,
    EngressionSettings,
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
    ScalingEncoderSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
    SumPooledSetEncoderSettings,
    TaggerSettings,
    TrainingSettings,
    TSPNSettings,
    Variant,
    from_json,
    to_json,
)

ZERO = RepresentationSettings(padding="zero", scaling="none")
EDM = EDMSettings(
    steps=3, order=1, sigma_max=9.0, sigma_min=0.1, rho=1.0, churn=0.2, temperature=0.7, cardinality="mode"
)
LANGEVIN = LangevinSettings(
    steps=7,
    stochastic_steps=3,
    noise_scale=0.5,
    step_size=2.0,
    noise_first=False,
    momentum=0.5,
    max_step_norm=0.1,
    final_noise_scale=0.2,
    restarts=3,
    aggregate="mean",
)
# For every class: values that differ from the defaults in each field.
EXAMPLES: list[Any] = [
    DeepSetsSettings(hidden=7, element_layers=1, set_layers=2, pooling="mean", divide_by_size=False),
    SetEncoderEnergySettings(
        hidden=7,
        layers=2,
        latent=5,
        pooling="sum",
        divide_by_size=True,
        shared=True,
        negative_slope=0.0,
        initialisation="xavier",
        pairs=True,
    ),
    PooledLayersSettings(hidden=7, layers=3, pooling="mean"),
    AttentionSettings(hidden=6, layers=2, heads=3, fourier_frequencies=1, local_heads=False),
    ScalingEncoderSettings(),
    MLPEncoderSettings(hidden=7, out=5, standardise_codes=True, initialisation="xavier", layers=2, sigmoid=True),
    ConvEncoderSettings(hidden=7, out=5, standardise_codes=True, initialisation="xavier"),
    PyramidEncoderSettings(hidden=6, out=5),
    ResNet34EncoderSettings(out=5, standardise_codes=True, initialisation="xavier", weights="some.safetensors"),
    SumPooledSetEncoderSettings(
        hidden=7,
        out=5,
        standardise_codes=True,
        initialisation="xavier",
        fourier_frequencies=2,
        with_maximum=True,
    ),
    FSPoolSetEncoderSettings(
        hidden=7, out=5, presence_as_feature=True, standardise_codes=True, initialisation="xavier"
    ),
    EDM,
    LANGEVIN,
    DescentSettings(steps=3, step_size=0.5),
    EnergyDenoisingSettings(
        encoder=MLPEncoderSettings(hidden=7),
        cardinality="denoised",
        cardinality_weight=0.5,
        p_mean=0.5,
        p_std=2.0,
        sigma_data=0.3,
        noise_draws=3,
        sampler=dataclasses.replace(EDM, cardinality="sampled"),
        standardise_codes=True,
        energy=AttentionSettings(hidden=8),
        training_rows=5,
        energy_sigma=0.1,
    ),
    DenoiserSettings(
        encoder=ScalingEncoderSettings(),
        cardinality="denoised",
        cardinality_weight=0.5,
        p_mean=0.5,
        p_std=2.0,
        sigma_data=0.3,
        noise_draws=3,
        sampler=EDMSettings(steps=3),
        standardise_codes=True,
        network=AttentionSettings(hidden=8),
    ),
    BoxDenoiserSettings(
        encoder=PyramidEncoderSettings(hidden=6),
        cardinality="denoised",
        cardinality_weight=0.5,
        p_mean=0.5,
        p_std=2.0,
        sigma_data=0.3,
        noise_draws=3,
        sampler=EDMSettings(steps=3),
        hidden=6,
        layers=2,
        heads=3,
        fourier_frequencies=1,
        points=2,
        centre_weight=0.5,
    ),
    ContrastiveSettings(
        encoder=ConvEncoderSettings(),
        energy=SetEncoderEnergySettings(hidden=3),
        training_sampler=LangevinSettings(steps=9, stochastic_steps=9, max_step_norm=0.3),
        sampler=LANGEVIN,
        data_noise=0.1,
        start_noise=(0.1, 0.2),
        infonce_temperature=0.1,
        real_energy_weight=0.1,
        mask_divergent=True,
        max_divergent_fraction=0.5,
    ),
    SetRiskSettings(
        encoder=ScalingEncoderSettings(),
        energy=SetEncoderEnergySettings(hidden=3),
        distance="hungarian",
        descent=DescentSettings(steps=3, step_size=0.5),
        sampler=DescentSettings(steps=5),
        supervise="all",
        cardinality="clamped",
        cardinality_weight=0.5,
        cardinality_hidden=9,
        representation_weight=0.1,
    ),
    LabelSamplerSettings(min_probability=0.1),
    TaggerSettings(
        encoder=MLPEncoderSettings(), hidden=6, layers=2, labels=(-0.5, 0.5), sampler=LabelSamplerSettings()
    ),
    AutoregressiveTaggerSettings(encoder=MLPEncoderSettings(), hidden=6, layers=2, labels=(-0.5, 0.5)),
    EngressionSettings(
        encoder=MLPEncoderSettings(),
        network=AttentionSettings(hidden=6, heads=2, local_heads=False),
        noise_features=3,
        training_samples=4,
    ),
    LabelLikelihoodSettings(
        encoder=MLPEncoderSettings(),
        energy=DeepSetsSettings(hidden=5),
        labels=(-0.5, 0.5),
        sampler=LabelSamplerSettings(min_probability=0.1),
    ),
    TSPNSettings(
        encoder=FSPoolSetEncoderSettings(),
        hidden=6,
        layers=2,
        heads=3,
        feedforward=5,
        latent=7,
        cardinality_weight=0.5,
        cardinality_hidden=9,
    ),
    DetectorSettings(encoder=PyramidEncoderSettings(hidden=6), hidden=7),
    RepresentationSettings(
        padding="zero",
        threshold=0.015,
        presence_rule="any_beyond",
        max_size=12,
        scaling="none",
    ),
    DataDescription(
        input_kind="set",
        aligned=True,
        categories=((0, 2), (3, 5)),
        boxes=((5, 9),),
        class_names=("cat", "dog"),
        position=((9, 11),),
        input_columns=("age", "colour=red"),
        feature_columns=("x", "y"),
        feature_units=("m", ""),
    ),
    TrainingSettings(
        steps=None,
        minutes=0.5,
        batch_size=2,
        elements_per_batch=9,
        learning_rate=0.5,
        betas=(0.0, 0.99),
        warmup_steps=3,
        lr_schedule="wsd",
        clip_norm=0.1,
        ema_decay=0.9,
        validate_every=4,
        patience=5,
        validation_mode="max",
        keep="last",
        calibrate_cardinality=True,
        checkpoint_every=6,
        log_every=7,
        on_divergence="stop",
        data_workers=8,
        tensorboard=True,
    ),
    PolygonsSettings(corners=(3, 5)),
    DigitsSettings(),
    FilesSettings(
        path="a.jsonl",
        description=DataDescription(aligned=True),
        held_out=0.5,
        split="examples",
        image_size=8,
        set_column="points",
        id_column="key",
    ),
    InMemorySettings(held_out=True, path="somewhere"),
    MnistSettings(
        dataset="fashion", data_dir="somewhere", translate_fraction=0.5, validation_distance="hungarian"
    ),
    CelebaSettings(source="simulated", data_dir="somewhere", feature_noise=0.3, simulated_noise=0.4),
    PedestriansSettings(
        source="simulated",
        data_dir="somewhere",
        scene="univ",
        validation_scene="eth",
        largest_scale=1.2,
        largest_noise=0.2,
        people_in_training=9,
        drawn=50,
    ),
    ClevrSettings(source="generated", predict="state", scenes=3, data_dir="somewhere", augment=False),
    RunSettings(
        recipe="mine",
        task=FilesSettings(path="b.npz"),
        method=ContrastiveSettings(energy=SetEncoderEnergySettings()),
        representation=RepresentationSettings(padding="zero", scaling="none"),
        training=TrainingSettings(steps=3),
        engine="eager",
        device="cpu",
        matmul_precision="highest",
    ),
]


def concrete(value: Any) -> bool:
    """Whether it is a class of settings, and not one that others only build on."""
    is_class = dataclasses.is_dataclass(value) and isinstance(value, type)
    return is_class and (not issubclass(value, Variant) or value.kind != "")


CLASSES = [value for value in vars(module).values() if concrete(value)]
every_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)


def test_every_class_has_an_example() -> None:
    assert {type(example) for example in EXAMPLES} == set(CLASSES)


@every_example
def test_examples_differ_from_the_defaults_in_every_field(example: Any) -> None:
    for field in dataclasses.fields(example):
        factory = field.default_factory
        default = field.default if factory is dataclasses.MISSING else factory()
        assert getattr(example, field.name) != default, field.name


@every_example
def test_settings_survive_json(example: Any) -> None:
    text = json.dumps(to_json(example), allow_nan=False)
    assert from_json(type(example), json.loads(text)) == example


@every_example
def test_settings_cannot_be_changed(example: Any) -> None:
    field = next((item.name for item in dataclasses.fields(example)), "kind")
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(example, field, getattr(example, field))


@every_example
def test_json_of_a_variant_begins_with_its_kind(example: Any) -> None:
    if not isinstance(example, Variant):
        assert "kind" not in to_json(example)
        return
    assert next(iter(to_json(example).items())) == ("kind", type(example).kind)
    assert "kind" not in {field.name for field in dataclasses.fields(example)}


def test_left_out_settings_have_their_defaults() -> None:
    assert from_json(EnergyDenoisingSettings, {}) == EnergyDenoisingSettings()
    assert from_json(MethodSettings, {"kind": "energy-denoising"}) == EnergyDenoisingSettings()
    assert from_json(RepresentationSettings, {}) == RepresentationSettings()
    assert from_json(TrainingSettings, {"steps": 5}) == TrainingSettings(steps=5)


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (TrainingSettings, {"step": 5}, "Unknown setting 'step'. Did you mean 'steps'?"),
        (TrainingSettings, {"learning_rte": 5}, "Did you mean 'learning_rate'?"),
        (DescentSettings, {"zzz": 5}, "Unknown setting 'zzz'. Known settings: step_size, steps."),
        (
            ContrastiveSettings,
            {"sampler": {"kind": "langevin", "noise_scal": 1}},
            "Unknown setting 'sampler.noise_scal'. Did you mean 'noise_scale'?",
        ),
        (
            RunSettings,
            {"method": {"kind": "contrastive", "energy": {"kind": "deep-sets", "hiden": 1}}},
            "Unknown setting 'method.energy.hiden'. Did you mean 'hidden'?",
        ),
    ],
)
def test_unknown_names_suggest_the_nearest(cls: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        from_json(cls, values)
    assert message in str(caught.value)


def test_variants_are_told_apart_by_kind() -> None:
    values = {"kind": "contrastive", "energy": {"kind": "set-encoder"}}
    assert from_json(MethodSettings, values) == ContrastiveSettings(energy=SetEncoderEnergySettings())
    values = {"kind": "set-risk", "encoder": {"kind": "mlp"}, "sampler": {"steps": 3}}
    expected = SetRiskSettings(encoder=MLPEncoderSettings(), sampler=DescentSettings(steps=3))
    assert from_json(MethodSettings, values) == expected
    run = from_json(RunSettings, {"recipe": "r", "task": {"kind": "polygons", "corners": [3]}})
    assert run.task == PolygonsSettings(corners=(3,))


@pytest.mark.parametrize("energy", [{"kind": "other"}, {}, {"kind": None}])
def test_unknown_kinds(energy: dict[str, Any], unchecked: None) -> None:
    kinds = r"\['attention', 'deep-sets', 'pooled-layers', 'set-encoder'\]"
    with pytest.raises(SettingsError, match=f"^energy.kind must be one of {kinds}.*Is the package installed"):
        from_json(ContrastiveSettings, {"energy": energy})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "energy-denoising", "sampler": {"kind": "langevin"}}, r"sampler.kind must be one of \['edm'\]"),
        ({"kind": "denoiser", "sampler": {"kind": "langevin"}}, r"sampler.kind must be one of \['edm'\]"),
        ({"kind": "contrastive", "sampler": {"kind": "edm"}}, r"sampler.kind must be one of \['langevin'\]"),
        (
            {"kind": "contrastive", "training_sampler": {"kind": "edm"}},
            r"training_sampler.kind must be one of \['langevin'\]",
        ),
        ({"kind": "set-risk", "sampler": {"kind": "edm"}}, r"sampler.kind must be one of \['descent'\]"),
        ({"kind": "denoiser", "network": {"kind": "deep-sets"}}, r"network.kind must be one of \['attention'\]"),
        (
            {"kind": "energy-denoising", "energy": {"kind": "set-encoder"}},
            "energy must be pooled-layers, attention or deep-sets",
        ),
        ({"kind": "set-risk", "representation_weight": 1.0}, "energy must be set-encoder where"),
        (
            {"kind": "energy-denoising", "cardinality": "denoised", "sampler": {"cardinality": "mode"}},
            "sampler.cardinality must be left at 'sampled': with method.cardinality = 'denoised' there is no",
        ),
        ({"kind": "contrastive", "training_sampler": {"restarts": 2}}, "training_sampler.restarts must be 1"),
        ({"kind": "tspn", "energy": {"kind": "deep-sets"}}, "Unknown setting 'energy'"),
        ({"kind": "tspn", "sampler": {"kind": "edm"}}, "Unknown setting 'sampler'"),
        ({"kind": "box-denoiser", "sampler": {"kind": "langevin"}}, r"sampler.kind must be one of \['edm'\]"),
        ({"kind": "box-denoiser", "cardinality": "denoised"}, "sampler.cardinality must be left at 'sampled'"),
        ({"kind": "detector", "sampler": {"kind": "edm"}}, "Unknown setting 'sampler'"),
        ({"kind": "detector", "energy": {"kind": "deep-sets"}}, "Unknown setting 'energy'"),
    ],
)
def test_parts_that_do_not_fit_each_other(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=f"^{message}"):
        from_json(MethodSettings, values)


@pytest.mark.parametrize(
    "method",
    [
        EnergyDenoisingSettings(),
        DenoiserSettings(),
        BoxDenoiserSettings(),
        TSPNSettings(),
        DetectorSettings(),
        SetRiskSettings(cardinality="clamped"),
        SetRiskSettings(cardinality="predicted"),
    ],
)
def test_methods_that_need_presence_refuse_other_paddings(method: MethodSettings) -> None:
    from desp.predictor import SetPredictor

    assert method.needs_presence
    with pytest.raises(
        SettingsError, match=f"^representation.padding must be presence for the method {method.kind}"
    ):
        SetPredictor(method, ZERO)
    for other in (ContrastiveSettings(), SetRiskSettings(), EnergyDenoisingSettings(cardinality="denoised")):
        assert not other.needs_presence
        SetPredictor(other, ZERO)


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (DeepSetsSettings, {"pooling": "median"}, r"pooling must be one of .*'fspool'.* got 'median'"),
        (DeepSetsSettings, {"kind": "set-encoder"}, "kind must be one of"),
        (RepresentationSettings, {"padding": "none"}, "padding must be one of"),
        (RunSettings, {"task": {"kind": "digits"}}, "Incomplete settings for RunSettings.*recipe"),
        (ContrastiveSettings, {"energy": 5}, "energy must be a group of settings, got 5"),
        (ContrastiveSettings, {"sampler": None}, "sampler must be a group of settings, got None"),
        (DeepSetsSettings, {"hidden": "many"}, "hidden must be of type int, got 'many'"),
        (DeepSetsSettings, {"hidden": True}, "hidden must be of type int, got True"),
        (TrainingSettings, {"clip_norm": True}, "clip_norm must be of type float, got True"),
        (EDMSettings, {"order": True}, r"order must be one of \(1, 2\), got True"),
        (EDMSettings, {"order": 1.0}, r"order must be one of \(1, 2\), got 1.0"),
    ],
)
def test_values_from_json_are_checked(cls: Any, values: dict[str, Any], message: str, unchecked: None) -> None:
    with pytest.raises(SettingsError, match=message):
        from_json(cls, values)


@pytest.mark.parametrize("name", ["desp", "desp.settings"])
def test_settings_load_without_torch(name: str) -> None:
    code = f"import sys, {name}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_zero_padding_is_refused_where_elements_lie_around_zero() -> None:
    """Scaled to [0, 1], both elements of the set [[0, 5], [10, 3]] have a zero, and would count as absent."""
    for scaling in ("auto", "standard"):
        message = f"padding must be presence with scaling {scaling}, which moves elements to zero .or set scaling"
        with pytest.raises(SettingsError, match=message):
            RepresentationSettings(padding="zero", scaling=scaling)
    with pytest.raises(SettingsError, match="padding must be presence with scaling auto"):
        RepresentationSettings(padding="zero")
    assert RepresentationSettings(padding="zero", scaling="none").scaled is False
    assert RepresentationSettings().scaled is True
    assert RepresentationSettings(scaling="standard").scaled == "standard"


@pytest.mark.parametrize(
    ("changed", "exact"),
    [({}, True), ({"keep": "last"}, False), ({"lr_schedule": "cosine"}, False), ({"validate_every": 7}, False)],
)
def test_what_a_shorter_run_must_be_to_be_the_beginning_of_a_longer_one(
    changed: dict[str, Any], exact: bool
) -> None:
    training = TrainingSettings(steps=100, lr_schedule="constant", validate_every=10)
    assert dataclasses.replace(training, **changed).is_exact_prefix(50) is exact
