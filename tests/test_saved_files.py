"""Files that older versions saved: all at hand migrate, lose nothing, and stay the same from then on."""

import copy
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from desp.errors import CheckpointError, RunError, SettingsError
from desp.predictor import SetPredictor
from desp.report.folder import read_run
from desp.runs.folder import RunFolder
from desp.settings import (
    SCHEMA,
    DenoiserSettings,
    MethodSettings,
    RepresentationSettings,
    RunSettings,
    SetRiskSettings,
    TSPNSettings,
    from_json,
    migrate_predictor,
    migrate_run,
    to_json,
)

ROOT = Path(__file__).parents[1]
RUNS = sorted((ROOT / "tests/golden/runs").glob("*/settings.json"))
# Trained with replay, which was removed.
REPLAY = sorted((ROOT / "results/robust/until-80-replay").glob("*.json"))
ALL = sorted((ROOT / "results").rglob("*.json"))
RESULTS = [path for path in ALL if path not in REPLAY and "settings" in json.loads(path.read_text())]
each_file = pytest.mark.parametrize(
    "path", [*RUNS, *RESULTS], ids=lambda path: str(path.relative_to(ROOT).with_suffix(""))
)


def saved(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())["settings"]


def golden(case: str) -> RunSettings:
    return from_json(RunSettings, migrate_run(saved(ROOT / f"tests/golden/runs/{case}/settings.json")))


def leaves(values: Any) -> Iterator[str]:
    """All single values, as JSON writes them."""
    if isinstance(values, dict):
        for value in values.values():
            yield from leaves(value)
    elif isinstance(values, list):
        for value in values:
            yield from leaves(value)
    else:
        yield json.dumps(values)


def as_saved(settings: RunSettings) -> Any:
    """Settings as a file would hold them now."""
    return json.loads(json.dumps(to_json(settings)))


def test_there_are_files_of_every_method() -> None:
    assert len(RUNS) >= 9
    assert len(RESULTS) >= 70
    found = {golden(path.parent.name).method.kind for path in RUNS}
    assert found == {"contrastive", "energy-denoising", "denoiser", "set-risk", "tspn"}


@each_file
def test_a_saved_file_migrates_and_survives_json_from_then_on(path: Path) -> None:
    values = saved(path)
    before = copy.deepcopy(values)
    settings = from_json(RunSettings, migrate_run(values))
    assert values == before  # what is read is not changed
    again = json.loads(json.dumps({"schema": SCHEMA, **to_json(settings)}, allow_nan=False))
    assert migrate_run(again) == {name: again[name] for name in again if name != "schema"}
    assert from_json(RunSettings, migrate_run(again)) == settings


# Settings that came after a file may have been saved, with the value that changes nothing.
LATER = {
    "scenes": 20_000,
    "set_column": "set",
    "id_column": "id",
    "minutes": None,
    "elements_per_batch": None,
    "keep": "best",
    "calibrate_cardinality": False,
    "standardise_codes": False,
    "with_maximum": False,
    "temperature": 1.0,
    "local_heads": True,
    "training_rows": None,
    "validation_scene": None,
    "largest_noise": 0.0,
    "validation_distance": "chamfer",
    "people_in_training": None,
}


def named(values: Any, name: str) -> list[Any]:
    """All values of settings of this name."""
    if isinstance(values, list):
        return [found for item in values for found in named(item, name)]
    if not isinstance(values, dict):
        return []
    own = [values[name]] if name in values else []
    return own + [found for item in values.values() for found in named(item, name)]


def later_leaves(values: Any, settings: RunSettings) -> list[str]:
    """Of settings that came after a file was saved."""
    found = []
    for name, value in LATER.items():
        before, now = named(values, name), named(as_saved(settings), name)
        found += [json.dumps(value)] * (len(now) - len(before))
    return found


def _leaves_lost(values: Any, settings: RunSettings) -> dict[str, int]:
    """How often a value occurs more, or less, than in the settings that are read from it."""
    wanted = Counter(RENAMED.get(leaf, leaf) for leaf in [*leaves(values), *later_leaves(values, settings)])
    wanted.subtract(leaves(as_saved(settings)))
    return {leaf: count for leaf, count in wanted.items() if count}


GONE = {
    "predictor": ("code",),
    "training": ("size_groups",),
    "estimator": ("energy_penalty", "tame_runaways", "replay", "replay_capacity", "size_head", "kind"),
    "sampler": ("refinement", "matching", "kind"),
    "padding": (),
}
RENAMED = {
    '"first"': '"predicted"',
    '"drawn"': '"sampled"',
    '"likeliest"': '"mode"',
    '"every"': '"all_above"',
    '"any"': '"any_beyond"',
    '"denoising"': '"energy-denoising"',
}
# Settings that came later, with the value that changes nothing: files of schemas that have all others lack them.
ADDED = {"energy-denoising": {"noise_draws": 1}, "denoiser": {"noise_draws": 1}}


@each_file
def test_no_value_of_a_saved_file_is_lost(path: Path) -> None:
    """Whatever they are called now, all values are there, but for what was removed or never did anything."""
    values = copy.deepcopy(saved(path))
    settings = from_json(RunSettings, migrate_run(saved(path)))
    if values.get("schema", 1) >= 5:
        if values.pop("schema") < 7 and values["task"]["kind"] == "files":
            values["task"]["split"] = "examples"  # as it was for all
        assert _leaves_lost(values, settings) == {}
        return
    mode = {"lowest": "min", "highest": "max"}[values["training"].pop("best_is")]
    assert settings.training.validation_mode == mode
    if values.pop("schema", 1) > 1:
        values["method"]["encoder"] = None if values["method"]["encoder"] == {"kind": "auto"} else ...
        added = ADDED.get(settings.method.kind, {})
        assert not added.keys() & values["method"].keys()
        assert {name: getattr(settings.method, name) for name in added} == added
        later = [*leaves(added), *later_leaves(values, settings)]
        wanted = Counter(RENAMED.get(leaf, leaf) for leaf in [*leaves(values), *later])
        assert wanted + Counter([json.dumps(mode)]) == Counter(leaves(as_saved(settings)))
        return
    predictor = values["predictor"]
    for part, names in GONE.items():
        group = predictor if part == "predictor" else values[part] if part == "training" else predictor[part]
        for name in names:
            group.pop(name, None)
    if settings.method.prediction_sampler is None or isinstance(settings.method, SetRiskSettings):
        del predictor["sampler"]  # direct risk never used it
    if isinstance(settings.method, TSPNSettings):
        del predictor["energy"]["kind"]
    if isinstance(settings.method, DenoiserSettings):
        del predictor["estimator"]["energy_level"]
    predictor["energy"].pop("field", None)
    wanted = Counter(RENAMED.get(leaf, leaf) for leaf in leaves(values))
    assert not wanted - Counter(leaves(as_saved(settings)))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.parent.name)
def test_a_saved_model_migrates_to_the_method_of_its_run(path: Path) -> None:
    config = json.loads((path.parent / "model" / "config.json").read_text())["desp"]
    before = copy.deepcopy(config)
    values = migrate_predictor(config)
    assert config == before
    run = golden(path.parent.name)
    assert from_json(MethodSettings, values["method"]) == run.method
    assert from_json(RepresentationSettings, values["representation"]) == run.representation
    shape = {**config["shape"], "description": {"categories": config["settings"]["categories"]}}
    assert (values["shape"], values["own_encoder"]) == (shape, config["own_encoder"])
    assert "settings" not in values


@pytest.mark.parametrize("path", REPLAY, ids=lambda path: path.stem)
def test_results_with_replay_stay_readable_and_cannot_be_used(path: Path) -> None:
    message = "estimator.replay = 0.5 was removed from desp, so this run can no longer be used"
    with pytest.raises(SettingsError, match=message):
        migrate_run(saved(path))


def change(file: Path, *place: str, value: Any) -> None:
    """Write another value to a JSON file."""
    content = json.loads(file.read_text())
    *way, last = place
    group = content
    for name in way:
        group = group[name]
    group[last] = value
    file.write_text(json.dumps(content))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A saved run of schema 1."""
    return Path(shutil.copytree(ROOT / "tests/golden/runs/denoising", tmp_path / "run"))


def test_a_summary_of_an_older_version(run: Path) -> None:
    score = json.loads((run / "summary.json").read_text())["best_score"]
    for summary in (RunFolder(run).read_summary(), read_run(run).summary):
        assert summary is not None
        assert (summary["kept_score"], summary["kept_step"]) == (score, 20)
        assert "best_score" not in summary
    (run / "summary.json").unlink()
    assert RunFolder(run).read_summary() is None


OTHERS = {
    "removed": (("sampler", "matching"), 2, "sampler.matching = 2 was removed from desp"),
    "newer": (
        ("schema",),
        SCHEMA + 1,
        rf"schema {SCHEMA + 1}; this version of desp reads \[1, 3, 4, 5, 6, {SCHEMA}\]",
    ),
}
each_other = pytest.mark.parametrize(("place", "value", "message"), OTHERS.values(), ids=OTHERS)


@each_other
def test_a_run_of_another_version_is_not_called_damaged(
    place: tuple[str, ...], value: object, message: str, run: Path
) -> None:
    assert RunFolder(run).load_settings()[0] == golden("denoising")
    change(run / "settings.json", "settings", *(("predictor",) if len(place) > 1 else ()), *place, value=value)
    with pytest.raises(RunError, match=message) as caught:
        RunFolder(run).load_settings()
    assert "damaged" not in str(caught.value)


@each_other
def test_a_model_of_another_version_is_not_called_damaged(
    place: tuple[str, ...], value: object, message: str, run: Path
) -> None:
    assert SetPredictor.from_pretrained(run / "model").method_settings == golden("denoising").method
    config = run / "model" / "config.json"
    change(config, "desp", *(("settings",) if len(place) > 1 else ()), *place, value=value)
    with pytest.raises(CheckpointError, match=message) as caught:
        SetPredictor.from_pretrained(run / "model")
    assert "damaged" not in str(caught.value)
