"""Whole runs: whichever engine trained, the scores come from the same distribution."""

import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

SEEDS = range(4)
SMALL = (
    *("--task.corners", 3, 4, 5),
    *("--method.energy.hidden", 64),
    *("--method.training_sampler.steps", 40),
    *("--method.training_sampler.stochastic-steps", 40),
    *("--method.sampler.steps", 40),
    *("--method.sampler.stochastic-steps", 30),
    *("--training.steps", 200),
    *("--training.batch-size", 64),
    *("--training.learning-rate", 1.5e-3),
    *("--training.clip-norm", 0.1),
)


def desp(*arguments: object) -> str:
    """Run a command in a process of its own, without the live shape checks, which cannot be compiled."""
    command = [sys.executable, "-m", "desp", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def score(folder: Path, seed: int, engine: str, device: str) -> float:
    """The median score of one short run of Polygons, made small."""
    run = folder / f"{engine}-{seed}"
    where = ("--engine", engine, "--device", device)
    desp("train", "polygons-desp-paper", "--run", run, "--seed", seed, *SMALL, *where)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["engine"] == engine
    rows = json.loads(desp("evaluate", run, "--json"))
    return next(row["value"] for row in rows if row["metric"] == "score_median")


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("engine", "device"), [("compiled", "cpu"), pytest.param("graph", "cuda", marks=pytest.mark.gpu)]
)
def test_scores_do_not_depend_on_the_engine(tmp_path: Path, engine: str, device: str) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    jobs = [(tmp_path, seed, name, device) for name in ("eager", engine) for seed in SEEDS]
    with ThreadPoolExecutor(max_workers=len(jobs) if device == "cuda" else 2) as pool:
        scores = list(pool.map(lambda job: score(*job), jobs))
    plain, other = scores[: len(SEEDS)], scores[len(SEEDS) :]
    spread = max(statistics.stdev(plain), statistics.stdev(other))
    assert abs(statistics.mean(plain) - statistics.mean(other)) < 3 * spread, (plain, other)
