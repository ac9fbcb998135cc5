"""Short runs whose losses and predictions are on file, one for each method.

    python tests/golden/golden_runs.py OUTPUT [--double] [CASE ...]

trains every case as its settings on file say, predicts with the new model and with the one on file, and writes all
numbers to OUTPUT/CASE.json. It uses only the command line, so that one script serves any version of the library:
`compare_commits.py` runs it for two.

A case is a folder in ``runs/``: a run folder as commit 33be6b2 wrote it, which must go on loading, with
``inputs.jsonl`` to predict for and ``golden.json``, the numbers of that commit. In double precision these are the
same on every CPU; in single precision only on the one that is named there.
"""

import argparse
import contextlib
import io
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from tiny_mnist import write_tiny_mnist

RUNS = Path(__file__).parent / "runs"
CASES = sorted(path.name for path in RUNS.iterdir())
SAMPLES = (1, 3)

Numbers = dict[str, Any]


@contextlib.contextmanager
def precision(double: bool) -> Iterator[None]:
    """Make new tensors double for a while: CPUs round differently, but then hardly."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if double else torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def arithmetic() -> dict[str, str]:
    """What decides the last bit of a sum: the CPU and torch."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return {"cpu": f"{cpu}, {torch.backends.cpu.get_cpu_capability()}", "torch": torch.__version__}


def desp(*arguments: object) -> None:
    """Run a command, silently unless it fails."""
    from desp.cli import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main([str(item) for item in arguments])
        except SystemExit as end:
            if end.code:
                raise RuntimeError(said.getvalue()) from end


def own_data() -> str:
    """Examples of one to three elements, two numbers of different units and a category of two kinds, as lines."""
    lines = []
    for index in range(24):
        a, b = (index % 5) / 4, (index % 7) / 3 - 1
        elements = [[100 * a + 7 * i, b - 0.3 * i, float(i % 2), float(1 - i % 2)] for i in range(index % 3 + 1)]
        lines.append(json.dumps({"input": [a, b], "set": elements}))
    return "\n".join(lines) + "\n"


def use_tiny_mnist(folder: Path) -> str:
    """Make a tiny MNIST pass for the official one; returns its fingerprint."""
    from desp.data import mnist_files

    mnist_files.CHECKSUMS["mnist"] = write_tiny_mnist(folder / "mnist")
    return mnist_files.check_files(folder / "mnist", "mnist")


def begin(case: str, folder: Path, *parts: str) -> Path:
    """A run folder with `parts` of the case on file, whose settings name data that are there; returns it."""
    run, data = folder / case, folder / f"{case}-data"
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    data.mkdir(exist_ok=True)
    for part in parts:
        source = RUNS / case / part
        (shutil.copytree if source.is_dir() else shutil.copy)(source, run / part)
    values = json.loads((RUNS / case / "settings.json").read_text())
    task = values["settings"]["task"]
    if task["kind"] == "mnist":
        values["data"], task["data_dir"] = use_tiny_mnist(data), str(data)
    if task["kind"] == "files":
        task["path"] = str(data / "sets.jsonl")
        (data / "sets.jsonl").write_text(own_data())
    (run / "settings.json").write_text(json.dumps(values))
    return run


def train(case: str, folder: Path) -> Path:
    """Train the case from its settings alone; returns the run folder."""
    run = begin(case, folder)
    recipe = json.loads((run / "settings.json").read_text())["recipe"]
    desp("train", recipe, "--run", run, "--resume")
    return run


def losses(run: Path) -> list[float]:
    """The loss of every step."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def predict(case: str, run: Path, samples: int) -> list[dict[str, Any]]:
    """What a run predicts for the inputs of the case."""
    output = run / f"predicted-{samples}.jsonl"
    desp("predict", run, "--input", RUNS / case / "inputs.jsonl", "--samples", samples, "--output", output)
    return [json.loads(line) for line in output.read_text().splitlines()]


def record_training(case: str, folder: Path) -> Numbers:
    """The losses of a new run, and what it predicts."""
    run = train(case, folder / "trained")
    return {"losses": losses(run)} | {f"trained, K={k}": predict(case, run, k) for k in SAMPLES}


def record_saved(case: str, folder: Path) -> Numbers:
    """What the model on file predicts."""
    run = begin(case, folder / "saved", "model")
    return {f"saved, K={k}": predict(case, run, k) for k in SAMPLES}


def main() -> None:
    """Write OUTPUT/CASE.json for every case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--double", action="store_true", help="double precision")
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("DESP_COMMIT", "0" * 40)
    sys.modules["matplotlib"] = None  # type: ignore[assignment] # no report: it takes longer than the rest
    for case in options.cases:
        with precision(options.double):
            numbers = record_training(case, options.output / case) | record_saved(case, options.output / case)
        (options.output / f"{case}.json").write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
