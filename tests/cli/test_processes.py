"""Training by several processes, as a user starts it."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

# `accelerate launch --cpu` starts one process however many are asked for; this launcher starts two, and the
# variable below keeps them on the CPU.
LAUNCH = ["launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
PLAIN = ["--mixed_precision", "no", "--dynamo_backend", "no"]
TINY = [
    *("--training.steps", "4", "--training.batch-size", "4", "--predictor.energy.hidden", "8"),
    *("--predictor.estimator.chain.steps", "2", "--predictor.estimator.chain.stochastic-steps", "2"),
    *("--predictor.sampler.steps", "2", "--predictor.sampler.stochastic-steps", "1", "--device", "cpu"),
]


def test_two_processes_train_one_run(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    run = tmp_path / "run"
    accelerate = str(Path(sys.executable).parent / "accelerate")
    command = [accelerate, *LAUNCH, *PLAIN, "--main_process_port", port, "-m", "desp", "train", "polygons-desp"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run(
        [*command, "--run", str(run), *TINY], env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads((run / "summary.json").read_text())["processes"] == 2
    assert done.stdout.count("trained 4 steps") == 1
    assert (run / "samples.json").is_file()
    assert (run / "model" / "model.safetensors").is_file()
