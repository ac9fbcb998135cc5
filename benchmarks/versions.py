"""Chains and training steps of two source trees, timed in turn on one machine: is one version slower?

    python benchmarks/versions.py ../old/src src --commits 33be6b2 c311993 --record results/comparisons/NAME.json

Each tree has a process of its own, which compiles and captures the chain of every task once and times it whenever
it is asked to. Asked in turn and in both orders, both meet the same clocks and temperatures. Training steps are
those of `desp bench train`, one process after the other.
"""

import argparse
import inspect
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CALLS = 4  # of a chain in one sample, as a single one may be too short
TASKS = ("polygons", "digits", "mnist", "clevr", "celeba")
TRAINED = ("polygons", "digits")


def serve(tasks: Sequence[str], repeats: int) -> None:
    """For each task that is named on stdin, write the milliseconds of its chain to stdout, a line each."""
    import torch

    from desp.benchmarks.chains import CHAINS, GRADIENTS_OF_A_TRAINING
    from desp.randomness import make_generator
    from desp.samplers import ChainEngine, LangevinSampler

    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # Older trees call it by another name.
    names = inspect.signature(ChainEngine).parameters
    expected = "expected_gradients" if "expected_gradients" in names else "gradients"
    chains = {}
    for case in CHAINS:
        if case.task in tasks:
            engine = ChainEngine(case.build(device), "auto", **{expected: GRADIENTS_OF_A_TRAINING})
            sampler, noise = LangevinSampler(case.chain()), make_generator("noise", device=device)
            chains[case.task] = engine, (sampler, case.code(device), case.start(device), noise)
            engine.run(*chains[case.task][1])
    print("ready", flush=True)
    for line in sys.stdin:
        engine, arguments = chains[line.strip()]
        engine.run(*arguments)
        samples = []
        for _ in range(repeats):
            began = _clock()
            for _ in range(CALLS):
                engine.run(*arguments)
            samples.append((_clock() - began) / CALLS)
        print(1e3 * statistics.median(samples), flush=True)


def _clock() -> float:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def _environment(source: Path) -> dict[str, str]:
    """The environment of a process that imports the library from `source`."""
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if Path(path).name != "src"]
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(source.resolve()), *others])}


class Server:
    """A process that times the chains of one tree."""

    def __init__(self, source: Path, tasks: Sequence[str], repeats: int) -> None:
        command = [sys.executable, __file__, "--serve", "--tasks", *tasks, "--repeats", str(repeats)]
        self.process = subprocess.Popen(  # noqa: S603 - this file
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment(source)
        )
        self._answer()

    def ms(self, task: str) -> float:
        """The time of one chain."""
        self.process.stdin.write(f"{task}\n")
        self.process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.process.args} has ended")
        return line


def chain_rows(sources: Sequence[Path], tasks: Sequence[str], rounds: int, repeats: int) -> list[dict[str, Any]]:
    """One row a task: medians over rounds, in which each tree is asked once."""
    servers = [Server(source, tasks, repeats) for source in sources]
    rows = []
    for task in tasks:
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(rounds):
            for index in (0, 1) if number % 2 else (1, 0):
                times[index].append(servers[index].ms(task))
        rows.append(_row("chain", task, *times))
    for server in servers:
        server.process.communicate()
    return rows


def training_rows(
    sources: Sequence[Path], tasks: Sequence[str], rounds: int, repeats: int
) -> list[dict[str, Any]]:
    """One row for each of these tasks of `desp bench train`."""
    command = [sys.executable, "-m", "desp", "bench", "train", "--repeats", str(repeats), "--json"]
    command += ["--tasks", *tasks]
    times: dict[str, tuple[list[float], list[float]]] = {}
    for number in range(rounds):
        for index in (0, 1) if number % 2 else (1, 0):
            done = subprocess.run(  # noqa: S603 - our own command
                command, env=_environment(sources[index]), capture_output=True, text=True, check=True
            )
            for row in json.loads(done.stdout):
                times.setdefault(row["task"], ([], []))[index].append(row["ms"])
    return [_row("training step", task, *both) for task, both in times.items()]


def _row(what: str, task: str, before: list[float], after: list[float]) -> dict[str, Any]:
    ratio = statistics.median(after) / statistics.median(before)
    row = {"what": what, "task": task, "ratio": ratio, "ms_before": before, "ms": after}
    print(f"{what} {task}: {statistics.median(before):.3f} ms before, ratio {ratio:.3f}", flush=True)
    return row


def main() -> None:
    """Time both trees, and record the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", type=Path, help="folders `src` of the earlier and the later version")
    parser.add_argument("--tasks", nargs="*", default=TASKS, help="chains to time; without a name: no chains")
    parser.add_argument("--rounds", type=int, default=6, help="times that each tree is asked for a chain")
    parser.add_argument("--training-rounds", type=int, default=0, help="the same for training steps (%(default)s)")
    parser.add_argument("--training-tasks", nargs="+", default=TRAINED, help="tasks whose training steps to time")
    parser.add_argument("--repeats", type=int, default=9, help="samples whose median is one time")
    parser.add_argument("--commits", nargs=2, help="of the two trees, for the record")
    parser.add_argument("--record", type=Path, help="where to write the rows, with their provenance")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.tasks, given.repeats)
        return
    if len(given.sources) != 2:
        parser.error(f"expected two folders `src`, of the earlier and the later version, got {len(given.sources)}")
    rows = chain_rows(given.sources, given.tasks, given.rounds, given.repeats) if given.tasks else []
    rows += training_rows(given.sources, given.training_tasks, given.training_rounds, given.repeats)
    if given.record:
        from desp.runs.provenance import provenance
        from desp.storage import write_json
        from desp.training.device import default_device

        known = {"commits": given.commits, "rows": rows, **provenance(default_device("auto"))}
        write_json(given.record, known)


if __name__ == "__main__":
    main()
