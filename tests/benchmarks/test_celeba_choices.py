"""CelebA runs on validation sets."""

import sys
from pathlib import Path

import pytest

from desp.cli.main import main
from desp.settings import TaggerSettings

FOLDER = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))
import celeba_choices  # noqa: E402

sys.path.remove(str(FOLDER))
TRAINING = ["--training.steps", "2", "--training.validate-every", "2", "--training.batch-size", "8"]


@pytest.mark.parametrize(
    ("recipe", "samplers"),
    [("celeba-likelihood", len(celeba_choices.MIN_PROBABILITIES)), ("celeba-desp-paper", 1)],
)
def test_validation_sets_are_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str, samplers: int
) -> None:
    monkeypatch.setattr("desp.tasks.celeba.SIMULATED", {"training": 600, "validation": 500, "test": 500})
    small = ["--method.encoder.out", "4", "--method.energy.hidden", "8", "--device", "cpu"]
    main(["train", recipe, "--task.source", "simulated", "--run", str(tmp_path / "run"), *TRAINING, *small])
    found = celeba_choices.validation_scores(tmp_path / "run")
    assert (found["run"], found["seed"], found["features"]) == ("run", 0, None)
    assert found["settings"]["recipe"] == recipe
    assert len(found["scores"]) == samplers
    for scores in found["scores"].values():
        assert 0 <= scores["ambiguous/f1"] <= 1
    # The same sets and predictions as of validation while it was trained: the best weights are the last ones.
    own = "min_probability 0.03" if samplers > 1 else "own"
    log = (tmp_path / "run" / "log.jsonl").read_text()
    assert f'"validation_score": {1 - found["scores"][own]["f1"]}' in log


def test_a_tagger_is_scored_only_with_samplers_that_it_knows() -> None:
    """It chooses the more probable labels or samples, whatever other number it is given."""
    assert list(celeba_choices._samplers(TaggerSettings())) == ["min_probability None", "min_probability 1"]
