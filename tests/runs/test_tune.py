"""Choosing a sampler on validation data."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from desp.data.base import Batch
from desp.errors import SettingsError
from desp.predictor import SetPredictor
from desp.recipes import get_recipe
from desp.report.folder import read_run
from desp.runs.evaluate import evaluate_run
from desp.runs.folder import RunFolder
from desp.runs.train import train_run
from desp.runs.tune import reset_run, tune_run
from desp.settings import (
    ContrastiveSettings,
    DeepSetsSettings,
    DescentSettings,
    EDMSettings,
    EnergyDenoisingSettings,
    FilesSettings,
    LangevinSettings,
    MethodSettings,
    PooledLayersSettings,
    RunSettings,
    SamplerSettings,
    SetRiskSettings,
    TrainingSettings,
    to_json,
)
from desp.tasks import EvaluationSetup, base
from desp.tasks.polygons import PolygonsTask

CHAIN = LangevinSettings(steps=10, stochastic_steps=8, noise_scale=0.02)
# Its noise hardly falls: scaled alone, the first would soon be below the last.
COOLED_CHAIN = replace(CHAIN, final_noise_scale=0.018, restarts=2)
EDM = EDMSettings(steps=3)


def tiny(recipe: str, method: MethodSettings) -> RunSettings:
    settings = get_recipe(recipe).build()
    return replace(
        settings,
        method=method,
        training=TrainingSettings(steps=2, batch_size=4),
        device="cpu",
    )


SMALL = DeepSetsSettings(hidden=8)
CHAINS = tiny("polygons-desp", ContrastiveSettings(energy=SMALL, training_sampler=CHAIN, sampler=CHAIN))
COOLED = replace(CHAINS, method=CHAINS.method.with_part("sampler", COOLED_CHAIN))
DENOISING = tiny(
    "polygons-denoising", EnergyDenoisingSettings(energy=PooledLayersSettings(hidden=8), p_mean=-0.8, sampler=EDM)
)


def traits(sampler: SamplerSettings) -> list[float]:
    """Its settings, with the fraction of stochastic steps in place of their number."""
    values = {name: value for name, value in vars(sampler).items() if isinstance(value, int | float)}
    if isinstance(sampler, LangevinSettings):
        values["stochastic_steps"] = sampler.stochastic_steps / sampler.steps
    return list(values.values())


def prefer(monkeypatch: pytest.MonkeyPatch, wanted: SamplerSettings) -> list[SamplerSettings]:
    """Score samplers by how many of their settings differ from `wanted`; returns those that were asked for."""
    asked: list[SamplerSettings] = []

    def score(_: base.Task, setup: EvaluationSetup, examples: Batch) -> float:
        sampler = setup.sampler
        assert sampler is not None
        asked.append(sampler)
        wrong = sum(mine != theirs for mine, theirs in zip(traits(sampler), traits(wanted), strict=True))
        return float(wrong)

    monkeypatch.setattr(base.Task, "validation_score", score)
    return asked


def test_samplers_are_compared_with_the_seed_of_the_run(
    trained: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the examples by which its weights were chosen, and with noise of the same seed."""
    seen: list[tuple[int, Tensor]] = []

    def distances(setup: EvaluationSetup, examples: Batch, samples: int) -> Tensor:
        seen.append((setup.seed, examples.sets.elements))
        return torch.zeros(1, 3, 3)

    monkeypatch.setattr(EvaluationSetup, "distances", distances)
    tune_run(trained)
    expected = trained.load_task().validation_batch(5, 50).sets.elements
    assert {seed for seed, _ in seen} == {5}
    assert all(torch.equal(elements, expected) for _, elements in seen)


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (CHAINS, LangevinSettings(steps=20, stochastic_steps=18, noise_scale=0.01)),
        pytest.param(
            COOLED,
            LangevinSettings(steps=20, stochastic_steps=18, noise_scale=0.01, final_noise_scale=0.009),
            marks=pytest.mark.long,
        ),
        (DENOISING, EDMSettings(steps=40, churn=0.2)),
    ],
    ids=["chains", "chains with falling noise", "edm"],
)
def test_every_setting_is_varied_and_the_best_is_used(
    settings: RunSettings, wanted: SamplerSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")
    train_run(settings, 0, folder)
    evaluate_run(folder)
    asked = prefer(monkeypatch, wanted)
    told: list[dict[str, Any]] = []
    result = tune_run(folder, told.append)
    assert len(asked) == len(set(asked)) == len(told) == len(result["candidates"])
    assert asked[0] == settings.method.prediction_sampler  # which may turn out best, and is the first to be beaten
    assert folder.load_predictor().method_settings.sampler == wanted
    assert SetPredictor.from_pretrained(folder.model).method_settings.sampler == wanted
    assert read_run(folder.path).settings["method"]["sampler"]["steps"] == wanted.steps
    assert json.loads(folder.tuning_file.read_text()) == result
    assert not folder.evaluation_file.exists()  # it was made with another sampler
    scored, _ = evaluate_run(folder)
    assert scored["settings"]["method"]["sampler"]["steps"] == wanted.steps
    assert any(line.startswith("method.sampler.steps: ") for line in scored["changed_settings"])
    # Trained longer, it begins anew.
    train_run(replace(settings, training=replace(settings.training, steps=3)), 0, folder, resume=True)
    assert folder.load_predictor().method_settings.sampler == settings.method.prediction_sampler


def test_back_to_the_first_sampler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path / "run")
    train_run(CHAINS, 0, folder)
    prefer(monkeypatch, LangevinSettings(steps=20, stochastic_steps=18, noise_scale=0.01))
    tune_run(folder)
    evaluate_run(folder)
    assert reset_run(folder) == CHAIN
    assert folder.load_predictor().method_settings.sampler == CHAIN
    assert not folder.tuning_file.exists()
    assert not folder.evaluation_file.exists()


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path / "run")
    train_run(DENOISING, 0, folder)
    prefer(monkeypatch, EDMSettings(steps=10))
    tune_run(folder)
    evaluate_run(folder)
    kept = {path: path.read_bytes() for path in (folder.tuning_file, folder.evaluation_file, folder.summary_file)}
    train_run(DENOISING, 0, folder, resume=True)
    assert {path: path.read_bytes() for path in kept} == kept


def test_a_sampler_without_a_score_is_never_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path / "run")
    train_run(CHAINS, 0, folder)
    monkeypatch.setattr(
        base.Task, "validation_score", lambda _, setup, __: math.nan if setup.sampler == CHAIN else 1.0
    )
    tuning = tune_run(folder)
    assert tuning["sampler"] != tuning["before"]


def test_the_sampler_stays_where_nothing_is_better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path / "run")
    train_run(CHAINS, 0, folder)
    monkeypatch.setattr(base.Task, "validation_score", lambda *_: 1.0)
    tuning = tune_run(folder)
    assert tuning["sampler"] == tuning["before"]


@pytest.mark.parametrize(
    ("noise", "count", "kept"), [(0.0, 8, False), (0.2, 8, False), (0.4, 8, True), (0.0, 1, True)]
)
def test_a_gain_within_noise_changes_nothing(
    noise: float, count: int, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other samplers are better by 0.1 on average; what all of them find hard does not count."""
    folder = RunFolder(tmp_path / "run")
    train_run(DENOISING, 0, folder)
    evaluate_run(folder)
    hard = 100.0 * torch.arange(count)
    pattern = noise * torch.tensor([1.0, -1.0]).repeat(count)[:count]

    def score(_: base.Task, setup: EvaluationSetup, examples: Batch) -> float:
        assert isinstance(setup.sampler, EDMSettings)
        return setup.mean_score(hard if setup.sampler == EDM else hard - 0.1 + pattern)

    monkeypatch.setattr(base.Task, "validation_score", score)
    result = tune_run(folder)
    assert (result["sampler"] == to_json(EDM)) == kept
    assert (folder.load_predictor().method_settings.sampler == EDM) == kept
    assert folder.evaluation_file.exists() == kept  # its scores are of the sampler that stays
    assert result["gain"] == pytest.approx(0.1, abs=1e-3)
    if count > 1:
        assert result["gain_se"] == pytest.approx(noise / 7**0.5, abs=1e-3)
    assert json.loads(folder.tuning_file.read_text()) == result


def test_scores_of_examples_are_paired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The energy score is a mean over examples, and each of them is there to compare by."""
    kept: list[Tensor] = []
    settings, seed = CHAINS, 0
    folder = RunFolder(tmp_path / "run")
    train_run(settings, seed, folder)
    run = folder.open()
    examples = run.task.validation_batch(seed, 6)
    assert examples is not None
    setup = EvaluationSetup(run.predictor, seed, 9, run.task.protocol("quick"), keep_each=kept.append)
    mean = run.task.validation_score(setup, examples)
    (each,) = kept
    assert each.shape == (6,)
    assert mean == pytest.approx(float(each.mean()))


def test_scores_are_real_and_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(PolygonsTask.protocols["full"], calibration_examples=6)
    monkeypatch.setattr(PolygonsTask, "protocols", {"full": few})
    folder = RunFolder(tmp_path / "run")
    train_run(DENOISING, 0, folder)
    first, second = tune_run(folder), tune_run(folder)
    scores = [[row["score"] for row in result["candidates"]] for result in (first, second)]
    assert scores[0] == scores[1]
    assert len(set(scores[0])) > 3


def test_what_cannot_be_tuned(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "risk")
    risk = SetRiskSettings(energy=SMALL, descent=DescentSettings(steps=2))
    train_run(tiny("polygons-risk-chamfer", risk), 0, folder)
    with pytest.raises(
        SettingsError, match=r"method 'set-risk' has no sampler that can be tuned \(langevin, edm or labels\)"
    ):
        tune_run(folder)
    with pytest.raises(SettingsError, match="method 'set-risk' has no sampler that can be tuned"):
        reset_run(folder)
    data = tmp_path / "few.jsonl"
    data.write_text("".join(json.dumps({"input": [i], "set": [[0.1 * i, 0.5]]}) + "\n" for i in range(3)))
    folder = RunFolder(tmp_path / "few")
    train_run(replace(CHAINS, recipe="custom", task=FilesSettings(path=str(data))), 0, folder)
    with pytest.raises(
        SettingsError, match=r"no validation examples, .* too few, or `fit` was given none \(pass validation_data="
    ):
        tune_run(folder)


def test_as_many_examples_are_told_as_there_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefer(monkeypatch, CHAIN)
    data = tmp_path / "some.jsonl"
    data.write_text("".join(json.dumps({"input": [i], "set": [[0.1 * i, 0.5]]}) + "\n" for i in range(20)))
    folder = RunFolder(tmp_path / "run")
    train_run(replace(CHAINS, recipe="custom", task=FilesSettings(path=str(data))), 0, folder)
    task: Any = folder.load_task()
    assert tune_run(folder)["examples"] == len(task.parts[1].examples) == 2
