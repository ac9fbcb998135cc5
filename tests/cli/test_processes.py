"""Training by several processes, as a user starts it."""

import json
from collections.abc import Callable
from pathlib import Path

TINY = [
    *("--training.steps", "4", "--training.batch-size", "4", "--predictor.energy.hidden", "8"),
    *("--predictor.estimator.chain.steps", "2", "--predictor.estimator.chain.stochastic-steps", "2"),
    *("--predictor.sampler.steps", "2", "--predictor.sampler.stochastic-steps", "1", "--device", "cpu"),
]


def test_two_processes_train_one_run(tmp_path: Path, launch_two: Callable[..., str]) -> None:
    run = tmp_path / "run"
    shown = launch_two("-m", "desp", "train", "polygons-desp", "--run", str(run), *TINY)
    assert json.loads((run / "summary.json").read_text())["processes"] == 2
    assert shown.count("trained 4 steps") == shown.count("next:") == 1
    assert (run / "samples.json").is_file()
    assert (run / "model" / "model.safetensors").is_file()
