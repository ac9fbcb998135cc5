"""Saved settings of older versions, brought to today's names: pure functions from dict to dict.

Schema 1 is everything before schemas were numbered: energy, estimator and sampler as three parts of a predictor.
Nothing was ever recorded with schema 2. Schema 3 wrote the default encoder as one of kind 'auto'.
"""

from collections.abc import Callable, Mapping
from typing import Any

from desp.errors import SettingsError

SCHEMA = 7

REMOVED = (
    "{what} was removed from desp, so this run can no longer be used. Its results stay readable; to use the "
    "model, install the version that saved it."
)

# Tasks whose sets never were scaled.
NEVER_SCALED = ("polygons", "digits", "mnist")
SCALED_ZEROS = (
    "This run was begun with representation.padding = 'zero' and another scaling than 'none', by which elements "
    "can be lost. Train again with padding 'presence' or scaling 'none'. SetPredictor.from_pretrained still loads "
    "the model."
)

Values = dict[str, Any]


def migrate_run(values: Mapping[str, Any]) -> Values:
    """Settings of a run of any schema, in the present one and without its number.

    Raises:
        SettingsError: written by a newer version, or with something that was removed.
    """
    values = _migrate(values, {1: _run_from_1, 3: _from_3, 4: _from_4, 5: _from_5, 6: _from_6})
    unscaled = _with_unscaled_zeros(values)
    task = values.get("task")
    kind = task.get("kind") if isinstance(task, dict) else None
    if unscaled is not values and kind not in NEVER_SCALED:
        raise SettingsError(SCALED_ZEROS)
    return unscaled


def migrate_predictor(values: Mapping[str, Any]) -> Values:
    """The configuration of a saved predictor of any schema, in the present one and without its number.

    Raises:
        SettingsError: written by a newer version, or with something that was removed.
    """
    values = _migrate(values, {1: _predictor_from_1, 3: _from_3, 4: _from_4, 5: _from_5, 6: _from_6})
    return _with_unscaled_zeros(values)  # how it scales is a part of its shape


def migrate_weights(weights: Mapping[str, Any], schema: int, kind: str) -> dict[str, Any]:
    """Weights of a saved predictor under the present names; `kind`: the present kind of its method."""
    if schema > 1:
        return dict(weights)
    network = "field.network." if kind == "denoiser" else "energy.network."
    return {_weight_from_1(name, network): value for name, value in weights.items()}


def _migrate(values: Mapping[str, Any], steps: Mapping[int, Callable[[Values], Values]]) -> Values:
    values = dict(values)
    schema = values.pop("schema", 1)
    if schema not in (*steps, SCHEMA):
        raise SettingsError(f"These settings have schema {schema}; this version of desp reads {[*steps, SCHEMA]}.")
    for number, step in steps.items():
        values = step(values) if number >= schema else values
    values = _with_one_length(values)
    method = values.get("method")
    energy = method.get("energy") if isinstance(method, dict) else None
    if not isinstance(energy, dict):  # left out, or damaged, which `from_json` says
        return values
    # An energy of another package may have such a setting.
    own = energy.get("kind", "deep-sets") in ("deep-sets", "set-encoder", "pooled-layers")
    if own and energy.get("pooling") == "max":
        raise SettingsError(REMOVED.format(what="method.energy.pooling = 'max'"))
    return values


def _with_one_length(values: Values) -> Values:
    """Without minutes beside a number of steps: they had no effect, and are refused since."""
    training = values.get("training")
    if isinstance(training, dict) and training.get("steps") is not None and training.get("minutes") is not None:
        return values | {"training": training | {"minutes": None}}
    return values


def _with_unscaled_zeros(values: Values) -> Values:
    """Zero padding with no scaling, as any other is refused since; the same object if it has none."""
    representation = values.get("representation")
    if not isinstance(representation, dict) or representation.get("padding") != "zero":
        return values
    if representation.get("scaling", "auto") == "none":
        return values
    return values | {"representation": representation | {"scaling": "none"}}


# -- from schema 6 -----------------------------------------------------------------------------------------


def _from_6(values: Values) -> Values:
    """Own data were split example by example, and stay so: another split would test on what was trained on."""
    task = values.get("task")
    if isinstance(task, dict) and task.get("kind") == "files":
        return values | {"task": {"split": "examples"} | task}
    return values


# -- from schema 5 -----------------------------------------------------------------------------------------


def _from_5(values: Values) -> Values:
    """Rename denoising to energy-denoising, identity to scaling, the recipe clevr-denoiser to clevr-box-denoiser.

    `scenes` is 0 for generated CLEVR, as scenes were drawn anew for every batch. A detector's `box_weight` is
    dropped: it is constant now.
    """
    if values.get("recipe") == "clevr-denoiser":
        values = values | {"recipe": "clevr-box-denoiser"}
    task, method = values.get("task"), values.get("method")
    if isinstance(task, dict) and (task.get("kind"), task.get("source")) == ("clevr", "generated"):
        values = values | {"task": {"scenes": 0} | task}
    if not isinstance(method, dict):
        return values
    method = _with_kind(method, "denoising", "energy-denoising")
    if method.get("kind") == "detector":
        method = {name: value for name, value in method.items() if name != "box_weight"}
    if isinstance(method.get("encoder"), dict):
        method = method | {"encoder": _with_kind(method["encoder"], "identity", "scaling")}
    return values | {"method": method}


def _with_kind(part: Values, old: str, new: str) -> Values:
    return part | {"kind": new} if part.get("kind") == old else part


# -- from schema 4 -----------------------------------------------------------------------------------------

_CODES = {"standardise": "standardise_codes"}
_FREQUENCIES = {"fourier_features": "fourier_frequencies"}
_NAMES_OF_4 = {
    **dict.fromkeys(("mlp", "conv", "fspool-set"), _CODES),
    "sum-pooled-set": _CODES | _FREQUENCIES,
    "attention": _FREQUENCIES,
    "langevin": {"max_step": "max_step_norm"},
    "mnist": {"variant": "dataset"},
}
_RULES_OF_4 = {"every": "all_above", "any": "any_beyond"}


def _from_4(values: Values) -> Values:
    """Rename settings by the kind of their part (`_NAMES_OF_4`), so that a setting of the same name in another
    package stays, and `zero_rule` with its values, which are `presence_rule` now."""
    values = {name: _from_4(item) if isinstance(item, dict) else item for name, item in values.items()}
    if "zero_rule" in values:
        values["presence_rule"] = _RULES_OF_4[values.pop("zero_rule")]
    return _renamed(values, _NAMES_OF_4.get(values.get("kind", ""), {}))


# -- from schema 3 -----------------------------------------------------------------------------------------


def _from_3(values: Values) -> Values:
    values = dict(values)
    if "method" in values:
        method = _renamed(values["method"], {"chain": "training_sampler"})
        default_encoder = method.get("encoder") == {"kind": "auto"}
        values["method"] = method | {"encoder": None} if default_encoder else method
    if "training" in values:
        names = {"decay": "lr_schedule", "best_is": "validation_mode", "on_nonfinite": "on_divergence"}
        training = _renamed(values["training"], names)
        modes = {"lowest": "min", "highest": "max"}
        mode = {"validation_mode": modes[training["validation_mode"]]} if "validation_mode" in training else {}
        values["training"] = training | mode
    return values


# -- from schema 1 -----------------------------------------------------------------------------------------


def _run_from_1(values: Values) -> Values:
    values = dict(values)
    parts = values.pop("predictor", {})
    training, task = dict(values.get("training", {})), _renamed(values["task"], {"shifted": "translate_fraction"})
    _without(training, "training", size_groups=1)
    method, representation, categories = _parts_from_1(parts)
    if categories:
        task["description"] = {"categories": categories}
    return values | {"task": task, "training": training, "method": method, "representation": representation}


def _predictor_from_1(values: Values) -> Values:
    values = dict(values)
    method, representation, categories = _parts_from_1(values.pop("settings", {}))
    shape = values["shape"] | {"description": {"categories": categories}}
    return values | {"shape": shape, "method": method, "representation": representation}


def _parts_from_1(parts: Values) -> tuple[Values, Values, Any]:
    """The settings of the method and of how sets become tensors, and which features are categories."""
    parts = dict(parts)
    _without(parts, "predictor", code=None)
    energy, estimator, sampler = (dict(parts.pop(name, {})) for name in ("energy", "estimator", "sampler"))
    padding = dict(parts.pop("padding", {}))
    categories = parts.pop("categories", ())
    representation = _renamed(padding, {"kind": "padding", "rule": "zero_rule"}) | parts
    method = _METHODS_OF_1[estimator.pop("kind", "denoising")]
    return method(energy, estimator, sampler), representation, categories


def _contrastive_from_1(energy: Values, estimator: Values, sampler: Values) -> Values:
    _without(estimator, "estimator", energy_penalty=0.0, tame_runaways=False, replay=0.0, replay_capacity=...)
    names = {"spare_runaways": "mask_divergent", "most_runaways": "max_divergent_fraction"}
    method = _renamed(estimator, names) | {"energy": _energy_from_1(energy, "deep-sets")}
    if "chain" in method:
        method["chain"] = _langevin_from_1(method["chain"])
    return {"kind": "contrastive", **method, "sampler": _langevin_from_1(sampler)}


def _denoising_from_1(energy: Values, estimator: Values, sampler: Values) -> Values:
    _without(estimator, "estimator", size_head="free")
    levels = {"mean_log_level": "p_mean", "deviation_log_level": "p_std", "energy_level": "energy_sigma"}
    method = _with_sizes(_renamed(estimator, levels | {"data_deviation": "sigma_data"}))
    method["sampler"] = _edm_from_1(sampler)
    if energy.pop("field", False):
        method.pop("energy_sigma", None)
        return {"kind": "denoiser", **method, "network": _energy_from_1(energy, "attention")}
    return {"kind": "denoising", **method, "energy": _energy_from_1(energy, "pooled-layers")}


def _set_risk_from_1(energy: Values, estimator: Values, sampler: Values) -> Values:
    del sampler  # it was saved, and never ran
    method = _with_sizes(_renamed(estimator, {"scored": "supervise"}))
    descent = {name: method.pop(name) for name in ("steps", "step_size") if name in method}
    return {"kind": "set-risk", **method, "descent": descent, "energy": _energy_from_1(energy, "deep-sets")}


def _tspn_from_1(energy: Values, estimator: Values, sampler: Values) -> Values:
    del sampler  # it was saved, and never ran
    energy.pop("kind", None)
    return {"kind": "tspn", **energy, **_with_sizes(estimator)}


def _with_sizes(method: Values) -> Values:
    """Settings of the cardinality, which were named after sizes."""
    names = {"sizes": "cardinality", "size_weight": "cardinality_weight", "size_hidden": "cardinality_hidden"}
    method = _renamed(method, names)
    return method | ({"cardinality": "predicted"} if method.get("cardinality") == "first" else {})


_METHODS_OF_1: dict[str, Callable[[Values, Values, Values], Values]] = {
    "contrastive": _contrastive_from_1,
    "denoising": _denoising_from_1,
    "set-risk": _set_risk_from_1,
    "direct": _tspn_from_1,
}


def _energy_from_1(energy: Values, default: str) -> Values:
    energy.pop("field", None)
    energy = {"kind": default} | _renamed(energy, {"waves": "fourier_features"})
    # Its default then; today's is another.
    return {"pooling": "fspool"} | energy if energy["kind"] == "pooled-layers" else energy


def _langevin_from_1(sampler: Values) -> Values:
    names = {"last_noise": "final_noise_scale", "largest_step": "max_step", "tries": "restarts"}
    return {"kind": "langevin"} | _renamed(sampler, names | {"from_tries": "aggregate"})


def _edm_from_1(sampler: Values) -> Values:
    sampler = dict(sampler)
    _without(sampler, "sampler", refinement=0, matching=0)
    names = {"highest": "sigma_max", "lowest": "sigma_min", "spacing": "rho", "stochasticity": "churn"}
    renamed = _renamed(sampler, names | {"sizes": "cardinality"})
    if "cardinality" in renamed:
        renamed["cardinality"] = {"drawn": "sampled", "likeliest": "mode"}[renamed["cardinality"]]
    return renamed | {"kind": "edm"}


def _weight_from_1(name: str, network: str) -> str:
    moved = {
        "energy.input_encoder.": "encoder.",
        "input_encoder.": "encoder.",
        "sizes.": "cardinality.",
        "energy.worth.": f"{network}head.",
        "energy.from_code.": f"{network}from_code.",
        "energy.from_element.": f"{network}from_element.",
        "energy.layers.": f"{network}layers.",
    }
    for old, new in moved.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def _renamed(values: Values, names: Mapping[str, str]) -> Values:
    return {names.get(name, name): value for name, value in values.items()}


def _without(values: Values, where: str, **removed: Any) -> None:
    """Remove settings that no longer exist, at the one value (``...``: any) that changed nothing.

    Raises:
        SettingsError: another value was used.
    """
    for name, neutral in removed.items():
        value = values.pop(name, neutral)
        if neutral is not ... and value != neutral:
            raise SettingsError(REMOVED.format(what=f"{where}.{name} = {value!r}"))
