"""Commands on a system that has neither an energy nor a sampler."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from desp.errors import SettingsError
from desp.paper.ablation import ablate_run
from desp.recipes import get_recipe
from desp.report.page import write_report
from desp.runs.evaluate import evaluate_run, sample_run
from desp.runs.folder import RunFolder
from desp.runs.predict import predict_file
from desp.runs.train import train_run
from desp.runs.tune import tune_run
from desp.settings import TrainingSettings, TSPNSettings


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A transformer, trained on polygons for two steps."""
    settings = replace(
        get_recipe("polygons-denoising").build(),
        method=TSPNSettings(hidden=8, layers=1, heads=2, feedforward=8, latent=6, cardinality_hidden=8),
        training=TrainingSettings(steps=2, batch_size=4),
        device="cpu",
    )
    folder = RunFolder(tmp_path / "run")
    train_run(settings, 0, folder)
    return folder


def test_scores_have_no_energy(run: RunFolder) -> None:
    result, _ = evaluate_run(run, samples=2)
    assert result["energy"] is None
    assert result["scores"]["returned"]["score"] is not None


def test_predictions_are_json_without_energies(run: RunFolder, tmp_path: Path) -> None:
    inputs = tmp_path / "inputs.jsonl"
    inputs.write_text('{"input": 5}\n')
    predict_file(run, inputs, tmp_path / "out.jsonl", samples=3)
    line = json.loads((tmp_path / "out.jsonl").read_text(), parse_constant=pytest.fail)
    assert [item["energy"] for item in line["samples"]] == [None] * 3


def test_the_report_leaves_chains_and_energies_out(run: RunFolder) -> None:
    sample_run(run, samples=2)
    shown = json.loads(run.samples_file.read_text(), parse_constant=pytest.fail)["examples"]
    assert all(example["chain"]["frames"] == [] for example in shown)
    assert {item["energy"] for example in shown for item in example["samples"]} == {None}
    page = write_report(run.path)
    assert "E = nan" not in page.read_text()


def test_there_is_no_sampler_to_choose(run: RunFolder) -> None:
    with pytest.raises(SettingsError, match=r"has no sampler that can be tuned \(langevin, edm or labels\)"):
        tune_run(run)
    with pytest.raises(SettingsError, match="no S/T to vary"):
        ablate_run(run, [0.5])
