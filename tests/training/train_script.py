"""Train the tiny problem in processes of their own, which die on request.

Reads lines FOLDER KIND [--resume] [--kill-after STEPS | --kill-at-rename COUNT] and trains as each says, in a
process of its own that is forked from this one: loading torch takes longer than training. Writes the status that
each ended with.
"""

import argparse
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import torch
import torch._dynamo  # else every process would load it, with its first optimiser
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


def train(line: Sequence[str]) -> None:
    """Read the arguments and train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--kill-after", type=int)
    parser.add_argument("--kill-at-rename", type=int)
    arguments = parser.parse_args(line)
    if arguments.kill_at_rename:
        die_at_rename(arguments.kill_at_rename)
    source = ActingSource(arguments.kill_after, die) if arguments.kill_after else None
    trainer = rich_trainer(arguments.kind, arguments.folder, source=source)
    outcome = trainer.fit(arguments.resume)
    save_file(weights_of(trainer), arguments.folder / "last.safetensors")
    save_file(outcome.weights, arguments.folder / "outcome.safetensors")


def train_apart(line: Sequence[str]) -> int:
    """Train in a process of its own; returns the status that it ended with, negative for a signal."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        train(line)
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, it is told, and the process ends
        traceback.print_exc()
    os._exit(status)


def main() -> None:
    """One line after another."""
    torch.set_num_threads(1)
    for line in sys.stdin:
        sys.stdout.write(f"{train_apart(shlex.split(line))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
