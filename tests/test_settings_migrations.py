"""Settings of older versions: every name has its new one, and what cannot be used is named."""

import copy
from typing import Any

import pytest

from desp.errors import SettingsError
from desp.settings import (
    SCHEMA,
    AttentionSettings,
    ClevrSettings,
    ContrastiveSettings,
    ConvEncoderSettings,
    DataDescription,
    DeepSetsSettings,
    DenoiserSettings,
    DescentSettings,
    DetectorSettings,
    EDMSettings,
    EncoderSettings,
    EnergyDenoisingSettings,
    FilesSettings,
    FSPoolSetEncoderSettings,
    LangevinSettings,
    MethodSettings,
    MLPEncoderSettings,
    MnistSettings,
    PooledLayersSettings,
    RepresentationSettings,
    RunSettings,
    ScalingEncoderSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
    SumPooledSetEncoderSettings,
    TSPNSettings,
    from_json,
    migrate_predictor,
    migrate_run,
    migrate_weights,
)

EVERY_LANGEVIN = {
    "kind": "langevin",
    "steps": 7,
    "stochastic_steps": 3,
    "noise_scale": 0.5,
    "last_noise": 0.2,
    "step_size": 2.0,
    "noise_first": False,
    "momentum": 0.5,
    "largest_step": 0.1,
    "tries": 3,
    "from_tries": "mean",
}
LANGEVIN = LangevinSettings(7, 3, 0.5, 0.2, 2.0, False, 0.5, 0.1, 3, "mean")
EVERY_SOLVER = {
    "kind": "solver",
    "steps": 3,
    "order": 1,
    "highest": 9.0,
    "lowest": 0.1,
    "spacing": 1.0,
    "stochasticity": 0.2,
    "refinement": 0,
    "matching": 0,
    "sizes": "likeliest",
}
EDM = EDMSettings(3, 1, 9.0, 0.1, 1.0, 0.2, "mode")
EVERY_DENOISING = {
    "kind": "denoising",
    "sizes": "first",
    "mean_log_level": 0.5,
    "deviation_log_level": 2.0,
    "data_deviation": 0.3,
    "energy_level": 0.1,
    "size_weight": 0.5,
    "size_head": "free",
}
DIFFUSION: dict[str, Any] = {
    "p_mean": 0.5,
    "p_std": 2.0,
    "sigma_data": 0.3,
    "cardinality_weight": 0.5,
    "sampler": EDM,
}
WAVES = {"kind": "attention", "hidden": 8, "layers": 1, "heads": 2, "waves": 3}
ATTENTION = AttentionSettings(8, 1, 2, 3)
METHODS: dict[str, tuple[dict[str, Any], MethodSettings]] = {
    "contrastive": (
        {
            "energy": {"kind": "deep-sets", "hidden": 7},
            "estimator": {
                "kind": "contrastive",
                "chain": {**EVERY_LANGEVIN, "tries": 1},
                "data_noise": 0.1,
                "energy_penalty": 0.0,
                "tame_runaways": False,
                "spare_runaways": True,
                "most_runaways": 0.5,
                "replay": 0.0,
                "replay_capacity": 7,
            },
            "sampler": EVERY_LANGEVIN,
        },
        ContrastiveSettings(
            energy=DeepSetsSettings(hidden=7),
            training_sampler=LangevinSettings(7, 3, 0.5, 0.2, 2.0, False, 0.5, 0.1, 1, "mean"),
            sampler=LANGEVIN,
            data_noise=0.1,
            mask_divergent=True,
            max_divergent_fraction=0.5,
        ),
    ),
    "samplers of before there were two kinds": (
        {
            "energy": {"kind": "deep-sets"},
            "estimator": {"kind": "contrastive"},
            "sampler": {"steps": 100, "stochastic_steps": 80},
        },
        ContrastiveSettings(sampler=LangevinSettings(steps=100, stochastic_steps=80)),
    ),
    "denoising": (
        {"energy": WAVES | {"field": False}, "estimator": EVERY_DENOISING, "sampler": EVERY_SOLVER},
        EnergyDenoisingSettings(**DIFFUSION, energy=ATTENTION, energy_sigma=0.1),
    ),
    "denoising, sizes too": (
        {"estimator": {"kind": "denoising", "sizes": "denoised"}, "sampler": {"kind": "solver", "sizes": "drawn"}},
        EnergyDenoisingSettings(cardinality="denoised", energy=PooledLayersSettings(pooling="fspool")),
    ),
    "denoising, nothing said": ({}, EnergyDenoisingSettings(energy=PooledLayersSettings(pooling="fspool"))),
    "denoiser": (
        {"energy": WAVES | {"field": True}, "estimator": EVERY_DENOISING, "sampler": EVERY_SOLVER},
        DenoiserSettings(**DIFFUSION, network=ATTENTION),
    ),
    "denoiser, its kind not said": ({"energy": {"field": True}}, DenoiserSettings()),
    "set-risk": (
        {
            "energy": {"kind": "set-encoder", "hidden": 7},
            "estimator": {
                "kind": "set-risk",
                "distance": "chamfer",
                "steps": 3,
                "step_size": 0.5,
                "scored": "all",
                "sizes": "first",
                "size_weight": 0.5,
                "size_hidden": 9,
                "representation_weight": 0.1,
            },
            "sampler": EVERY_SOLVER | {"matching": 4},  # it was saved, and never ran
        },
        SetRiskSettings(
            energy=SetEncoderEnergySettings(hidden=7),
            descent=DescentSettings(3, 0.5),
            supervise="all",
            cardinality="predicted",
            cardinality_weight=0.5,
            cardinality_hidden=9,
            representation_weight=0.1,
        ),
    ),
    "tspn": (
        {
            "energy": {
                "kind": "transformer",
                "hidden": 6,
                "layers": 2,
                "heads": 3,
                "feedforward": 5,
                "latent": 7,
            },
            "estimator": {"kind": "direct", "size_weight": 0.5, "size_hidden": 9},
            "sampler": EVERY_LANGEVIN,
        },
        TSPNSettings(
            hidden=6, layers=2, heads=3, feedforward=5, latent=7, cardinality_weight=0.5, cardinality_hidden=9
        ),
    ),
}
each_method = pytest.mark.parametrize(("old", "new"), METHODS.values(), ids=METHODS)


@each_method
def test_every_name_of_a_method_has_its_new_one(old: dict[str, Any], new: MethodSettings) -> None:
    run = migrate_run({"recipe": "r", "task": {"kind": "digits"}, "predictor": old})
    assert from_json(MethodSettings, run["method"]) == new
    assert from_json(RunSettings, run).method == new
    assert from_json(MethodSettings, migrate_predictor({"settings": old, "shape": {}})["method"]) == new


def test_padding_and_what_belongs_to_it_become_the_representation() -> None:
    predictor = {
        "padding": {"kind": "zero", "threshold": 0.1, "rule": "any"},
        "scaling": "none",
        "max_size": 12,
        "code": None,
        "categories": [[0, 2], [3, 5]],
    }
    task = {"kind": "files", "path": "mine.jsonl"}
    run = from_json(RunSettings, migrate_run({"recipe": "r", "task": task, "predictor": predictor}))
    assert run.representation == RepresentationSettings("zero", 0.1, "any_beyond", 12, "none")
    described = DataDescription(categories=((0, 2), (3, 5)))
    assert run.task == FilesSettings("mine.jsonl", described, split="examples")
    saved = migrate_predictor({"settings": predictor, "shape": {"features": 5}})
    assert from_json(DataDescription, saved["shape"]["description"]) == described
    assert saved["shape"]["features"] == 5


def test_tasks_keep_their_settings() -> None:
    task = {"kind": "mnist", "variant": "fashion", "data_dir": "here", "shifted": 0.5}
    run = from_json(RunSettings, migrate_run({"recipe": "r", "task": task}))
    assert run.task == MnistSettings("fashion", "here", 0.5)


@pytest.mark.parametrize(
    ("old", "new"),
    [({"kind": "auto"}, None), ({"kind": "conv", "out": 5}, ConvEncoderSettings(out=5))],
    ids=["default", "another"],
)
def test_the_default_encoder_has_no_kind(old: dict[str, Any], new: EncoderSettings | None) -> None:
    saved = {"schema": 3, "method": {"kind": "denoising", "encoder": old, "p_std": 1.0}}
    before = copy.deepcopy(saved)
    for migrate in (migrate_run, migrate_predictor):
        method = from_json(MethodSettings, migrate(saved)["method"])
        assert method == EnergyDenoisingSettings(encoder=new, p_std=1.0)
    assert saved == before


@pytest.mark.parametrize("schema", [{}, {"schema": 3}], ids=["1", "3"])
@pytest.mark.parametrize(("old", "new"), [("lowest", "min"), ("highest", "max")])
def test_names_of_the_training_loop(schema: dict[str, int], old: str, new: str) -> None:
    training = {"decay": "constant", "best_is": old, "on_nonfinite": "stop", "steps": 7}
    saved = {**schema, "recipe": "r", "task": {"kind": "digits"}, "training": training}
    before = copy.deepcopy(saved)
    run = from_json(RunSettings, migrate_run(saved))
    wanted = {"lr_schedule": "constant", "validation_mode": new, "on_divergence": "stop", "steps": 7}
    assert {name: getattr(run.training, name) for name in wanted} == wanted
    assert saved == before


BEFORE_5: dict[str, tuple[dict[str, Any], Any]] = {
    "longest step": (
        {"sampler": {"kind": "langevin", "max_step": 0.2}},
        {"sampler": LangevinSettings(max_step_norm=0.2)},
    ),
    "longest step in training": (
        {"training_sampler": {"kind": "langevin", "max_step": 0.2}},
        {"training_sampler": LangevinSettings(max_step_norm=0.2)},
    ),
    "energy": (
        {"energy": {"kind": "attention", "fourier_features": 3}},
        {"energy": AttentionSettings(fourier_frequencies=3)},
    ),
    "encoder of sets": (
        {"encoder": {"kind": "sum-pooled-set", "standardise": True, "fourier_features": 3}},
        {"encoder": SumPooledSetEncoderSettings(standardise_codes=True, fourier_frequencies=3)},
    ),
    "encoder of images": (
        {"encoder": {"kind": "conv", "standardise": True}},
        {"encoder": ConvEncoderSettings(standardise_codes=True)},
    ),
    "encoder by FSPool": (
        {"encoder": {"kind": "fspool-set", "standardise": True}},
        {"encoder": FSPoolSetEncoderSettings(standardise_codes=True)},
    ),
    "encoder of vectors": (
        {"encoder": {"kind": "mlp", "standardise": True}},
        {"encoder": MLPEncoderSettings(standardise_codes=True)},
    ),
}


@pytest.mark.parametrize("name", BEFORE_5)
def test_settings_of_schema_4_have_their_new_names(name: str) -> None:
    old, new = BEFORE_5[name]
    saved = {"schema": 4, "method": {"kind": "contrastive", **old}}
    before = copy.deepcopy(saved)
    for migrate in (migrate_run, migrate_predictor):
        assert from_json(MethodSettings, migrate(saved)["method"]) == ContrastiveSettings(**new)
    assert saved == before


def test_the_network_of_a_denoiser_of_schema_4() -> None:
    saved = {"schema": 4, "method": {"kind": "denoiser", "network": {"kind": "attention", "fourier_features": 2}}}
    wanted = DenoiserSettings(network=AttentionSettings(fourier_frequencies=2))
    assert from_json(MethodSettings, migrate_run(saved)["method"]) == wanted


@pytest.mark.parametrize("schema", [3, 4])
@pytest.mark.parametrize(("old", "new"), [("every", "all_above"), ("any", "any_beyond")])
def test_rules_of_presence_and_datasets_of_schema_4(schema: int, old: str, new: Any) -> None:
    task = {"kind": "mnist", "variant": "fashion", "data_dir": "here"}
    saved = {
        "schema": schema,
        "recipe": "r",
        "task": task,
        "representation": {"zero_rule": old, "padding": "zero"},
    }
    run = from_json(RunSettings, migrate_run(saved))
    assert run.task == MnistSettings("fashion", "here")
    assert run.representation == RepresentationSettings("zero", presence_rule=new, scaling="none")


@pytest.mark.parametrize(
    "scaling", [{}, {"scaling": "auto"}, {"scaling": "none"}], ids=["default", "auto", "none"]
)
@pytest.mark.parametrize("kind", ["polygons", "digits", "mnist", "files", None])
def test_zero_padding_goes_without_scaling(kind: str | None, scaling: dict[str, str]) -> None:
    representation = {"padding": "zero", "threshold": 0.1, **scaling}
    saved = {"schema": SCHEMA, "recipe": "r", "task": {"kind": kind} if kind else None}
    saved |= {"representation": representation}
    before = copy.deepcopy(saved)
    wanted = RepresentationSettings("zero", 0.1, scaling="none")
    predictor = migrate_predictor(saved)  # the scaling of a saved one is in its shape
    assert from_json(RepresentationSettings, predictor["representation"]) == wanted
    if kind in ("polygons", "digits", "mnist") or scaling == {"scaling": "none"}:  # whose sets are never scaled
        assert from_json(RepresentationSettings, migrate_run(saved)["representation"]) == wanted
    else:  # a resumed run would scale its data in another way
        with pytest.raises(SettingsError, match=r"Train again with padding 'presence' or scaling 'none'"):
            migrate_run(saved)
    assert saved == before


@pytest.mark.parametrize("schema", [3, 4, 5])
def test_kinds_of_schema_5(schema: int) -> None:
    method = {"kind": "denoising", "encoder": {"kind": "identity"}, "p_std": 1.0}
    saved = {"schema": schema, "recipe": "r", "task": {"kind": "digits"}, "method": method}
    wanted = EnergyDenoisingSettings(encoder=ScalingEncoderSettings(), p_std=1.0)
    for values in (migrate_run(saved), migrate_predictor(saved)):
        assert from_json(MethodSettings, values["method"]) == wanted
    assert method["kind"] == "denoising"  # what is read is not changed
    other = saved | {"method": {"kind": "contrastive", "encoder": {"kind": "identity"}}}
    assert migrate_run(other)["method"] == {"kind": "contrastive", "encoder": {"kind": "scaling"}}
    assert migrate_run(saved | {"method": {"kind": "denoiser", "encoder": None}})["method"]["kind"] == "denoiser"


def test_settings_of_other_packages_keep_their_names() -> None:
    part = {"kind": "theirs", "max_step": 1, "fourier_features": 2, "standardise": True, "variant": "large"}
    assert migrate_run({"schema": 4, "method": part, "task": part}) == {"method": part, "task": part}
    energy = {"method": {"kind": "contrastive", "energy": {"kind": "theirs", "pooling": "max"}}}
    assert migrate_run({"schema": 7, **energy}) == energy


def test_the_chain_of_training_of_schema_3() -> None:
    saved = {"schema": 3, "method": {"kind": "contrastive", "chain": {"kind": "langevin", "steps": 70}}}
    method = from_json(MethodSettings, migrate_run(saved)["method"])
    assert method == ContrastiveSettings(training_sampler=LangevinSettings(steps=70))


def contrastive(**changes: Any) -> dict[str, Any]:
    return {"predictor": {"estimator": {"kind": "contrastive", **changes}}}


REMOVED: dict[str, tuple[dict[str, Any], str]] = {
    "training.size_groups": ({"training": {"size_groups": 4}}, "4"),
    "predictor.code": ({"predictor": {"code": 5}}, "5"),
    "estimator.energy_penalty": (
        {"predictor": {"estimator": {"kind": "contrastive", "energy_penalty": 0.5}}},
        "0.5",
    ),
    "estimator.replay": ({"predictor": {"estimator": {"kind": "contrastive", "replay": 0.9}}}, "0.9"),
    "estimator.tame_runaways": (contrastive(tame_runaways=True), "True"),
    "estimator.size_head": ({"predictor": {"estimator": {"size_head": "ordered"}}}, "'ordered'"),
    "sampler.refinement": ({"predictor": {"sampler": {"kind": "solver", "refinement": 3}}}, "3"),
    "sampler.matching": ({"predictor": {"sampler": {"kind": "solver", "matching": 2}}}, "2"),
    "method.energy.pooling": (
        {"predictor": {"energy": {"pooling": "max"}, "estimator": {"kind": "contrastive"}}},
        "'max'",
    ),
}


@pytest.mark.parametrize("name", REMOVED)
def test_what_was_removed_is_named(name: str) -> None:
    values, value = REMOVED[name]
    message = f"{name} = {value} was removed from desp, so this run can no longer be used"
    with pytest.raises(SettingsError) as caught:
        migrate_run({"recipe": "r", "task": {"kind": "digits"}, **values})
    assert str(caught.value).startswith(message)
    assert "install the version that saved it" in str(caught.value)
    if "predictor" in values:
        with pytest.raises(SettingsError) as caught:
            migrate_predictor({"settings": values["predictor"], "shape": {}})
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize("migrate", [migrate_run, migrate_predictor])
@pytest.mark.parametrize("schema", [SCHEMA + 1, 0])
def test_other_schemas_are_refused(migrate: Any, schema: int) -> None:
    known = rf"have schema {schema}; this version of desp reads \[1, 3, 4, 5, 6, {SCHEMA}\]"
    with pytest.raises(SettingsError, match=known):
        migrate({"schema": schema, "recipe": "r", "task": {"kind": "digits"}})


@pytest.mark.parametrize(
    ("kind", "network"), [("energy-denoising", "energy.network"), ("denoiser", "field.network")]
)
def test_weights_have_their_new_names(kind: str, network: str) -> None:
    names = {
        "energy.input_encoder.0.mean": "encoder.0.mean",
        "input_encoder.1.weight": "encoder.1.weight",
        "sizes.logits.weight": "cardinality.logits.weight",
        "energy.worth.0.bias": f"{network}.head.0.bias",
        "energy.from_code.0.bias": f"{network}.from_code.0.bias",
        "energy.from_element.bias": f"{network}.from_element.bias",
        "energy.layers.0.out.bias": f"{network}.layers.0.out.bias",
        "energy.set_encoder.pool.knots": "energy.set_encoder.pool.knots",
        "energy.lower": "energy.lower",
        "decoder.mean": "decoder.mean",
        "descent.start": "descent.start",
    }
    weights = {name: index for index, name in enumerate(names)}
    assert migrate_weights(weights, 1, kind) == {new: weights[old] for old, new in names.items()}
    assert migrate_weights(weights, SCHEMA, kind) == weights


def test_schema_5_of_clevr() -> None:
    """A setting and a name that went, and scenes that were new for every batch."""
    old = {
        "schema": 5,
        "recipe": "clevr-denoiser",
        "task": {"kind": "clevr", "source": "generated"},
        "method": {"kind": "detector", "hidden": 7, "box_weight": 1.0},
    }
    settings = from_json(RunSettings, migrate_run(old))
    assert settings.recipe == "clevr-box-denoiser"
    assert settings.task == ClevrSettings(source="generated", scenes=0)
    assert settings.method == DetectorSettings(hidden=7)
    of_files = migrate_run(old | {"task": {"kind": "clevr", "source": "files"}})
    assert from_json(RunSettings, of_files).task == ClevrSettings()


@pytest.mark.parametrize("schema", [1, 3, 4, 5, 6])
def test_older_runs_keep_their_split_of_own_data(schema: int) -> None:
    """Another one would score examples that were trained on."""
    values = {"schema": schema, "recipe": "custom", "task": {"kind": "files", "path": "mine.jsonl"}}
    assert migrate_run(values)["task"]["split"] == "examples"
    assert "split" not in migrate_run(values | {"task": {"kind": "digits"}})["task"]
    assert "split" not in migrate_run(values | {"schema": SCHEMA})["task"]


def test_minutes_beside_steps_had_no_effect_and_are_left_out() -> None:
    values = {"schema": SCHEMA, "training": {"steps": 5, "minutes": 3.0}}
    assert migrate_run(values) == {"training": {"steps": 5, "minutes": None}}
    values["training"] = {"steps": None, "minutes": 3.0}
    assert migrate_run(values) == {"training": {"steps": None, "minutes": 3.0}}


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (None, "^method must be a group of settings, got None"),
        ("contrastive", "^method must be a group of settings, got 'contrastive'"),
        ({"kind": "contrastive", "energy": None}, "^method.energy must be a group of settings, got None"),
        ({"kind": ["contrastive"]}, r"^method.kind must be one of .*, got \['contrastive'\]"),
    ],
)
def test_damaged_settings_are_named(method: Any, message: str) -> None:
    """They would end in errors of Python, as commands that read results expect settings errors alone."""
    values = {"schema": SCHEMA, "recipe": "r", "task": {"kind": "digits"}, "method": method}
    with pytest.raises(SettingsError, match=message):
        from_json(RunSettings, migrate_run(values))
