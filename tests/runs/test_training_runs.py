"""What a training run is told, keeps and writes."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import tiny

import desp.runs.evaluate
import desp.runs.train
from desp.errors import RunError
from desp.methods import Contrastive
from desp.predictor import SetPredictor
from desp.runs.folder import RunFolder
from desp.runs.train import train_run
from desp.settings import (
    EnergyDenoisingSettings,
    FilesSettings,
    PooledLayersSettings,
    RepresentationSettings,
    RunSettings,
    TrainingSettings,
)
from desp.training import TrainingCallback, TrainingOutcome

SEED = 5


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


def test_measurements_with_earlier_weights_are_removed(trained: RunFolder) -> None:
    files = [trained.evaluation_file, trained.samples_file, trained.ablation_file, trained.tuning_file]
    assert [file.name for file in files] == ["evaluation.json", "samples.json", "ablation.json", "tuning.json"]
    for file in files:
        file.write_text("{}")
    train_run(tiny(), SEED, trained, resume=True)  # at its end already
    assert all(file.exists() for file in files)
    train_run(tiny(steps=5), SEED, trained, resume=True)
    assert not any(file.exists() for file in files)


def test_a_run_has_its_engine_and_device(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    class Enough(Exception):
        pass

    def told(predictor: SetPredictor, *_: Any, **__: Any) -> None:
        raise Enough(predictor.engine, predictor.device_choice)

    make, made = desp.runs.train.make_accelerator, []
    monkeypatch.setattr(desp.runs.train, "train_predictor", told)
    monkeypatch.setattr(desp.runs.train, "make_accelerator", lambda *args: made.append(args) or make(*args))
    settings = replace(tiny(), engine="compiled")
    with pytest.raises(Enough) as raised:
        train_run(settings, SEED, folder)
    assert raised.value.args == ("compiled", "cpu")
    assert made == [("cpu", settings.training, folder.path)]


def test_another_run_is_not_resumed(trained: RunFolder) -> None:
    with pytest.raises(RunError, match="--seed 5, not 6"):
        train_run(tiny(), 6, trained, resume=True)
    other = replace(tiny(), training=replace(tiny().training, learning_rate=0.2))
    with pytest.raises(RunError, match=r"training\.learning_rate: 0\.1 then, 0\.2 now"):
        train_run(other, SEED, trained, resume=True)


def test_a_run_that_lost_its_model_keeps_its_length(trained: RunFolder) -> None:
    shutil.rmtree(trained.model)
    assert train_run(tiny(steps=3), SEED, trained, resume=True).steps == 4
    assert trained.load_settings()[0].training.steps == 4
    assert trained.model.is_dir()


def test_the_files_of_a_run(trained: RunFolder) -> None:
    """Users and earlier runs know them by these names."""
    names = {path.name for path in trained.path.iterdir()}
    assert names == {"checkpoints", "log.jsonl", "model", "settings.json", "summary.json"}
    settings = json.loads((trained.path / "settings.json").read_text())
    assert settings.keys() == {"recipe", "seed", "settings", "data_fingerprint", "parts"}


def test_a_callback_is_told(folder: RunFolder) -> None:
    told: list[str] = []

    class Callback(TrainingCallback):
        def __getattribute__(self, name: str) -> Any:
            told.append(name)
            return super().__getattribute__(name)

    train_run(tiny(), SEED, folder, callback=Callback())
    assert told


def test_numbers_are_multiplied_as_precisely_as_the_settings_say(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In training and in prediction, and nowhere else in the process."""
    before, seen = torch.get_float32_matmul_precision(), []
    assert before != "medium"

    def noted(method: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*given: Any, **more: Any) -> Any:
            seen.append((method.__name__, torch.get_float32_matmul_precision()))
            return method(*given, **more)

        return noting

    for name in ("forward", "encode", "sample_batch", "energy_batch"):
        monkeypatch.setattr(Contrastive, name, noted(getattr(Contrastive, name)))
    train_run(replace(tiny(), matmul_precision="medium"), SEED, folder)
    assert {name for name, _ in seen} >= {"forward"}
    predictor = folder.load_predictor()
    assert predictor.matmul_precision == "medium"
    predictor.predict(torch.eye(5)[:2])
    assert {name for name, _ in seen} == {"forward", "encode", "sample_batch", "energy_batch"}
    assert {precision for _, precision in seen} == {"medium"}
    assert torch.get_float32_matmul_precision() == before


def test_the_summary_tells_how_training_went(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"steps": 4, "stopped_early": True, "rollbacks": 3}
    outcome = TrainingOutcome(weights={}, seconds=1.23456, engine="eager", score=0.5, score_step=2, **facts)
    monkeypatch.setattr(desp.runs.train, "train_predictor", lambda *_, **__: outcome)
    monkeypatch.setenv("DESP_COMMIT", "abc")
    assert train_run(tiny(), SEED, folder) is outcome
    summary = json.loads((folder.path / "summary.json").read_text())
    assert {name: summary[name] for name in facts} == facts
    assert (summary["kept_score"], summary["kept_step"], summary["kept_score_se"]) == (0.5, 2, None)
    assert (summary["seconds"], summary["engine"], summary["processes"]) == (1.23, "eager", 1)
    assert summary["commit"] == "abc"
    assert summary.keys() >= {"device", "versions", "command", "peak_memory_mb", "parameters"}


def test_the_settings_of_training_arrive(folder: RunFolder) -> None:
    settings = replace(tiny(), training=TrainingSettings(steps=3, batch_size=2, checkpoint_every=1, log_every=1))
    train_run(settings, SEED, folder)
    assert len((folder.path / "log.jsonl").read_text().splitlines()) >= 3
    assert folder.load_settings() == (settings, SEED)


def test_an_example_with_several_answers_counts_once(tmp_path: Path) -> None:
    """In the model card as in the summary."""
    path, folder = tmp_path / "data.jsonl", RunFolder(tmp_path / "run")
    answers = [[[0.0]], [[1.0]]]
    path.write_text("".join(json.dumps({"input": number, "answers": answers}) + "\n" for number in range(20)))
    settings = replace(
        tiny(), recipe="custom", task=FilesSettings(path=str(path)), representation=RepresentationSettings()
    )
    train_run(settings, SEED, folder)
    examples = json.loads(folder.summary_file.read_text())["examples"]
    assert examples == folder.load_predictor().facts["examples"] == 16
    assert f"| examples | {examples} |" in (folder.model / "README.md").read_text()


def test_the_cardinality_is_calibrated_on_the_validation_examples(tmp_path: Path) -> None:
    """Of data whose inputs do not tell it, so that what is learned of it is overfitted."""
    path, generator = tmp_path / "data.jsonl", torch.Generator().manual_seed(0)
    sizes = torch.randint(1, 5, (160,), generator=generator).tolist()
    pairs = [(torch.randn(2, generator=generator), torch.rand(n, 2, generator=generator)) for n in sizes]
    path.write_text("".join(json.dumps({"input": x.tolist(), "set": y.tolist()}) + "\n" for x, y in pairs))
    whole = RunSettings(
        recipe="custom",
        task=FilesSettings(path=str(path), held_out=0.25),
        method=EnergyDenoisingSettings(energy=PooledLayersSettings(hidden=8)),
        training=TrainingSettings(steps=200, learning_rate=3e-2, batch_size=16, warmup_steps=0, ema_decay=None),
        device="cpu",
    )
    folders, temperatures = [RunFolder(tmp_path / name) for name in ("plain", "calibrated")], []
    for folder, calibrates in zip(folders, (False, True), strict=True):
        training = replace(whole.training, calibrate_cardinality=calibrates)
        outcome = train_run(replace(whole, training=training), SEED, folder)
        temperatures.append(json.loads(folder.summary_file.read_text())["cardinality_temperature"])
        assert temperatures[-1] == outcome.cardinality_temperature
    predictor, task = folders[0].load_predictor(), folders[0].load_task()
    examples = task.validation_batch(SEED, task.protocol("full").validation_examples)
    assert examples is not None
    weights = [folder.load_predictor().method.state_dict() for folder in folders]
    assert not same(*weights)
    temperature = predictor.method.calibrate_cardinality(predictor.encode(examples.x), examples.sets.sizes)
    assert temperatures == [None, temperature]
    assert temperature is not None
    assert temperature > 1.1
    assert same(predictor.method.state_dict(), weights[1])
