"""Set-MNIST runs on validation digits."""

import json
import sys
from pathlib import Path

import pytest
import torch

from desp.cli.main import main
from desp.recipes import get_recipe
from desp.sets import SetBatch
from desp.tasks.mnist import SetMnistTask

FOLDER = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))
import mnist_choices  # noqa: E402

sys.path.remove(str(FOLDER))
SMALL = [
    *("--device", "cpu", "--training.steps", "1", "--training.validate-every", "0", "--training.batch-size", "4"),
    *("--training.warmup-steps", "1", "--method.energy.hidden", "8", "--method.energy.latent", "6"),
    *("--method.training-sampler.steps", "2", "--method.training-sampler.stochastic-steps", "2"),
    *("--method.sampler.steps", "3", "--method.sampler.stochastic-steps", "2"),
]


def test_validation_digits_are_scored_by_every_sampler(
    tiny_mnist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, record = tmp_path / "run", tmp_path / "choices.json"
    main(["train", "mnist-desp", "--data-dir", str(tiny_mnist), "--run", str(run), *SMALL])
    some = {name: mnist_choices.CHANGES[name] for name in ("own", "a single chain", "constant noise")}
    monkeypatch.setattr(mnist_choices, "CHANGES", some)
    monkeypatch.setattr(SetMnistTask, "evaluate", lambda *_: pytest.fail("test digits must not be scored"))
    monkeypatch.setattr(sys, "argv", ["choices", str(run), "--digits", "3", "--record", str(record)])
    mnist_choices.main()
    (row,) = json.loads(record.read_text())["rows"]
    assert list(row["scores"]) == list(some)
    assert row["digits"] == 3
    assert list(row["at_border"]) == ["row and column 0", "row and column 1"]
    assert len({scores["chamfer"] for scores in row["scores"].values()}) == 3
    assert "run a single chain: chamfer" in capsys.readouterr().out


def test_digits_are_moved_to_the_border() -> None:
    elements = torch.tensor([[[3.0, 5.0], [4.0, 7.0], [0.0, 0.0]], [[2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]]) / 27
    sets = SetBatch(elements, torch.tensor([[True, True, False], [True, False, False]]))
    moved = mnist_choices.moved_to(sets, 1)
    expected = torch.tensor([[[1, 1, 27], [2, 3, 27], [0, 0, 0]], [[1, 1, 27], [0, 0, 0], [0, 0, 0]]]) / 27
    torch.testing.assert_close(moved, expected)


def test_every_change_is_a_valid_chain() -> None:
    own = get_recipe("mnist-desp").build().method.prediction_sampler
    assert len(mnist_choices._samplers(own)) == len(mnist_choices.CHANGES)
    assert mnist_choices._samplers(None) == {"own": None}
