"""What one of several processes does in `test_distributed.py`; started by a launcher.

    distributed_script.py FOLDER KIND

Every process writes what it saw to FOLDER/rank-R.safetensors and FOLDER/rank-R.json, and which threads it had
before and after it left the others to FOLDER/threads-R.json.
"""

import json
import os
import signal
import sys
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

from desp.errors import TrainingInterrupted
from desp.training.device import make_accelerator
from desp.training.processes import Processes, leave_processes


def one_step(kind: Kind, accelerator: Accelerator) -> dict[str, Tensor]:
    """The gradients of one step without noise, on this process's own batch, and the batch."""
    rank = accelerator.process_index
    trainer = make_trainer(make_predictor(kind, noise=0.0), SHORT, accelerator=accelerator)
    x, y = trainer.prepare(next(polygons(rank).batches(0)))
    trainer.gradients(x, y, torch.Generator())
    names = {id(value): name for name, value in trainer.estimator.named_parameters()}
    gradients = {f"gradient/{names[id(value)]}": value.grad for value in trainer.gradients.parameters}
    return {"x": x, "y": y.contiguous(), **gradients}


def train_until_asked_to_stop(kind: Kind, accelerator: Accelerator, folder: Path) -> tuple[Tensor, dict]:
    """Train; only the last process is asked to stop, and each would score the weights differently."""
    rank = accelerator.process_index
    last = rank == accelerator.num_processes - 1
    source = ActingSource(6, (lambda: os.kill(os.getpid(), signal.SIGTERM)) if last else (lambda: None), rank)
    listener = Recorder()
    own_scores = iter([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]][rank])
    trainer = make_trainer(
        make_predictor(kind),
        RICH,
        accelerator=accelerator,
        source=source,
        folder=folder / f"run-{rank}",
        validate=lambda: next(own_scores),
        listener=listener,
    )
    message = ""
    try:
        trainer.fit()
    except TrainingInterrupted as error:
        message = str(error)
    told = {"message": message, "scores": listener.scores, "step": trainer.state.step}
    return weights_of(trainer), told


def names_of_threads() -> list[str]:
    """Of all threads of this process, as Linux knows them."""
    return [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]


def work(kind: Kind, folder: Path) -> int:
    """Do both and write down what was seen; returns which process this is."""
    accelerator = make_accelerator("cpu", SHORT, None)
    rank = accelerator.process_index
    tensors = one_step(kind, accelerator)
    weights, told = train_until_asked_to_stop(kind, accelerator, folder)
    tensors |= {f"weight/{name}": value for name, value in weights.items()}
    tensors["batches"] = torch.stack([batch.sets.elements for batch in islice(polygons(rank).batches(0), 7)])
    processes = Processes(accelerator)
    told["processes"] = accelerator.num_processes
    told["together"] = [
        processes.any(rank == 1),
        processes.any(False),
        processes.mean({"share": float(rank), "two": 2.0}),
    ]
    (folder / f"rank-{rank}.json").write_text(json.dumps(told))
    save_file(tensors, folder / f"rank-{rank}.safetensors")
    return rank


def main() -> None:
    """Read the arguments, work and leave."""
    torch.set_num_threads(1)
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    rank = work(kind, folder)
    before = names_of_threads()
    leave_processes()
    (folder / f"threads-{rank}.json").write_text(json.dumps({"before": before, "after": names_of_threads()}))


if __name__ == "__main__":
    main()
