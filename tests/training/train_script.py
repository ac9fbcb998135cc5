"""Train the tiny problem in a process of its own, and die on request.

python train_script.py FOLDER KIND [--resume] [--kill-after STEPS | --kill-at-rename COUNT]
"""

import argparse
import os
import signal
from pathlib import Path

import torch
from safetensors.torch import save_file
from tiny_problem import ActingSource, rich_trainer, weights_of


def die() -> None:
    """End as a machine that loses its power would: no handler, no clean-up."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_rename(count: int) -> None:
    """Die when a checkpoint of a step is about to be renamed for the `count`-th time."""
    rename, seen = os.replace, 0

    def replace(source: Path, target: Path) -> None:
        nonlocal seen
        seen += Path(target).name.startswith("step-")
        if seen == count:
            die()
        rename(source, target)

    os.replace = replace


def main() -> None:
    """Read the arguments and train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--kill-after", type=int)
    parser.add_argument("--kill-at-rename", type=int)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.kill_at_rename:
        die_at_rename(arguments.kill_at_rename)
    source = ActingSource(arguments.kill_after, die) if arguments.kill_after else None
    trainer = rich_trainer(arguments.kind, arguments.folder, source=source)
    outcome = trainer.fit(arguments.resume)
    save_file(weights_of(trainer), arguments.folder / "last.safetensors")
    save_file(outcome.weights, arguments.folder / "outcome.safetensors")


if __name__ == "__main__":
    main()
