"""What one of several processes does in `test_distributed.py`; started by a launcher.

    distributed_script.py FOLDER KIND...

Every process writes what it saw of each kind to FOLDER/KIND/rank-R.safetensors and FOLDER/KIND/rank-R.json, and
which threads it had before and after it left the others to FOLDER/threads-R.json.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from accelerate import Accelerator
from safetensors.torch import save_file
from tiny_problem import (
    RICH,
    SHORT,
    ActingSource,
    Kind,
    Recorder,
    make_predictor,
    make_trainer,
    polygons,
    weights_of,
)
from torch import Tensor

from desp.errors import TrainingError, TrainingInterrupted
from desp.training.device import make_accelerator
from desp.training.monitor import Monitor
from desp.training.processes import any_process, leave_processes, mean_of_processes


def one_step(kind: Kind, accelerator: Accelerator) -> dict[str, Tensor]:
    """The gradients of one step, on this process's own batch: without noise, where it can be without, and with.

    Every process has other weights at first, of which those of the first one count.
    """
    rank = accelerator.process_index
    quiet = make_trainer(make_predictor(kind, noise=0.0, seed=rank), SHORT, accelerator=accelerator)
    x, y = quiet.update.prepare(next(polygons(rank).batches(0)))
    quiet.update.gradients(x, y, torch.Generator())
    noisy = make_trainer(make_predictor(kind, seed=rank), replace(SHORT, steps=1), accelerator=accelerator)
    noisy.fit()
    return {
        "x": x,
        "y": y.contiguous(),
        **{f"quiet/{name}": value.grad for name, value in quiet.method.named_parameters()},
        **{f"noisy/{name}": value.grad for name, value in noisy.method.named_parameters()},
        **{f"first/{name}": value.clone() for name, value in noisy.method.named_buffers()},
    }


def train_until_asked_to_stop(kind: Kind, accelerator: Accelerator, folder: Path) -> tuple[dict, dict]:
    """Train; only the last process is asked to stop, and each would score the weights differently."""
    rank = accelerator.process_index
    last = rank == accelerator.num_processes - 1
    source = ActingSource(6, (lambda: os.kill(os.getpid(), signal.SIGTERM)) if last else (lambda: None), rank)
    callback = Recorder()
    own_scores = iter([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]][rank])
    trainer = make_trainer(
        make_predictor(kind, seed=rank),
        RICH,
        accelerator=accelerator,
        source=source,
        folder=folder / f"run-{rank}",
        validate=lambda: next(own_scores),
        callback=callback,
    )
    message = ""
    try:
        trainer.fit()
    except TrainingInterrupted as error:
        message = str(error)
    told = {"message": message, "scores": callback.scores, "step": trainer.state.step}
    weights = {f"weight/{name}": value for name, value in weights_of(trainer).items()}
    return weights | {f"average/{name}": value for name, value in trainer.average.tensors.items()}, told


def bad_step_of(accelerator: Accelerator) -> list[int]:
    """Which step all take for the first bad one: where none was, and where the last process has one alone."""
    found = []
    for step in (-1, 4 if accelerator.process_index else -1):
        monitor = Monitor(accelerator)
        monitor.bad_step.fill_(step)
        try:
            monitor.check()
            found.append(-1)
        except TrainingError as error:
            found.append(error.step)
    return found


def names_of_threads() -> list[str]:
    """Of all threads of this process, as Linux knows them."""
    return [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]


def work(kind: Kind, folder: Path, accelerator: Accelerator) -> None:
    """Do both and write down what was seen."""
    rank = accelerator.process_index
    folder.mkdir(exist_ok=True)
    tensors = one_step(kind, accelerator)
    weights, told = train_until_asked_to_stop(kind, accelerator, folder)
    tensors |= weights
    tensors["batches"] = torch.stack([batch.sets.elements for batch in islice(polygons(rank).batches(0), 7)])
    told["processes"] = accelerator.num_processes
    told["together"] = [
        any_process(accelerator, rank == 1),
        any_process(accelerator, False),
        mean_of_processes(accelerator, {"share": float(rank), "two": 2.0}),
        bad_step_of(accelerator),
    ]
    (folder / f"rank-{rank}.json").write_text(json.dumps(told))
    save_file(tensors, folder / f"rank-{rank}.safetensors")


def work_on_all(kinds: Sequence[Kind], folder: Path) -> int:
    """One kind after another; returns which process this is."""
    accelerator = make_accelerator("cpu", SHORT, None)
    for kind in kinds:
        work(kind, folder / kind, accelerator)
    return accelerator.process_index


def main() -> None:
    """Read the arguments, work and leave."""
    torch.set_num_threads(1)
    folder, kinds = Path(sys.argv[1]), sys.argv[2:]
    rank = work_on_all(kinds, folder)
    before = names_of_threads()
    leave_processes()
    (folder / f"threads-{rank}.json").write_text(json.dumps({"before": before, "after": names_of_threads()}))


if __name__ == "__main__":
    main()
