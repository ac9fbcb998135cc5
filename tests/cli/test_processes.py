"""Training by several processes, as a user starts it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

TINY = [
    *("--training.steps", "4", "--training.batch-size", "4", "--method.energy.hidden", "8"),
    *("--method.training_sampler.steps", "2", "--method.training_sampler.stochastic-steps", "2"),
    *("--method.sampler.steps", "2", "--method.sampler.stochastic-steps", "1", "--device", "cpu"),
]


THREADS_AT_THE_END = """
import atexit, os, pathlib, sys
from desp.cli import main

def write_threads():
    names = [path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/comm")]
    pathlib.Path(sys.argv[1], f"{os.environ['RANK']}.txt").write_text("".join(names))

atexit.register(write_threads)
main(sys.argv[2:])
"""


@pytest.mark.long
@pytest.mark.parametrize("start", ["start_two", "launch_two"])
def test_two_processes_train_one_run(tmp_path: Path, request: pytest.FixtureRequest, start: str) -> None:
    """And leave no thread to be killed at exit. A launcher does no more than start them, and takes seconds."""
    start_processes: Callable[..., str] = request.getfixturevalue(start)
    script, run = tmp_path / "script.py", tmp_path / "run"
    script.write_text(THREADS_AT_THE_END)
    shown = start_processes(str(script), str(tmp_path), "train", "polygons-desp", "--run", str(run), *TINY)
    assert json.loads((run / "summary.json").read_text())["processes"] == 2
    assert shown.count("trained 4 steps") == shown.count("next:") == 1
    assert (run / "samples.json").is_file()
    assert (run / "model" / "model.safetensors").is_file()
    for rank in range(2):
        names = (tmp_path / f"{rank}.txt").read_text()
        assert "python" in names
        assert "gloo" not in names
